"""Times: read as people, tools and configurations write them, and written as specdec shows them."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MOST_S: Final = 1e8
"""Longest time in a recording, seconds: three years."""
NONE: Final = "—"
"""Shown for a figure that was not measured."""

EITHER: Final = re.compile(r"\s*[1-9]\d{0,2},\d{3}\s*")
"""Matches 1,500, which may be 1.5 with a decimal comma, or 1500."""

_CLOCK: Final = re.compile(r"(?:(\d{1,5}):)?(\d{1,2}):(\d{1,2}(?:[.,]\d{1,9})?)")
_COMMA: Final = re.compile(r"\d{1,9},\d{1,9}")  # as spreadsheets write 0.7 in most of Europe


def parse(value: object) -> float | None:
    """A time in seconds; None if `value` is no time from 0 to `MOST_S`.

    `value` is a number, or a text: seconds, also with a decimal comma, or HH:MM:SS, of full-width characters, too.
    """
    if isinstance(value, str):
        value = unicodedata.normalize("NFKC", value)
    if isinstance(value, str) and (found := _CLOCK.fullmatch(value.strip())):
        value = 3600 * int(found[1] or 0) + 60 * int(found[2]) + float(found[3].replace(",", "."))
    if isinstance(value, str) and _COMMA.fullmatch(value.strip()):
        value = value.replace(",", ".")
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number <= MOST_S else None  # also no NaN


def milliseconds(value: float | None) -> str:
    """A short time in ms, written in at most seven characters: `4.1 ms`, `123 ms`, `12.3 s`."""
    if value is None:
        return NONE
    if value < 9.95:
        return f"{value:.1f} ms"
    return f"{value:.0f} ms" if value < 9999.5 else seconds(value / 1000)


def seconds(value: float | None) -> str:
    """A time in s: `0.85 s`, `12.3 s`, `4 min 05 s`, `3 h 20 min`."""
    if value is None:
        return NONE
    if value < 119.95:
        return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s"
    whole_s = round(value)
    if whole_s < 7200:
        return f"{whole_s // 60} min {whole_s % 60:02d} s"
    return f"{whole_s // 3600} h {whole_s % 3600 // 60:02d} min"


def clock(time_ms: int, point: str) -> str:
    """A time in ms as HH:MM:SS, `point`, and three digits of milliseconds."""
    whole_s, rest = divmod(time_ms, 1000)
    return f"{whole_s // 3600:02}:{whole_s // 60 % 60:02}:{whole_s % 60:02}{point}{rest:03}"
