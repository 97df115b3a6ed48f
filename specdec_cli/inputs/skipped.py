"""Entries of tables and cuts that a command leaves out or changes, counted for one sentence at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from specdec_cli.errors import ReferencesError

_NAMED: Final = 3
_HINT: Final = "Correct it, or leave out --strict, which refuses what is otherwise left out and counted."


@dataclass(slots=True)
class Skips:
    """Entries that were left out or changed: how many, and the first of them.

    Attributes:
        strict: whether the first one raises ReferencesError.
        left_out, changed: numbers of entries.
        notes: how files were read that can be read in several ways.
    """

    strict: bool = False
    left_out: int = 0
    changed: int = 0
    notes: list[str] = field(default_factory=list)
    _first_out: list[tuple[str, str]] = field(default_factory=list)  # "cuts.rttm, line 3", "it has no length"
    _first_changed: list[tuple[str, str]] = field(default_factory=list)

    def leave_out(self, place: str, reason: str) -> None:
        """Counts an entry that is not used."""
        self.left_out += 1
        self._keep(self._first_out, place, reason)

    def change(self, place: str, reason: str) -> None:
        """Counts an entry that is used, but not as it is written."""
        self.changed += 1
        self._keep(self._first_changed, place, reason)

    def note(self, sentence: str) -> None:
        """Keeps a sentence on how a file was read, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def require_some(self, found: object, message: str, hint: str) -> None:
        """Raises ReferencesError if nothing was `found`, and names the first entry that was left out."""
        if not found:
            first = "".join(f"{place}: {reason}." for place, reason in self._first_out[:1])
            raise ReferencesError(first or message, hint=hint)

    def sentences(self) -> list[str]:
        """What a command prints at its end: "4 entries were left out: a.rttm, line 3 (it has no length), ..."."""
        told = list(self.notes)
        for count, first, what in (
            (self.left_out, self._first_out, "left out"),
            (self.changed, self._first_changed, "changed"),
        ):
            named = [f"{place} ({reason})" for place, reason in first]
            more = [f"and {count - len(first)} more"] if count > len(first) else []
            entries = "entry was" if count == 1 else "entries were"
            told += [f"{count} {entries} {what}: {', '.join([*named, *more])}"] if count else []
        return told

    def _keep(self, first: list[tuple[str, str]], place: str, reason: str) -> None:
        if self.strict:
            raise ReferencesError(f"{place}: {reason}.", hint=_HINT)
        if len(first) < _NAMED:
            first.append((place, reason))
