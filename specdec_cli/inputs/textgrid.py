"""TextGrids of Praat in its two text formats, long and short, read as Praat reads them: values in a fixed order.

Values are numbers, quoted texts and flags between white space; all else (`xmin =`, `item [1]:`, `! a comment`) is
decoration.
Source: https://www.fon.hum.uva.nl/praat/manual/TextGrid_file_formats.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.table_files import read_text
from specdec_cli.times import finite

_VALUE: Final = re.compile(
    r"![^\n]*|\"(?P<text>(?:[^\"]|\"\")*)\"|(?<!\S)(?P<number>[-+]?\d[\d.eE+-]*)(?!\S)|(?<!\S)<(?P<flag>exists|absent)>(?!\S)"
)
Interval = tuple[int, float, float, str]
"""The line in the file, start and end in seconds, and the label."""


def interval_tiers(path: Path) -> Iterator[tuple[str, list[Interval]]]:
    """Name and intervals of each interval tier; point tiers are left out.

    Raises:
        ReferencesError: it is no TextGrid, or ends early; names the line.
    """
    values = _Values(path)
    if values.take("text") != "ooTextFile" or values.take("text") != "TextGrid":
        raise values.fault('it does not begin with File type = "ooTextFile", Object class = "TextGrid"')
    values.skip_times()
    tiers = int(values.number()) if values.take("flag") == "exists" else 0
    for _ in range(tiers):
        kind, name = values.take("text"), values.take("text")
        values.skip_times()
        found = [values.interval(point=kind == "TextTier") for _ in range(int(values.number()))]
        if kind != "TextTier":
            yield name, found


class _Values:
    """The values of a file, in order; each method takes the next, and raises a ReferencesError for one unlike it."""

    def __init__(self, path: Path) -> None:
        self._path, self._text = path, read_text(path)
        self._found = (found for found in _VALUE.finditer(self._text) if found.lastgroup is not None)
        self._at, self._line = 0, 1  # of the last value

    def take(self, kind: str) -> str:
        found = next(self._found, None)
        start = len(self._text) if found is None else found.start()
        self._line += self._text.count("\n", self._at, start)
        self._at = start
        if found is None or found.lastgroup != kind:
            raise self.fault(f"a {kind} was expected, and {'the file ends' if found is None else 'is not there'}")
        return found[kind].replace('""', '"')

    def number(self) -> float:
        number = finite(self.take("number"))
        if number is None:
            raise self.fault("a number was expected")
        return number

    def skip_times(self) -> None:
        self.take("number")
        self.take("number")

    def interval(self, *, point: bool) -> Interval:
        start, line = self.number(), self._line
        return line, start, start if point else self.number(), self.take("text")

    def fault(self, reason: str) -> ReferencesError:
        """What is wrong at the last value."""
        message = f"{self._path}, line {self._line}: this is no TextGrid that can be read: {reason}."
        return ReferencesError(message, hint="Save it with Praat again, as a text file.")
