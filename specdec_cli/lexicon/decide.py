"""One class out of all that a caption says about an attribute."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from specdec_cli.lexicon.reading import Reading, Strength

_WEAKER: Final[tuple[Strength, ...]] = ("plain", "slight")


def decide(readings: Sequence[Reading], yields: Collection[str]) -> str | None:
    """The class that the readings of one attribute come to; the rules stand in `Lexicon.labels`.

    Args:
        readings: what the caption says about the attribute, negated words already left out.
        yields: classes that give way to any other.
    """
    likeliest = _classes(readings, "likeliest")
    if likeliest:
        return _only(likeliest)
    said = {reading.class_ for reading in readings}
    given_way = set(yields) if said - set(yields) else set()
    for strength in _WEAKER:
        if found := _classes(readings, strength) - given_way:
            return _only(found)
    return None


def _classes(readings: Sequence[Reading], strength: Strength) -> set[str]:
    return {reading.class_ for reading in readings if reading.strength == strength}


def _only(classes: set[str]) -> str | None:
    return next(iter(classes)) if len(classes) == 1 else None
