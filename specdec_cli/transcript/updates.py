"""The updates of a run: each event with its text, as it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from specdec_cli.transcript.records import Started
from specdec_cli.transcript.round import Round
from specdec_cli.types import Claim, Finished, Flag, Prefill, Sent

ClaimsIn = Callable[[str], tuple[Claim, ...]]
"""Text -> its claims about the sound of the clip."""


@dataclass(frozen=True, slots=True)
class EventText:
    """The text at an event: the loop knows only token ids, and a display has no tokenizer."""

    caption: str = ""  # so far, without special tokens
    labels: Mapping[str, str | None] | None = None  # attribute -> class that the finished caption names; None: unset
    claims: tuple[Claim, ...] | None = None  # labels that can be measured, beside the figures; None: unset
    probabilities: Mapping[str, float] = field(default_factory=dict)  # attribute -> probability of its class, if known
    flags: tuple[Flag, ...] = ()  # of the finished caption
    claims_in: ClaimsIn | None = None  # finds the claims in a text of this clip; None: nothing is measured


@dataclass(frozen=True, slots=True)
class Update:
    """One step of a run, with its text."""

    event: Started | Prefill | Sent | Round | Finished
    text: EventText
