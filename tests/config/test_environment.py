"""SPECDEC_<SECTION>__<FIELD>, and name=value of --set; values in words."""

import pytest

from specdec_cli.config import SETTINGS, parse_setting
from specdec_cli.config.layers import misspelt_variables, read_environment
from specdec_cli.config.settings import takes
from specdec_cli.errors import ConfigError, raise_if_any
from specdec_cli.text import show
from tests.config.conftest import assert_refused


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("decoding.temperature", "5e-1", 0.5),
        ("decoding.stop_strings", "['。', b]", ("。", "b")),
        ("runtime.offline", "true", True),
        ("audio.segment", "", None),
        ("prompt.instruction", "Voice: [calm] # or not", "Voice: [calm] # or not"),
        ("prompt.system", "null", None),
        ("edge.token_env", "TOKEN", "TOKEN"),
        ("edge.device", "cuda:1", "cuda:1"),
    ],
)
def test_values(load, name, text, value):
    variable = f"SPECDEC_{name.upper().replace('.', '__')}"
    resolved = load(env={variable: text})
    section, _, field = name.partition(".")
    assert getattr(getattr(resolved.config, section), field) == value
    assert resolved.origin[name] == variable
    assert parse_setting(f" {name} ={text}") == (name, list(value) if isinstance(value, tuple) else value)


def test_every_setting_has_its_own_variable():
    variables = {f"SPECDEC_{name.upper().replace('.', '__')}": "" for name in SETTINGS}
    assert {name for name, _ in read_environment(variables)} == set(SETTINGS)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [("SPECDEC_DECODING__KK", "decoding.k"), ("SPECDEC_DECODNG__K", "decoding.k"), ("SPECDEC___", None)],
)
def test_unknown_variables_are_refused(refusal, variable, meant):
    error = refusal(env={variable: "1"})
    assert variable in error.message
    assert str(error.hint).startswith(f"Did you mean {meant}?" if meant else "Se")


def test_variables_without_a_double_underscore_are_no_settings(load):
    variables = {"SPECDEC_CLOUD_TOKEN": "secret", "SPECDEC_DATA": "/data", "SPECDEC_DECODING_K": "3"}
    assert load(env=variables).config == load().config
    (said,) = misspelt_variables(variables)
    assert said.startswith("SPECDEC_DECODING_K is not a setting")
    assert said.endswith("decoding.k would be SPECDEC_DECODING__K.")
    (said,) = misspelt_variables({"SPECDEC_LANGUAGE": "zh"})
    assert said.endswith("prompt.language would be SPECDEC_PROMPT__LANGUAGE.")
    (said,) = misspelt_variables({"SPECDEC_SEED": "1"})
    assert "decoding.seed or judging.seed would be" in said


@pytest.mark.parametrize("name", ["SPECDEC_PROMPT__SYSTEM", "SPECDEC_DECODING__K", "SPECDEC_A__\udc80"])
def test_bytes_that_are_no_text(refusal, name):
    error = refusal(env={name: "a\udc80"})
    (error.message + str(error.hint)).encode()


def test_a_model_can_be_taken_away_or_named(load):
    alone = load(env={"SPECDEC_CLOUD": "null"}).config
    assert (alone.cloud, alone.decoding.mode) == (None, "edge")
    assert load(env={"SPECDEC_CLOUD": "a/b"}).origin["cloud.model"] == "SPECDEC_CLOUD"
    assert (parse_setting("cloud=null"), parse_setting("cloud=x")) == (("cloud", None), ("cloud", "x"))


@pytest.mark.parametrize("text", ["decoding.k", ""])
def test_a_setting_needs_a_value(text):
    assert_refused(lambda: parse_setting(text))


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
