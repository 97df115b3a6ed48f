"""The known phrases of one caption, in order, with the sentence and the clause that each stands in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec_cli.lexicon.units import COMMA, ENDS
from specdec_cli.lexicon.vocabulary import Meaning, Vocabulary


@dataclass(frozen=True, slots=True)
class Mention:
    """A known phrase in a row of units.

    Attributes:
        start, end: its place, in units, end not included.
        meaning: what it may mean.
        sentence: number of its sentence; words like "but" begin a new one too.
        clause: number of its clause; commas begin a new one too.
    """

    start: int
    end: int
    meaning: Meaning
    sentence: int
    clause: int

    def marks(self, marker: str) -> bool:
        """Whether it stands in this list of markers."""
        return marker in self.meaning.markers


def mentions_in(row: Sequence[str], vocabulary: Vocabulary) -> list[Mention]:
    """All mentions in a row of units, none over another."""
    found: list[Mention] = []
    sentence = clause = place = 0
    for start, end, phrase in vocabulary.finder.find(row):
        meaning = vocabulary.meanings[phrase]
        between = row[place:start]
        ended = any(unit in ENDS for unit in between) or "breaks" in meaning.markers
        sentence += ended
        clause += ended or COMMA in between
        place = end
        if "nothing" not in meaning.markers:
            found.append(Mention(start, end, meaning, sentence, clause))
    return found
