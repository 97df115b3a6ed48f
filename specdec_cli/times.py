"""Times in a recording, as people, tools and configurations write them."""

from __future__ import annotations

import math
import re
from typing import Final

MOST_S: Final = 1e8
"""No recording lasts longer: three years."""

_CLOCK: Final = re.compile(r"(?:(\d{1,5}):)?(\d{1,2}):(\d{1,2}(?:[.,]\d{1,9})?)")


def finite(value: object) -> float | None:
    """A number, or a text that spells one; None for anything else, infinities and NaN."""
    try:
        found = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def seconds(value: object) -> float | None:
    """A time in seconds, of a number or a text (seconds, or HH:MM:SS); None if it is none from 0 to `MOST_S`."""
    if isinstance(value, str) and (found := _CLOCK.fullmatch(value.strip())):
        value = 3600 * int(found[1] or 0) + 60 * int(found[2]) + float(found[3].replace(",", "."))
    number = finite(value)
    return number if number is not None and 0 <= number <= MOST_S else None
