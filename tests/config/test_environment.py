"""SPECDEC_<SECTION>__<FIELD>."""

from __future__ import annotations

import pytest

from specdec_cli.config import SETTINGS, parse_setting, variable_of
from specdec_cli.config.layers import VARIABLES
from specdec_cli.errors import ConfigError
from tests.config.conftest import Load, Refusal


@pytest.mark.parametrize(
    ("variable", "text", "section", "value"),
    [
        ("SPECDEC_DECODING__TEMPERATURE", "5e-1", "decoding", 0.5),
        ("SPECDEC_DECODING__STOP_STRINGS", "['。', b]", "decoding", ("。", "b")),
        ("SPECDEC_DECODING__SENTENCES", "null", "decoding", None),
        ("SPECDEC_RUNTIME__OFFLINE", "true", "runtime", True),
        ("SPECDEC_AUDIO__SEGMENT", "", "audio", None),
        ("SPECDEC_PROMPT__TEXT", "Voice: [calm] # or not", "prompt", "Voice: [calm] # or not"),
        ("SPECDEC_PROMPT__TEXT", "null", "prompt", None),
        ("SPECDEC_EDGE__REVISION", "0123456", "edge", "0123456"),
        ("SPECDEC_EDGE__DEVICE", "cuda:1", "edge", "cuda:1"),
    ],
)
def test_values(load: Load, variable: str, text: str, section: str, value: object) -> None:
    resolved = load(env={variable: text})
    field = VARIABLES[variable].partition(".")[2]
    assert getattr(getattr(resolved.config, section), field) == value
    assert resolved.origin[VARIABLES[variable]] == variable


def test_every_setting_has_its_own_variable() -> None:
    assert len(VARIABLES) == len(SETTINGS) + len(("edge", "cloud"))
    assert variable_of("audio.segment") == "SPECDEC_AUDIO__SEGMENT"


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("SPECDEC_DECODING__KK", "SPECDEC_DECODING__K"),
        ("SPECDEC_DECODING_K", "SPECDEC_DECODING__K"),
        ("SPECDEC_DECODNG__K", "SPECDEC_DECODING__K"),
        ("SPECDEC_GATE__TRESHOLD", "SPECDEC_GATE__THRESHOLD"),
        ("SPECDEC_AUDIO__ZZZZZZZZZZZZZZZZZZZZZZ", None),
        ("SPECDEC___", None),
    ],
)
def test_unknown_variables_are_refused(refusal: Refusal, variable: str, meant: str | None) -> None:
    error = refusal(env={variable: "1"})
    assert variable in error.message
    assert error.hint is not None
    assert ("Did you mean" in error.hint) == (meant is not None)
    assert meant is None or f"Did you mean {meant}?" in error.hint


def test_unrelated_variables_are_left_alone(load: Load) -> None:
    env = {
        "SPECDEC_DATA": "x",
        "SPECDEC_CONFIG": "nowhere",
        "SPECDEC_DEBUG": "1",
        "specdec_decoding__k": "9",
        "HOME": "",
    }
    assert load(env=env).config == load().config


def test_a_wrong_value_names_the_variable(refusal: Refusal) -> None:
    error = refusal(env={"SPECDEC_DECODING__K": "many"})
    assert error.message == "SPECDEC_DECODING__K: decoding.k must be auto, or a whole number from 1 to 64, not 'many'."


def test_bytes_that_are_no_text(refusal: Refusal) -> None:
    error = refusal(env={"SPECDEC_PROMPT__TEXT": "a\udc80", "SPECDEC_DECODING__K": "\udc80"})
    (error.message + str(error.hint)).encode()


def test_a_model_can_be_taken_away_or_named(load: Load) -> None:
    alone = load(env={"SPECDEC_CLOUD": "null"}).config
    assert (alone.cloud, alone.decoding.mode) == (None, "edge")
    assert load(env={"SPECDEC_CLOUD": "a/b"}).origin["cloud.model"] == "SPECDEC_CLOUD"


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("decoding.k=3", ("decoding.k", 3)),
        (" decoding.k =3", ("decoding.k", 3)),
        ("prompt.text=a=b: c", ("prompt.text", "a=b: c")),
        ("cloud=null", ("cloud", None)),
        ("cloud=x", ("cloud", "x")),
    ],
)
def test_parse_setting(text: str, parsed: tuple[str, object]) -> None:
    assert parse_setting(text) == parsed


@pytest.mark.parametrize("text", ["decoding.k", "", "=3", "decoding.kk=3"])
def test_parse_setting_refuses(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_setting(text)
    assert caught.value.hint
