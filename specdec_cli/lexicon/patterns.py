"""Finding phrases in a row of units: the longest phrase at each place, by a tree of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from specdec_cli.lexicon.units import COMMA, ENDS, GAP, units

GAP_UNITS: Final = 4
"""Units that `...` may stand for, at most; it never reaches over a punctuation mark."""


@dataclass(slots=True)
class _Node:
    """What may follow; `phrase` is set where a phrase ends."""

    words: dict[str, _Node] = field(default_factory=dict)
    stems: dict[str, _Node] = field(default_factory=dict)
    gap: _Node | None = None
    phrase: str | None = None


class PhraseFinder:
    """Finds known phrases.

    A phrase is a row of words. `happi*` stands for every word that begins so, and `...` for up to four words.
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        self._root = _Node()
        for phrase in phrases:
            self._add(phrase)

    def find(self, row: Sequence[str]) -> list[tuple[int, int, str]]:
        """Start, end and phrase of the longest phrase at each place, left to right, none over another."""
        found = []
        at = 0
        while at < len(row):
            end, phrase = self._longest(self._root, row, at)
            if phrase is None:
                at += 1
            else:
                found.append((at, end, phrase))
                at = end
        return found

    def _add(self, phrase: str) -> None:
        node = self._root
        for part in phrase.split():
            if part == GAP:
                node.gap = node.gap or _Node()
                node = node.gap
                continue
            *whole, last = units(part)
            for unit in whole:
                node = node.words.setdefault(unit, _Node())
            kind = node.stems if part.endswith("*") else node.words
            node = kind.setdefault(last, _Node())
        node.phrase = phrase

    def _longest(self, node: _Node, row: Sequence[str], at: int) -> tuple[int, str | None]:
        best: tuple[int, str | None] = (at, node.phrase)
        for step, following in _steps(node, row, at):
            end, phrase = self._longest(following, row, step)
            if phrase is not None and (best[1] is None or end > best[0]):
                best = (end, phrase)
        return best


def _steps(node: _Node, row: Sequence[str], at: int) -> list[tuple[int, _Node]]:
    """Places and nodes that one more part of a phrase leads to; literal words first."""
    steps = []
    if at < len(row):
        if row[at] in node.words:
            steps.append((at + 1, node.words[row[at]]))
        steps += [(at + 1, following) for stem, following in node.stems.items() if row[at].startswith(stem)]
    if node.gap is not None:
        for end in range(at, min(at + GAP_UNITS, len(row)) + 1):
            steps.append((end, node.gap))
            if end < len(row) and (row[end] in ENDS or row[end] == COMMA):
                break
    return steps
