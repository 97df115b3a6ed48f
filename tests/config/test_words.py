"""Values in words: in errors, on pages and as a file has them."""

import pytest

from specdec_cli.config import SETTINGS, parse_setting
from specdec_cli.config.settings import takes
from specdec_cli.errors import ConfigError, raise_if_any
from specdec_cli.text import show


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("decoding.k", "auto, whole or a whole number from 1 to 64"),
        ("decoding.stop_strings", "a list of texts"),
        ("decoding.seed", "a whole number from 0 to 9223372036854775807"),
        ("remote.retry_s", "a number from 0 to 3600"),
    ],
)
def test_what_a_setting_takes_is_said_in_words(name, words):
    assert takes(name) == words


def test_what_is_shown_can_be_set(load):
    config = load().config
    for name in SETTINGS:
        section, field = name.split(".")
        value = getattr(getattr(config, section), field)
        if value is not None:
            shown = value if isinstance(value, str) else show(value)
            given = parse_setting(f"{name}={shown}")[1]
            assert load(**{name: given}).config == config, name


def test_several_errors_have_a_line_each():
    with pytest.raises(ConfigError) as caught:
        raise_if_any([ConfigError("One.", hint="Do."), ConfigError("Two."), ConfigError("Three.")])
    assert str(caught.value.hint).splitlines() == ["Do.", "Also:", "- Two.", "- Three."]
