"""What a table or a file of cuts holds and a command leaves out or changes: counted, so that one sentence tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from specdec_cli.errors import ReferencesError

_NAMED: Final = 3
_HINT: Final = "Mend it, or leave out --strict, which refuses what is otherwise left out and counted."


@dataclass(frozen=True, slots=True)
class Skipped:
    """One entry, and why it was left out or changed."""

    place: str  # "cuts.rttm, line 3"
    reason: str  # "it has no length"


@dataclass(slots=True)
class Skips:
    """Entries that were left out or changed: how many, and the first of them.

    Attributes:
        strict: the first one raises ReferencesError instead.
        left_out, changed: numbers of entries.
        notes: how a file was understood where it could have been understood otherwise.
    """

    strict: bool = False
    left_out: int = 0
    changed: int = 0
    notes: list[str] = field(default_factory=list)
    _first_out: list[Skipped] = field(default_factory=list)
    _first_changed: list[Skipped] = field(default_factory=list)

    def leave_out(self, place: str, reason: str) -> None:
        """Counts an entry that is not used."""
        self._refuse(place, reason)
        self.left_out += 1
        if len(self._first_out) < _NAMED:
            self._first_out.append(Skipped(place, reason))

    def change(self, place: str, reason: str) -> None:
        """Counts an entry that is used, though not as it is written."""
        self._refuse(place, reason)
        self.changed += 1
        if len(self._first_changed) < _NAMED:
            self._first_changed.append(Skipped(place, reason))

    def note(self, sentence: str) -> None:
        """Keeps a sentence on how a file was understood, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def require_some(self, found: object, message: str, hint: str) -> None:
        """Raises ReferencesError if nothing was `found`, and names the first entry that was left out."""
        if not found:
            first = next(iter(self._first_out), None)
            raise ReferencesError(f"{first.place}: {first.reason}." if first else message, hint=hint)

    def sentences(self) -> list[str]:
        """What a command prints at its end."""
        out = _sentence(self.left_out, self._first_out, "left out")
        return [*self.notes, *out, *_sentence(self.changed, self._first_changed, "changed")]

    def _refuse(self, place: str, reason: str) -> None:
        if self.strict:
            raise ReferencesError(f"{place}: {reason}.", hint=_HINT)


def _sentence(count: int, first: Sequence[Skipped], what: str) -> list[str]:
    """ "4 entries were left out: a.rttm, line 3 (it has no length), ..., and 1 more"."""
    named = [f"{one.place} ({one.reason})" for one in first]
    more = [f"and {count - len(first)} more"] if count > len(first) else []
    return [f"{count} {'entry was' if count == 1 else 'entries were'} {what}: {', '.join([*named, *more])}"] * bool(
        count
    )
