"""What the gate looks at, per drafted token, as a row of bars against its threshold: entropy, or the learned score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from rich.text import Text

from specdec_cli.console.theme import ABOVE, BELOW, DIM, Signs

FULL_SCALE_NATS = 3.0
"""Height of a full bar where no threshold gives the scale."""

Figure = Literal["entropy", "learned"]
"""What the bars show: entropy, nats; or the learned gate's probability that the cloud would change the block."""


def figure_of(settings: Mapping[str, object]) -> Figure:
    """The learned gate's score where that gate decides; entropy under every other."""
    return "learned" if settings.get("gate") == "learned" else "entropy"


def threshold_of(settings: Mapping[str, object]) -> float | None:
    """The threshold of an entropy or a learned gate, in the unit of the bars; None for gates of other figures."""
    value = settings.get("threshold")
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


def legend(threshold: float | None, signs: Signs, figure: Figure = "entropy") -> Text:
    """What the bars mean."""
    if threshold is None:
        return Text.assemble("entropy ", (signs.bars, BELOW), (f" 0 to {FULL_SCALE_NATS:g} nats", DIM))
    unit = "" if figure == "learned" else " nat" if threshold == 1 else " nats"
    what = "probability of a change by the cloud" if figure == "learned" else "entropy"
    low, high = signs.bars[:4], signs.bars[4:]
    end = f" at or above {threshold:g}{unit} (escalated)"
    return Text.assemble(f"{what} ", (low, BELOW), (" below, ", DIM), (high, ABOVE), (end, DIM))
