"""SPECDEC_<SECTION>__<FIELD>, and name=value of --set."""

from __future__ import annotations

import pytest

from specdec_cli.config import SETTINGS, parse_setting
from specdec_cli.config.layers import VARIABLES
from tests.config.conftest import Load, Refusal, assert_refused


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("SPECDEC_DECODING__TEMPERATURE", "5e-1", 0.5),
        ("SPECDEC_DECODING__STOP_STRINGS", "['。', b]", ("。", "b")),
        ("SPECDEC_DECODING__SENTENCES", "null", None),
        ("SPECDEC_RUNTIME__OFFLINE", "true", True),
        ("SPECDEC_AUDIO__SEGMENT", "", None),
        ("SPECDEC_PROMPT__TEXT", "Voice: [calm] # or not", "Voice: [calm] # or not"),
        ("SPECDEC_PROMPT__TEXT", "null", None),
        ("SPECDEC_EDGE__REVISION", "0123456", "0123456"),
        ("SPECDEC_EDGE__DEVICE", "cuda:1", "cuda:1"),
    ],
)
def test_values(load: Load, variable: str, text: str, value: object) -> None:
    resolved = load(env={variable: text})
    section, _, field = VARIABLES[variable].partition(".")
    assert getattr(getattr(resolved.config, section), field) == value
    assert resolved.origin[VARIABLES[variable]] == variable


def test_every_setting_has_its_own_variable() -> None:
    assert len(VARIABLES) == len(SETTINGS) + len(("edge", "cloud"))


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("SPECDEC_DECODING__KK", "SPECDEC_DECODING__K"),
        ("SPECDEC_DECODING_K", "SPECDEC_DECODING__K"),
        ("SPECDEC_DECODNG__K", "SPECDEC_DECODING__K"),
        ("SPECDEC_AUDIO__ZZZZZZZZZZZZZZZZZZZZZZ", None),
        ("SPECDEC___", None),
    ],
)
def test_unknown_variables_are_refused(refusal: Refusal, variable: str, meant: str | None) -> None:
    error = refusal(env={variable: "1"})
    assert variable in error.message
    assert ("Did you mean" in str(error.hint)) == (meant is not None)
    assert meant is None or f"Did you mean {meant}?" in str(error.hint)


def test_unrelated_variables_are_left_alone(load: Load) -> None:
    unrelated = {"SPECDEC_DATA": "x", "SPECDEC_CONFIG": "nowhere", "specdec_decoding__k": "9", "HOME": ""}
    assert load(env=unrelated).config == load().config


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
    assert_refused(lambda: parse_setting(text))
