"""Tokens with the figures under them: fates by sign and colour, clauses, thresholds, the gate's verdict."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from rich.text import Text

from specdec_cli.console.rounds import TokenCell, cells_of, figure_name, token_rows, verdict_of
from specdec_cli.transcript.round import Round
from tests.console.screens import Screen

SETTINGS: dict[str, object] = {"gate": "class-entropy", "threshold": 0.2, "wake": 0.4, "k": "whole"}
PIECES = ("The ", "voice ", "is", " low", ",", " and", " sad", ".", "<|im_end|>")
ENTROPY = (0.0, 0.1, 0.2, 0.9, 0.0, 0.3, 1.5, 0.0, 0.0)
VALUES = (0.0, 0.0, 0.0, 0.41, 0.0, 0.0, 0.25, 0.0, 0.0)
DRAFT = Round(
    index=0, draft_ids=tuple(range(9)), entropy=ENTROPY, gate_values=VALUES, escalated=True, reason="class-entropy",
    accepted=9, committed_ids=(), source=(), draft_ms=9.0, verify_ms=12.0, gate_value=0.41, waking=True,
)  # fmt: skip


def changed(round_: Round, **change: object) -> Round:
    return round_.model_copy(update=change)


def printed(cells: Iterable[TokenCell], width: int = 80, name: str = "", *, by_clause: bool = False) -> list[str]:
    screen = Screen(width)
    for _, row in token_rows("", list(cells), width, name, by_clause=by_clause):
        screen.print(row)
    return [line.rstrip() for line in screen.lines[:-1]]


def drafted(round_: Round, width: int = 80, *, by_clause: bool = True) -> list[str]:
    round_ = changed(round_, source=("edge",) * 9, accepted=9, draft_pieces=PIECES, committed_pieces=PIECES)
    return printed(cells_of(round_, SETTINGS), width, figure_name(SETTINGS), by_clause=by_clause)


def plain(cells: Iterable[TokenCell]) -> str:
    """The first row of tokens, without figures."""
    return printed(replace(cell, figure=Text()) for cell in cells)[0].strip()


def test_a_draft_is_shown_clause_by_clause_with_figures_under_their_words():
    assert drafted(DRAFT) == [
        "         The voice is low  |,",
        " entropy              0.41!",
        "         and sad |.|∎",
        " entropy     0.25",
    ]
    assert "0.25!" in drafted(changed(DRAFT, waking=False))[-1]


@pytest.mark.parametrize("width", [14, 20, 60])
def test_no_token_is_lost_where_rows_are_narrow(width):
    lines = drafted(DRAFT, width=width, by_clause=False)
    assert all(len(line) <= width for line in lines)
    shown = " ".join(lines).replace("|", " ").split()
    assert {"The", "voice", "is", "low", ",", "and", "sad", ".", "∎"} <= {*shown}


def test_a_word_that_the_sound_chose_names_the_one_of_the_model():
    sound = ((1, 77, " loud"), (2, 78, " high"))
    pieces = {"draft_pieces": (" a", " soft", " x"), "committed_pieces": (" a", " soft", " low")}
    round_ = changed(DRAFT, accepted=2, source=("accepted", "accepted", "corrected"), sound=sound, **pieces)
    assert plain(cells_of(round_, {})) == "✓a ♪soft (loud) ✗x →♪low (high)"


def test_pieces_with_escapes_and_markup_are_only_text():
    pieces = ("[red]", "\x1b[2J<|audio_eos|>")
    round_ = changed(DRAFT, accepted=2, source=("edge", "edge"), draft_pieces=pieces, committed_pieces=pieces)
    assert plain(cells_of(round_, {})) == "[red]|\\x1b[2J<|audio_eos|>"


CALLED = "the cloud is called"
ALONE = {"escalated": False, "reason": None}


@pytest.mark.parametrize(
    ("settings", "change", "verdict"),
    [
        ({}, {}, f"{CALLED}: 0.41 ≥ 0.4"),
        ({}, {"gate_value": 0.1, **ALONE}, "kept: 0.10 < 0.4"),
        ({}, ALONE, "kept without the cloud: 0.41 ≥ 0.4"),
        ({}, {"waking": False}, f"{CALLED}: 0.41 ≥ 0.2"),
        ({}, {"reason": "loop"}, f"{CALLED}: loop"),
        ({"gate": "always", "threshold": None}, {"reason": "always"}, f"{CALLED}: always"),
        ({"gate": "margin"}, {"reason": "margin", "gate_value": 0.1}, f"{CALLED}: 0.10 ≤ 0.4"),
        ({"gate": "margin"}, {**ALONE, "gate_value": 0.5}, "kept: 0.50 > 0.4"),
        ({"gate": "random"}, {"reason": "random", "gate_value": 0.2}, f"{CALLED}: 0.20 < 0.4"),
        ({"gate": "random"}, {**ALONE, "gate_value": 0.4}, "kept: 0.40 ≥ 0.4"),
    ],
)
def test_the_verdict_on_a_draft_names_figure_and_threshold(settings, change, verdict):
    assert verdict_of(changed(DRAFT, **change), SETTINGS | settings) == verdict
