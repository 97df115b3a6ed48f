"""A config file to write, one way to load it without the environment of the test run, and one to be refused."""

from collections.abc import Callable, Mapping

import pytest

from specdec_cli.config import ResolvedConfig, load_config
from specdec_cli.errors import ConfigError

BASE = "edge:\n  model: owner/edge\ncloud:\n  model: owner/cloud\n"
"""Four lines: both models, everything else at its default."""

Load = Callable[..., ResolvedConfig]
Refusal = Callable[..., ConfigError]


@pytest.fixture
def load(tmp_path) -> Load:
    """Load BASE plus `text` from `my.yaml`, with flags and environment variables."""

    def run(text: str = "", /, *, env: Mapping[str, str] | None = None, **flags: object) -> ResolvedConfig:
        path = tmp_path / "my.yaml"
        path.write_text(BASE + text, encoding="utf-8")
        dotted = {name.replace("__", "."): value for name, value in flags.items()}
        return load_config(path, flags=dotted, environ=env or {})

    return run


@pytest.fixture
def refusal(load) -> Refusal:
    """The ConfigError that `load` raises."""
    return lambda text="", /, **arguments: assert_refused(lambda: load(text, **arguments))


def assert_refused(call: Callable[[], object], *names: str) -> ConfigError:
    """The ConfigError of a call: one printable sentence with a hint, which holds all `names`."""
    with pytest.raises(ConfigError) as caught:
        call()
    error = caught.value
    said = f"{error.message}\n{error.hint}"
    assert error.hint
    assert error.message.isprintable()
    assert len(said) < 3000
    assert [name for name in names if name not in said] == [], said
    return error
