"""Nothing but a ConfigError comes out of a malformed config, and it says where."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from specdec_cli.config import load_config
from specdec_cli.errors import ConfigError
from tests.config.malformed import MalformedConfig, malformed_configs


def refusal_of(config: MalformedConfig) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_config(config.path, environ={})
    return caught.value


@pytest.mark.parametrize("seed", range(2))
def test_every_malformed_config_is_refused_with_its_place(tmp_path: Path, seed: int) -> None:
    configs = malformed_configs(tmp_path, seed)
    assert len(configs) >= 200
    for config in configs:
        error = refusal_of(config)
        said = f"{error.message}\n{error.hint}"
        assert str(config.path) in error.message, (config, said)
        for name in config.names:
            assert name in said, (config, said)
        assert error.hint, (config, said)
        assert error.message.isprintable(), (config, said)
        assert "Input should" not in said
        assert "pydantic" not in said
        assert "Traceback" not in said
        assert len(said) < 3000


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    first, again = (malformed_configs(tmp_path / name, 7) for name in ("a", "b"))
    assert [c.kind for c in first] == [c.kind for c in again]
    for one, other in zip(first, again, strict=True):
        if os.path.isfile(one.path):
            assert one.path.read_bytes() == other.path.read_bytes()


def test_random_damage_never_escapes_as_another_error(tmp_path: Path) -> None:
    rng = random.Random(0)
    whole = load_config("mini", environ={}).to_yaml().encode()
    path = tmp_path / "damaged.yaml"
    refusals: list[ConfigError] = []
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            place = rng.randrange(len(data))
            data[place : place + rng.randrange(3)] = bytes(
                rng.choices(b"{}[]:,-#&*!|>'\"%@`\t\n ?a0.\x00\xff", k=rng.randrange(3))
            )
        path.write_bytes(bytes(data))
        try:
            load_config(path, environ={})
        except ConfigError as error:
            refusals.append(error)
    assert len(refusals) > 50
    assert all(error.message for error in refusals)


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(ConfigError, match="There is no config file"):
        load_config("null\x00character", environ={})
