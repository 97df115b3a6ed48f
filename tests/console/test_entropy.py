"""The figures under the words of a draft, and where the gate escalates."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from specdec_cli.console.draft_grid import cells_of, drafted_cells, figure_names, grid, verdict_of
from specdec_cli.console.theme import UNICODE
from specdec_cli.types import EventText, Round

SETTINGS: dict[str, object] = {"gate": "learned", "threshold": 0.2, "wake": 0.4, "defer": True}
PIECES = ("The ", "voice ", "is", " low", ",", " and", " sad", ".", "<|im_end|>")
ENTROPY = (0.0, 0.1, 0.2, 0.9, 0.0, 0.3, 1.5, math.nan, 0.0)
VALUES = (0.0, 0.0, 0.0, 0.41, 0.0, 0.0, 0.25, 0.0, 0.0)
DRAFT = Round(0, tuple(range(9)), ENTROPY, VALUES, True, "learned", 9, (), (), 9.0, 12.0, 0.41, waking=True)


def lines(round_: Round, width: int = 80, *, by_clause: bool = True) -> list[tuple[str, str]]:
    cells = drafted_cells(round_, EventText(PIECES), SETTINGS, UNICODE)
    return [
        (name, line.plain) for name, line in grid(cells, figure_names(SETTINGS), width, UNICODE, by_clause=by_clause)
    ]


def test_a_draft_is_shown_clause_by_clause_with_figures_under_their_words() -> None:
    assert lines(DRAFT) == [
        ("", "The  voice is   low  |,"),
        ("entropy", "0.00 0.10  0.20 0.90  0.00"),
        ("learned", "0.00 0.00  0.00 0.41! 0.00"),
        ("", "and  sad |.   |∎"),
        ("entropy", "0.30 1.50 ?    0.00"),
        ("learned", "0.00 0.25 0.00 0.00"),
    ]
    awake = replace(DRAFT, waking=False)
    assert "0.25!" in lines(awake)[-1][1]


@pytest.mark.parametrize("width", [1, 9, 20, 60])
def test_no_token_is_lost_where_rows_are_narrow(width: int) -> None:
    shown = lines(DRAFT, width, by_clause=False)
    assert all(len(line) <= width for _, line in shown)
    if width > 5:
        words = " ".join(line for name, line in shown if not name).replace("|", " ").split()
        assert words == ["The", "voice", "is", "low", ",", "and", "sad", ".", "∎"]


def test_rows_have_at_most_eight_tokens() -> None:
    long = EventText(tuple(f" w{index}" for index in range(20)))
    round_ = replace(DRAFT, draft_ids=tuple(range(20)), entropy=(0.1,) * 20, gate_values=(0.1,) * 20)
    cells = drafted_cells(round_, long, SETTINGS, UNICODE)
    found = [line.plain for name, line in grid(cells, figure_names(SETTINGS), 500, UNICODE) if not name]
    assert [len(line.replace("|", " ").split()) for line in found] == [8, 8, 4]


def test_tokens_of_the_cloud_have_no_figures() -> None:
    round_ = replace(DRAFT, draft_ids=(1, 2), accepted=1, committed_ids=(1, 3), source=("accepted", "corrected"))
    cells = cells_of(round_, EventText((" a", " b"), (" a", " c")), SETTINGS, UNICODE)
    assert [(cell.word.plain, bool(cell.figures)) for cell in cells] == [("✓a", True), ("✗b", True), ("→c", False)]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"gate": "entropy"}, ("entropy",)),
        ({"gate": "margin"}, ("entropy", "margin")),
        ({"gate": "never"}, ("entropy",)),
    ],
)
def test_entropy_is_always_shown_and_another_figure_beside_it(
    settings: dict[str, object], names: tuple[str, ...]
) -> None:
    assert figure_names(settings) == names


@pytest.mark.parametrize(
    ("change", "settings", "verdict"),
    [
        ({}, {}, "learned 0.41, at or above 0.4: the cloud verifies the draft"),
        (
            {"escalated": False, "gate_value": 0.1},
            {},
            "learned 0.10, below 0.4: the draft is kept, the cloud is not called",
        ),
        ({"waking": False}, {}, "learned 0.41, at or above 0.2: the cloud verifies the draft"),
        ({"reason": "loop"}, {}, "loop: the cloud verifies the draft"),
        ({"reason": "always"}, {"gate": "always", "threshold": None}, "the cloud verifies the draft"),
        (
            {"reason": "margin", "gate_value": 0.1},
            {"gate": "margin", "wake": 0.3},
            "margin 0.10, at or below 0.3: the cloud verifies the draft",
        ),
    ],
)
def test_the_verdict_on_a_draft_names_figure_and_threshold(
    change: dict[str, object], settings: dict[str, object], verdict: str
) -> None:
    assert verdict_of(replace(DRAFT, **change), SETTINGS | settings) == verdict  # type: ignore[arg-type]
