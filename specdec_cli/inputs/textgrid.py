"""TextGrids of Praat in its two text formats, long and short, read as Praat reads them: values in a fixed order.

Values are numbers, quoted texts and flags between white space; all else (`xmin =`, `item [1]:`, `! a comment`) is
decoration.
Source: https://www.fon.hum.uva.nl/praat/manual/TextGrid_file_formats.html
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from specdec_cli.config.problems import show
from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.table_files import read_text
from specdec_cli.times import finite

_VALUE: Final = re.compile(
    r"![^\n]*|\"(?P<text>(?:[^\"]|\"\")*)\"|(?<!\S)(?P<number>[-+]?\d[\d.eE+-]*)(?!\S)|(?<!\S)<(?P<flag>exists|absent)>(?!\S)"
)
_KINDS: Final = {"text": "a text in quotes", "number": "a number", "flag": "<exists>"}


class Interval(NamedTuple):
    """A labelled interval: its line in the file, times in seconds, label."""

    line: int
    start_s: float
    end_s: float
    label: str


def interval_tiers(path: Path) -> Iterator[tuple[str, list[Interval]]]:
    """Name and intervals of each interval tier; point tiers are left out.

    Raises:
        ReferencesError: it is no TextGrid, or ends early; names the line.
    """
    values = _Values(path)
    if values.take("text")[0] != "ooTextFile" or values.take("text")[0] != "TextGrid":
        raise values.fault('it does not begin with File type = "ooTextFile", Object class = "TextGrid"')
    for kind in ("number", "number"):
        values.take(kind)
    tiers = values.count() if values.take("flag")[0] == "exists" else 0
    for _ in range(tiers):
        kind, name = values.take("text")[0], values.take("text")[0]
        if kind not in ("IntervalTier", "TextTier"):
            raise values.fault(f"{show(kind)} is no kind of tier")
        for part in ("number", "number"):
            values.take(part)
        found = [values.interval(point=kind == "TextTier") for _ in range(values.count())]
        if kind == "IntervalTier":
            yield name, found


class _Values:
    """The values of a file, in order."""

    def __init__(self, path: Path) -> None:
        self._path, text = path, read_text(path)
        self._lines = [found.start() for found in re.finditer("\n", text)]
        self._found = (found for found in _VALUE.finditer(text) if found.lastgroup is not None)
        self._at, self._end = 0, len(text)

    def take(self, kind: str) -> tuple[str, int]:
        """The next value and its line.

        Raises:
            ReferencesError: it is of another kind, or there is none.
        """
        found = next(self._found, None)
        self._at = self._end if found is None else found.start()
        if found is None or found.lastgroup != kind:
            raise self.fault(f"{_KINDS[kind]} was expected, and {'the file ends' if found is None else 'is not there'}")
        return found[kind].replace('""', '"'), self._line

    def number(self) -> tuple[float, int]:
        """The next value, a number, and its line; errors as `take`."""
        value, line = self.take("number")
        number = finite(value)
        if number is None:
            raise self.fault(f"{show(value)} is no number")
        return number, line

    def count(self) -> int:
        """The next value, a number of items; errors as `take`."""
        value = self.number()[0]
        if value != int(value) or value < 0:
            raise self.fault(f"{value:g} is no number of items")
        return int(value)

    def interval(self, *, point: bool) -> Interval:
        """The next interval, or the next point of a tier of points; errors as `take`."""
        start, line = self.number()
        return Interval(line, start, start if point else self.number()[0], self.take("text")[0])

    def fault(self, reason: str) -> ReferencesError:
        """What is wrong at the last value."""
        message = f"{self._path}, line {self._line}: this is no TextGrid that can be read: {reason}."
        return ReferencesError(message, hint="Save it with Praat again, as a text file.")

    @property
    def _line(self) -> int:
        return bisect(self._lines, self._at - 1) + 1
