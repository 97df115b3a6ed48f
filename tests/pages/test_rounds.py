"""Every token of a run with its fate and figures."""

from typing import Any

import pytest

from specdec_cli.transcript.round import Round
from specdec_cli.transcript.token_fates import run_view, tokens
from tests.pages.sample import MODES


def record(draft: str, committed: str, source: str, accepted: int, **more: Any) -> Round:
    """A round from `a b c`; entropies are 0.1, 0.2, ..., and the gate's figures 0.9, 0.8, ..."""
    drafted, kept = draft.split(), committed.split()
    figures = [round(0.1 * (index + 1), 1) for index in range(len(drafted))]
    values: dict[str, Any] = {
        "index": 0,
        "draft_ids": list(range(len(drafted))),
        "draft_text": draft,
        "entropy": figures,
        "max_entropy": max(figures),
        "gate_values": [round(1 - figure, 1) for figure in figures],
        "escalated": source != "edge",
        "reason": None,
        "accepted": accepted,
        "committed_ids": list(range(len(kept))),
        "committed_text": committed,
        "source": source.split(),
        "draft_pieces": drafted,
        "committed_pieces": kept,
        "draft_ms": 1.0,
        "verify_ms": None,
        "network_ms": None,
    }
    return Round(**values | more)


@pytest.mark.parametrize(
    ("round_", "expected"),
    [
        (
            ("a b c", "a X", "accepted corrected", 1),
            "a accepted 0.1 0.9, b rejected 0.2 0.8, c cut 0.3 0.7, X corrected None None",
        ),
        (("a b", "a b X", "accepted accepted bonus", 2), "a accepted 0.1 0.9, b accepted 0.2 0.8, X bonus None None"),
        (("a b c", "a", "edge", 3), "a edge 0.1 0.9, b cut 0.2 0.8, c cut 0.3 0.7"),  # by a stop rule
        (("a b", "a b", "cloud cloud", 2), "a cloud 0.1 0.9, b cloud 0.2 0.8"),  # alone: its own entropies
    ],
)
def test_every_token_has_its_fate_and_the_figures_of_who_drafted_it(round_, expected):
    assert ", ".join(" ".join(map(str, token[:4])) for token in tokens(record(*round_))) == expected


def test_what_the_sound_banned_belongs_to_the_token_in_its_place():
    round_ = record("a b c", "a X", "accepted corrected", 1, sound=[(0, 7, "d"), (1, 8, "e")])
    assert [(token.text, token.banned) for token in tokens(round_)] == [
        ("a", "d"),
        ("b", None),
        ("c", None),
        ("X", "e"),
    ]


def test_without_single_pieces_the_text_stands_whole(runs):
    older = record("a b", "a b", "edge edge", 2, draft_pieces=(), committed_pieces=())
    view = run_view(runs["edge"][0].model_copy(update={"rounds": [older]}))
    assert view["rounds"][0]["tokens"] == []
    assert view["rounds"][0]["committed_text"] == "a b"


@pytest.mark.parametrize("mode", MODES)
def test_committed_tokens_spell_the_caption(runs, mode):
    for transcript in runs[mode]:
        view = run_view(transcript)
        every = [token for each in view["rounds"] for token in each["tokens"]]
        committed = [piece for piece, fate, *_ in every if fate not in ("rejected", "cut")]
        assert "".join(piece for piece in committed if not piece.startswith("<|")).strip() == transcript.caption
        assert len(committed) == transcript.totals.tokens
