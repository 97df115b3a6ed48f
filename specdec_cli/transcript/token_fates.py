"""The fate of every token of a run, round by round: for the live view, and as plain values for the page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final, Literal, NamedTuple

from specdec_cli.transcript import Transcript
from specdec_cli.transcript.round import Round
from specdec_cli.types import LOW_IS_UNSURE, Source

Fate = Source | Literal["rejected", "cut"]
"""The fate of a token: the source of a committed token, or one of two more.

rejected: drafted, and replaced by the cloud's token; cut: drafted, and neither accepted nor rejected, because an
earlier token was rejected or a stop rule ended the text.
"""

SIGNS: Final[dict[Fate, str]] = {
    "edge": "",
    "accepted": "✓",
    "rejected": "✗",
    "cut": "-",
    "corrected": "→",
    "bonus": "+",
    "cloud": "",
}
"""Fate of a token -> the sign before a run of such tokens, in the live view and on pages."""
HEARD: Final = "♪"
"""The sign before a token that the sound chose, which banned a likelier one."""


class ShownToken(NamedTuple):
    """One token of a round; a figure is None if the token was not drafted."""

    text: str
    fate: Fate
    entropy: float | None  # nats
    value: float | None  # the gate's figure
    banned: str | None  # text of the likeliest token in its place, if the sound banned that


def tokens(round_: Round) -> Iterator[ShownToken]:
    """Yields the tokens of a round in the order of the text; a rejected one comes before the one that replaced it."""
    draft, committed, source = round_.draft_pieces, round_.committed_pieces, round_.source
    banned = {place: text for place, _, text in round_.sound}
    stood = min(len(committed), len(source), round_.accepted)
    figures = dict(enumerate(zip_longest(round_.entropy, round_.gate_values)))
    for index, piece in enumerate((*committed[:stood], *draft[stood:])):
        fate = source[index] if index < stood else "rejected" if "corrected" in source and index == stood else "cut"
        yield ShownToken(piece, fate, *figures.get(index, (None, None)), banned.get(index) if index < stood else None)
    for place, (piece, origin) in enumerate(zip(committed[stood:], source[stood:], strict=False), stood):
        yield ShownToken(piece, origin, None, None, banned.get(place))


def run_view(transcript: Transcript) -> dict[str, Any]:
    """The rounds and the gate of a run as plain values. Entropies are nats; a figure that was not measured is None."""
    settings, gate = transcript.settings, transcript.settings.get("gate")
    return {
        "gate": {
            "name": gate,
            "threshold": settings.get("threshold"),
            "wake": settings.get("wake"),
            "below": gate in LOW_IS_UNSURE,
        },
        "rounds": [
            {
                "tokens": list(tokens(round_)),
                "committed_text": round_.committed_text,
                "escalated": round_.escalated,
                "threshold": settings.get("wake" if round_.waking else "threshold"),
            }
            for round_ in transcript.rounds
        ],
    }
