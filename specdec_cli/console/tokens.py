"""The tokens of a round as text, told apart by sign and by colour, and what the gate looks at, as bars.

A bar shows a drafted token's entropy or the learned gate's score against the gate's threshold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Literal

from rich.text import Text

from specdec_cli.console.cells import clean, paragraph
from specdec_cli.console.theme import ABOVE, BELOW, DIM, STYLES, Signs
from specdec_cli.report.rounds import Fate, fates
from specdec_cli.types import EventText, Mode, Round, Source

_EOS = re.compile(r"<\|(im_end|endoftext|eot_id|end_of_text|end|eos)\|>|</s>|<eos>")
_SPECIAL = re.compile(r"<\|(\w+)\|>")
FULL_SCALE_NATS = 3.0
"""Height of a full bar where no threshold gives the scale."""

Figure = Literal["entropy", "learned"]
"""What the bars show: entropy, nats; or the learned gate's probability that the cloud would change the block."""


def is_eos(piece: str) -> bool:
    """Whether `piece` is the token that ends a text, in the spelling of the usual tokenizers."""
    return _EOS.fullmatch(piece.strip()) is not None


def shown(piece: str, signs: Signs) -> str:
    """`piece` with what cannot be seen made visible; a space at either end is kept."""
    if is_eos(piece):
        return signs.eos
    if piece and not piece.strip():
        return signs.newline if "\n" in piece else signs.space
    return _SPECIAL.sub(r"<\1>", clean(piece)).replace("\ufffd", signs.partial)


def render_tokens(round_: Round, text: EventText, signs: Signs) -> Text:
    """The round's tokens in runs of one fate, each run behind its sign.

    Tokens are separated by their own space or by a joint: `✓语速|较 ✗慢 →快`.
    """
    rendered = Text()
    every = fates(text.draft_pieces, text.committed_pieces, round_.source, round_.accepted)
    for fate, run in groupby(every, key=lambda item: item[1]):
        if rendered:
            rendered.append(" ")
        rendered.append(signs.roles[fate], style=STYLES[fate].replace(" strike", ""))
        separated = True
        for index, piece in enumerate(shown(piece, signs) for piece, _, _ in run):
            if index and (separated or piece.startswith(" ")):
                rendered.append(" ")
            elif index:
                rendered.append(signs.joint, style=DIM)
            rendered.append(piece.strip(), style=STYLES[fate])
            separated = piece.endswith(" ")
    return rendered


def legend(signs: Signs, mode: Mode, *, run_on: bool = False) -> Text:
    """What the signs mean that `mode` needs; `run_on`: whether the cloud may write more than one token at a time."""
    named: list[Fate] = ["accepted", "rejected", "corrected", "bonus"] if mode in ("hybrid", "lossless") else []
    rendered = Text("edge unmarked  " if mode == "hybrid" else "")
    for fate in [*named, "run_on"] if named and run_on else named:
        rendered.append(signs.roles[fate], style=STYLES[fate].replace(" strike", ""))
        rendered.append(fate.replace("_", " "), style=STYLES[fate]).append("  ")
    return rendered.append(signs.joint, DIM).append(" between tokens")


def figure_of(settings: Mapping[str, object]) -> Figure:
    """The learned gate's score where that gate decides; entropy under every other."""
    return "learned" if settings.get("gate") == "learned" else "entropy"


def threshold_of(settings: Mapping[str, object], *, waking: bool = False) -> float | None:
    """The threshold of an entropy or a learned gate, in the unit of the bars; None for gates of other figures.

    `waking`: the one that counts until the cloud has been called.
    """
    value = settings.get("wake" if waking else "threshold")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if settings.get("gate", "entropy") in ("entropy", "learned") else None


def level(value: float, threshold: float | None) -> int:
    """Height of the bar for `value`, 0..7.

    With a threshold the scale is 0..2x threshold, and heights 4..7 are the values at which the gate escalates (at or
    above it): the half-height line *is* the threshold, and the bars can be read without colour.
    """
    if threshold is None:
        return min(max(int(8 * value / FULL_SCALE_NATS), 0), 7) if math.isfinite(value) else 7
    if value >= threshold:
        excess = (value - threshold) / threshold if threshold > 0 and math.isfinite(value) else 1.0
        return 4 + min(int(4 * excess), 3)
    return min(max(int(4 * value / threshold), 0), 3) if threshold > 0 else 0


def bars(values: Sequence[float], threshold: float | None, signs: Signs) -> Text:
    """One bar a token; those that make the gate escalate in another colour and underlined."""
    rendered = Text()
    for value in values:
        above = math.isnan(value) or (threshold is not None and value >= threshold)
        sign = "?" if math.isnan(value) else signs.bars[level(value, threshold)]
        rendered.append(sign, style=ABOVE if above else BELOW)
    return rendered


def bars_legend(threshold: float | None, signs: Signs, figure: Figure = "entropy", wake: float | None = None) -> Text:
    """What the bars mean; `wake`: the threshold until the cloud has been called, if there is one."""
    if threshold is None:
        return Text.assemble("entropy ", (signs.bars, BELOW), (f" 0 to {FULL_SCALE_NATS:g} nats", DIM))
    unit = "" if figure == "learned" else " nat" if threshold == 1 else " nats"
    what = "probability of a change by the cloud" if figure == "learned" else "entropy"
    low, high = signs.bars[:4], signs.bars[4:]
    end = f" at or above {threshold:g}{unit} (escalated)"
    if wake is not None:
        end = f" at or above {wake:g}{unit} (wakes the cloud), from then on {threshold:g} (escalated)"
    return Text.assemble(f"{what} ", (low, BELOW), (" below, ", DIM), (high, ABOVE), (end, DIM))


class CaptionTrail:
    """The clean caption, and how far its characters can be traced back to tokens.

    Bytes of one character may come in several tokens, and a tokenizer may change spaces: where the pieces do not
    spell the caption, the rest of it is shown in no colour rather than in a wrong one.
    """

    def __init__(self) -> None:
        self.caption = ""
        self._mixed = False
        self._parts: list[tuple[str, Source]] = []

    def add(self, round_: Round, text: EventText) -> None:
        """Take in what a round committed."""
        self._mixed = self._mixed or round_.escalated
        self._parts += [each for each in zip(text.committed_pieces, round_.source, strict=False) if not is_eos(each[0])]
        self.caption = text.caption

    def text(self) -> Text:
        """The caption as one paragraph; what the cloud put in is coloured and underlined."""
        rendered = Text(paragraph(self.caption))
        position = 0
        for piece, source in self._parts:
            bare = paragraph(piece)
            found = rendered.plain.find(bare, position, position + len(bare) + 1)
            if found < 0:
                break
            position = found + len(bare)
            if bare and (source in ("corrected", "bonus") or (source == "cloud" and self._mixed)):
                rendered.stylize(f"{STYLES[source]} underline", found, position)
        return rendered
