"""Sets of emotion words, compared over emotion wheels, whose tables a user names.

The layout is that of OV-MERD and AffectGPT (Lian et al. 2024, arXiv 2410.01495), in files of .csv, .tsv or .xlsx:
`format` (`name`, `format`) has the forms of each word, `synonym` (`word_run1`, `synonym_run1`, ...) what has the
meaning of a word of a wheel, and `wheel1`, `wheel2` ... (`level1`, `level2`, `level3`) the words of a wheel under their
base words. An empty cell of a wheel is that above it. Lists are written in one cell: "['glad', 'cheerful']".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import Field

from specdec_cli.errors import ReferencesError, install
from specdec_cli.inputs.table_files import read_table
from specdec_cli.stats import Figures, Interval, Resampler, Statistic, Values, average, mean

_ENDINGS: Final = (".csv", ".tsv", ".xlsx")
_LEVELS: Final = ("level1", "level2", "level3")
_RUN: Final = re.compile(r"word_run\w+")
_BETWEEN: Final = re.compile(r"[\[\]'\",;，、；]+")
_LONGEST: Final = 3  # words of an item of a list of emotions; a longer one is part of a sentence
_LAYOUT: Final = "It has format, synonym and wheel1, wheel2 ... as .csv, .tsv or .xlsx: see docs/compare-and-tune.md."

Rows = list[dict[str, str]]


class WheelQuality(Figures):
    """How well sets of emotion words agree with those of the references, 0 to 1, each the mean over the wheels."""

    clips: int = Field(description="clips whose reference has a word of the tables")
    wheels: int = Field(description="wheels that were read")
    precision: Interval = Field(description="of a clip's base words, the share that its reference has; none: 0")
    recall: Interval = Field(description="of the reference's base words, the share that the caption has")
    f1: Interval = Field(description="of each wheel the harmonic mean of both")
    words_known: float | None = Field(description="share of the captions' emotion words in the tables; null: no word")


@dataclass(frozen=True, slots=True)
class Wheels:
    """Word -> its base word, for each wheel."""

    bases: tuple[Mapping[str, str], ...]

    @classmethod
    def read(cls, folder: Path) -> Wheels:
        """Reads the tables of a folder.

        ReferencesError: one is missing, has other columns, or cannot be read.
        """
        tables = {path.stem: path for ending in reversed(_ENDINGS) for path in folder.glob(f"*{ending}")}
        numbers = sorted(int(found[1]) for name in tables if (found := re.fullmatch(r"wheel(\d+)", name)))
        names = ["format", "synonym", *(f"wheel{number}" for number in numbers or [1])]
        if missing := [name for name in names if name not in tables]:
            raise ReferencesError(f"{folder} has no table {missing[0]}.", hint=_LAYOUT)
        forms, meanings = _forms(tables["format"]), _meanings(tables["synonym"])
        wheels = [_wheel(tables[name]) for name in names[2:]]
        words = forms.keys() | {word for wheel in wheels for word in wheel}
        return cls(tuple(dict(_based(words, forms, meanings, wheel)) for wheel in wheels))

    def listed(self, text: str) -> tuple[str, ...]:
        """The words of a text that is a list of emotions, such as "worried, sad"; none if it is a description."""
        parts = _items(text)
        known = any(part in bases for part in parts for bases in self.bases)
        return tuple(parts) if known and max(len(part.split()) for part in parts) <= _LONGEST else ()

    def score(
        self, said: Sequence[Iterable[str]], wanted: Sequence[Iterable[str]], resampler: Resampler
    ) -> WheelQuality | None:
        """Emotion words of the captions of n clips against those of their references; None: none is in the tables.

        As MER2026 does: words that the tables lack are left out, clips without a reference word left are too, and
        a caption without a word left has neither precision nor recall.
        """
        pairs = [(_sets(one, self.bases), _sets(other, self.bases)) for one, other in zip(said, wanted, strict=True)]
        shape = (len(pairs), len(self.bases))
        precision, recall = np.full(shape, np.nan), np.full(shape, np.nan)
        for clip, (own, other) in enumerate(pairs):
            for wheel, (ours, theirs) in enumerate(zip(own, other, strict=True)):
                if theirs:
                    common = len(ours & theirs)
                    precision[clip, wheel], recall[clip, wheel] = common / max(len(ours), 1), common / len(theirs)
        statistics = mean(precision), mean(recall), _harmonic(precision, recall)
        found = [interval for of in statistics if (interval := resampler.interval(of))]
        if len(found) < len(statistics):
            return None
        words = [word.lower() for own in said for word in own]
        known = sum(any(word in bases for bases in self.bases) for word in words)
        return WheelQuality(
            clips=int(np.isfinite(recall).any(axis=1).sum()),
            wheels=len(self.bases),
            words_known=known / len(words) if words else None,
            precision=found[0],
            recall=found[1],
            f1=found[2],
        )


def _sets(words: Iterable[str], wheels: Sequence[Mapping[str, str]]) -> list[set[str]]:
    """The base words of some words, on each wheel."""
    folded = [word.strip().lower() for word in words]
    return [{bases[word] for word in folded if word in bases} for bases in wheels]


def _harmonic(precision: Values, recall: Values) -> Statistic:
    """The mean over wheels [clips, wheels] of the harmonic mean of both, 0 where both are."""

    def of(wheel: int) -> Statistic:
        one, other = mean(precision[:, wheel]), mean(recall[:, wheel])

        def statistic(counts: Values) -> Values:
            p, r = one(counts), other(counts)
            return np.asarray(2 * p * r / np.where(p + r == 0, 1.0, p + r))

        return statistic

    return average([of(wheel) for wheel in range(precision.shape[1])])


def _rows(path: Path, *columns: str) -> Rows:
    """The rows of a table, every cell as text; ReferencesError if it lacks one of the columns."""
    if path.suffix == ".xlsx":
        rows = _sheet(path)
    else:
        rows = [{name: ", ".join(row.cell(name)) for name in row.values} for row in read_table(path).rows]
    if missing := [name for name in columns if not any(name in row for row in rows)]:
        raise ReferencesError(f"{path} has no column {missing[0]}.", hint=_LAYOUT)
    return rows


def _sheet(path: Path) -> Rows:
    """The rows of the first sheet of a workbook."""
    try:
        openpyxl: Any = import_module("openpyxl")
    except ImportError as error:
        hint = f"Save it as .csv, or install what reads it: {install('wheels')}."
        raise ReferencesError(f"{path}: .xlsx cannot be read here.", hint=hint) from error
    try:
        head, *rows = (
            openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets[0].iter_rows(values_only=True)
        )
    except Exception as error:  # whatever a damaged archive makes of the parser
        raise ReferencesError(f"{path} cannot be read: {error}.", hint="Save it again, or as .csv.") from error
    return [{str(name): str(cell or "") for name, cell in zip(head, row, strict=False)} for row in rows]


def _items(cell: str) -> list[str]:
    """The words of a list in one cell or text, in lower case."""
    return [item.strip().lower() for item in _BETWEEN.split(cell) if item.strip()]


def _forms(path: Path) -> dict[str, set[str]]:
    """Form -> the words that have it; a word is a form of itself."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in _rows(path, "name"):
        name = row["name"].strip().lower()
        for form in (*_items(row.get("format", "")), name):
            found[form].add(name)
    return found


def _meanings(path: Path) -> dict[str, set[str]]:
    """Synonym -> the words of a wheel that it may stand for, of all runs; a word is a synonym of itself."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in _rows(path, "word_run1"):
        for run in (name.removeprefix("word") for name in row if _RUN.fullmatch(name)):
            if word := row[f"word{run}"].strip().lower():
                for synonym in (*_items(row.get(f"synonym{run}", "")), word):
                    found[synonym].add(word)
    return found


def _wheel(path: Path) -> dict[str, str]:
    """Word of a wheel -> its base word. An empty cell repeats the cell above; a new word empties the levels below."""
    above = dict.fromkeys(_LEVELS, "")
    bases: dict[str, str] = {}
    for row in _rows(path, *_LEVELS):
        given = [row[level].strip().lower() for level in _LEVELS]
        first = next((place for place, word in enumerate(given) if word), len(given))
        above |= zip(_LEVELS[first:], given[first:], strict=True)
        bases |= {word: above["level1"] for word in above.values() if word}
    return bases


def _based(
    words: Iterable[str], forms: Mapping[str, set[str]], meanings: Mapping[str, set[str]], wheel: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Every word that leads to a wheel, and its base word: that of the first meaning, by the alphabet, on the wheel."""
    for word in words:
        meant = sorted({each for name in forms.get(word, {word}) for each in meanings.get(name, {name})})
        if base := next((wheel[each] for each in meant if each in wheel), None):
            yield word, base
