"""Repetition loops: a short unit that stands several times in a row at the end of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

LoopEnd = Callable[[Sequence[int], int], int | None]
"""`loop_end` with the run's period and repeats."""

_MIN_SINGLES = 4  # "哈哈哈" is speech; one token four times in a row is a loop


def ends_in_loop(ids: Sequence[int], period: int, repeats: int) -> bool:
    """Whether `ids` ends in a unit of 1..`period` tokens that stands at least `repeats` times in a row.

    A unit of one token must stand at least four times.
    """
    return _ends_in_loop(ids, len(ids), period, repeats)


def _ends_in_loop(ids: Sequence[int], end: int, period: int, repeats: int) -> bool:
    """The same of the first `end` of `ids`."""
    for unit in range(1, period + 1):
        times = max(repeats, _MIN_SINGLES) if unit == 1 else repeats
        start = end - unit * times
        if start < 0:
            continue
        # the last token decides nearly always, and slices nothing
        if ids[end - 1] == ids[end - 1 - unit] and ids[start + unit : end] == ids[start : end - unit]:
            return True
    return False


def loop_end(ids: Sequence[int], start: int, period: int, repeats: int) -> int | None:
    """Length of the shortest prefix of `ids`, longer than `start`, that ends in a loop; None if there is none.

    Looking at every prefix makes the answer independent of how a text was cut into blocks.
    """
    if period < 1:
        return None
    for end in range(start + 1, len(ids) + 1):
        if _ends_in_loop(ids, end, period, repeats):
            return end
    return None
