"""Parts of recordings, as manifests and files of cuts give them: a start, and an end or a length."""

from __future__ import annotations

from typing import Final

from specdec_cli.config.problems import show
from specdec_cli.errors import ReferencesError
from specdec_cli.times import seconds

_HINT: Final = "Write times as seconds, or as HH:MM:SS; the end comes after the start."


def span(place: str, start: object, end: object = None, *, length: object = None) -> tuple[float, float]:
    """Start and end of a part, seconds.

    Args:
        place: where it is written, for messages.
        start, end, length: numbers or texts, as `seconds` reads them; the end counts where no length is given.

    Raises:
        ReferencesError: one of them is no time, or the part is empty.
    """
    start_s = _time(place, start)
    end_s = _time(place, end if length is None else start_s + _time(place, length))
    if end_s <= start_s:
        raise ReferencesError(f"{place}: it begins at {start_s:g} s and ends at {end_s:g} s.", hint=_HINT)
    return start_s, end_s


def _time(place: str, value: object) -> float:
    found = seconds(value)
    if found is None:
        raise ReferencesError(f"{place}: {show(value)} is no time in a recording.", hint=_HINT)
    return found
