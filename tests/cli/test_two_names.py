"""Every command starts from two names, and nothing of the mini pair's configuration comes along."""

import json
from pathlib import Path

import pytest

from specdec_cli.captioner import Captioner
from specdec_cli.config import CloudConfig, Config, EdgeConfig
from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.config.resolve import ResolvedConfig
from specdec_cli.errors import CheckpointError
from specdec_cli.serve import server as serving
from tests.cli.conftest import LOAD
from tests.mini_pair import write_voice
from tests.support.checkpoints import write_hub
from tests.support.models import tiny_module
from tests.tiers import slow

SHORT = ("--set", "decoding.max_new_tokens=4")
TOKENS = DecodingConfig(max_new_tokens=4)


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[str, str]:
    """Two checkpoints in the layout of the hub."""
    folder = tmp_path_factory.mktemp("hub")
    return str(write_hub(folder / "edge", tiny_module(1))), str(write_hub(folder / "cloud", tiny_module(2)))


@pytest.fixture
def loaded(specdec, monkeypatch) -> list[Config]:
    """The configurations that models were loaded with, by commands that find recordings in `in`."""
    found: list[Config] = []

    def spy(config: Config, **more: object) -> Captioner:
        found.append(config)
        return LOAD(config, **more)

    monkeypatch.setattr(Captioner, "load", spy)
    monkeypatch.setenv("LC_ALL", "C")
    Path("in").mkdir()
    for seed in range(8):
        write_voice(Path("in") / f"{seed}.wav", seed, 0.4)
    return found


def defaults(edge: str | None, cloud: str | None, mode: str = "hybrid") -> Config:
    """What published models need, and two names."""
    return Config(
        edge=EdgeConfig(model=edge) if edge else None,
        cloud=CloudConfig(model=cloud) if cloud else None,
        decoding=TOKENS.model_copy(update={"mode": mode}),
    )


@pytest.mark.parametrize(
    "command",
    [
        ("caption", "in/0.wav", *SHORT),
        slow((("tune", "in", "--gate", "entropy", "-k", "2", *SHORT),)),
        slow((("batch", "in", "-o", "o.jsonl", *SHORT),)),
        slow((("compare", "in", "-o", "o.jsonl", *SHORT),)),
    ],
    ids=lambda command: command[0],
)
def test_a_command_needs_two_names_and_inherits_nothing(specdec, pair, loaded, command):
    specdec(*command, "--edge", pair[0], "--cloud", pair[1], ends=0)
    expected = defaults(*pair)
    if command[0] != "caption":  # commands that run long compile steps, where a GPU makes them
        expected = expected.model_copy(update={"runtime": expected.runtime.model_copy(update={"compile": "on"})})
    assert [config for config in loaded if config != expected] == []
    assert loaded


def test_listen_and_serve_are_given_the_same(specdec, pair, monkeypatch, loaded):
    def stop(config: Config | ResolvedConfig, *_: object, **__: object) -> None:
        loaded.append(config.config if isinstance(config, ResolvedConfig) else config)
        raise CheckpointError("far enough")

    monkeypatch.setattr(serving, "serve_configured", stop)
    specdec("serve", "--cloud", pair[1], *SHORT, ends=3)
    assert loaded.pop() == defaults(None, pair[1], "cloud")
    monkeypatch.setattr(Captioner, "load", stop)
    monkeypatch.setattr("specdec_cli.cli.listen.Microphone", lambda _: None)
    specdec("listen", "--edge", pair[0], "--cloud", pair[1], *SHORT, ends=3)
    assert loaded.pop() == defaults(*pair)


@pytest.mark.parametrize(("option", "mode"), [("--edge", "edge"), ("--cloud", "cloud")])
def test_one_name_is_a_pair_of_one(specdec, pair, loaded, option, mode):
    outcome = specdec("caption", "in/0.wav", option, pair[0], "--json", *SHORT, ends=0)
    edge, cloud = (pair[0], None) if mode == "edge" else (None, pair[0])
    assert loaded == [defaults(edge, cloud, mode)]
    assert json.loads(outcome.out)["mode"] == mode


def test_every_way_to_name_them_is_the_same(specdec, pair):
    Path("two.yaml").write_text(f"edge: {pair[0]}\ncloud: {pair[1]}\n", encoding="utf-8")
    names = ["--edge", pair[0], "--cloud", pair[1]]
    sections = ["--set", f"edge={pair[0]}", "--set", f"cloud={pair[1]}"]
    ways = (names, sections, ["-c", "two.yaml"])
    shown, others, file = (specdec("config", "show", "--yaml", *more, ends=0) for more in ways)
    assert shown == others == file


def test_python_takes_two_names(pair, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    captioner = Captioner.load(edge=pair[0], cloud=pair[1], settings={"decoding.max_new_tokens": 4})
    assert captioner.config == defaults(*pair)
