"""The times of a row, a cut or a tier, as other tools write them."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.text_files import NONE
from specdec_cli.text import show
from specdec_cli.times import MOST_S, parse

Moment = float | str | None
"""Seconds; text that is not a time, as it is; None if no time is given."""
_WITH_UNIT: Final = re.compile(r"(.*\d)\s*(ms|msec|s|sec|secs|seconds)", re.IGNORECASE)
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:,\d{3})+")  # as spreadsheets show long numbers


def moment(value: object, scale: float = 1.0) -> Moment:
    """Seconds of a number or a text, also below 0; the text itself if it is not a time; None if it is empty.

    `scale`: seconds per unit of a number that names no unit itself. In milliseconds a comma stands between thousands.
    """
    if value is None:
        return None
    text = str(value).strip()
    try:
        if abs(number := float(text)) <= MOST_S:
            return number * scale
    except ValueError:
        text = unicodedata.normalize("NFKC", text)
    if ":" in text and (clock := parse(text.removeprefix("-"))) is not None:
        return -clock if text.startswith("-") else clock
    if text.casefold() in NONE:
        return None
    if scale == 0.001 and _THOUSANDS.fullmatch(text):
        return float(text.replace(",", "")) * scale
    if unit := _WITH_UNIT.fullmatch(text):
        text, scale = unit[1], 0.001 if unit[2].casefold().startswith("ms") else 1.0
    found = parse(text.removeprefix("-"))
    if found is None:
        return show(value)
    return (-found if text.startswith("-") else found) * scale


def required_moment(value: object) -> float | str:
    """A time as by `moment`; for a time that is not given, such as "nan", the text itself."""
    return show(value) if (found := moment(value)) is None else found


def span(
    place: str, skips: Skips, start: Moment, end: Moment = None, length: Moment = None
) -> tuple[float | None, float | None] | None:
    """Start and end of a part of a recording, seconds. (None, None): all of it; an end None: to its end.

    None: it is not a part of a recording, and is left out. The length is used only if there is no end.
    """
    if isinstance(start, str) or isinstance(end, str) or isinstance(length, str):
        wrong = next(each for each in (start, end, length) if isinstance(each, str))
        skips.leave_out(place, f"{wrong} is not a time")
        return None
    if start is None:
        if end is None:
            return None, None
        skips.leave_out(place, "it has an end and no start")
        return None
    if end is None and length is not None:
        end = start + length
    if end is not None and (end <= start or end <= 0 or end > MOST_S):
        why = (
            "ends before it begins" if end < start else "has no length" if end == start else "is outside of a recording"
        )
        skips.leave_out(place, f"it {why}: {start:g} s to {end:g} s")
        return None
    if start < 0:
        skips.change(place, f"it begins at {start:g} s: from the beginning")
        start = 0.0
    return start, end
