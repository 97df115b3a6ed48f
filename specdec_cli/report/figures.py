"""Figures as the page words them: units, rounding, intervals, and a sign for what was not measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from specdec_cli.compare.result import Spread

NONE: Final = "—"
"""In place of a figure that was not measured."""


def number(value: float | None, digits: int = 3) -> str:
    """With `digits` significant digits, thousands set apart and no exponent."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share as per cent."""
    return NONE if share is None else f"{100 * share:.{digits}f}%"


def spread(interval: Spread | None, show: Callable[[float], str] = percent) -> str:
    """The interval in brackets; nothing without one."""
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return f"[{show(interval.low)}, {show(interval.high)}]"


def seconds(value: float | None) -> str:
    """Seconds, in the unit that reads best."""
    if value is None:
        return NONE
    return f"{number(value)} s" if value >= 1 else f"{number(1e3 * value)} ms"


def milliseconds(value: float | None) -> str:
    """Milliseconds."""
    return NONE if value is None else f"{number(value)} ms"


def length(value: float) -> str:
    """A length of audio in seconds, minutes or hours."""
    if value < 120:
        return f"{number(value)} s"
    return f"{number(value / 60)} min" if value < 7200 else f"{number(value / 3600)} h"


def count(value: float | None) -> str:
    """A whole number."""
    return NONE if value is None else f"{value:,.0f}"
