"""Times in a recording, as people, tools and configurations write them."""

from __future__ import annotations

import re
from typing import Final

MOST_S: Final = 1e8
"""No recording lasts longer: three years."""

_CLOCK: Final = re.compile(r"(?:(\d{1,5}):)?(\d{1,2}):(\d{1,2}(?:[.,]\d{1,9})?)")
_COMMA: Final = re.compile(r"\d{1,9},\d{1,9}")  # as spreadsheets write 0.7 in most of Europe


def seconds(value: object) -> float | None:
    """A time in seconds; None if it is none from 0 to `MOST_S`.

    `value`: a number, or a text of seconds, also with a decimal comma, or of HH:MM:SS.
    """
    if isinstance(value, str) and (found := _CLOCK.fullmatch(value.strip())):
        value = 3600 * int(found[1] or 0) + 60 * int(found[2]) + float(found[3].replace(",", "."))
    if isinstance(value, str) and _COMMA.fullmatch(value.strip()):
        value = value.replace(",", ".")
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number <= MOST_S else None  # also no NaN
