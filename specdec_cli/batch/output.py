"""The output of a batch: who is in it already, and appending whole recordings to it, by one run at a time.

A line is never changed. A recording that is captioned again, because it had failed or has changed, gets new lines at
the end; the ones they replace are dropped when the file is closed, or opened the next time if the run was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from specdec_cli.batch.items import Item, Key
from specdec_cli.batch.lines import Line, groups, is_whole, read_lines
from specdec_cli.transcript.schema import Transcript
from specdec_cli.transcript.writer import lock, mend_open, open_locked, write_whole, writing


@dataclass(frozen=True, slots=True)
class Entry:
    """A recording that the output holds.

    Attributes:
        offset: of its first line, bytes.
        sha256: of the content that was captioned; None if it could not be read.
        retry: how to caption it again, if it or a segment of it failed; else None.
    """

    offset: int
    sha256: str | None
    retry: Item | None


class Output:
    """An output that is open and locked. Use it as a context manager.

    Args:
        path: the file; created if it does not exist.
        check: called with each line, to refuse what does not belong to this run; None: every line will be dropped
            by `clear`.

    Raises:
        TranscriptError: another run is writing it, it cannot be written, or it holds something else.
        Whatever `check` raises.
    """

    def __init__(self, path: Path, check: Callable[[Line], None] | None) -> None:
        self.path = path
        self._entries: dict[Key, Entry] = {}
        self._superseded = False
        self._created = not path.exists()
        self._descriptor = open_locked(path)
        try:
            self._draft.unlink(missing_ok=True)  # of a run that was killed
            if check is not None:
                self._mend(self._read(check))
                if self._superseded:
                    self._compact()
        except BaseException as refusal:
            self.__exit__(type(refusal))
            raise

    def __enter__(self) -> Output:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if self._superseded and error is None:
                self._read(None)
                self._compact()
            if self._created and not os.fstat(self._descriptor).st_size:  # a run that came to nothing leaves nothing
                self.path.unlink(missing_ok=True)
        finally:
            os.close(self._descriptor)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Key) -> Entry | None:
        """What the output held of a recording when it was opened."""
        return self._entries.get(key)

    def entries(self) -> Iterator[tuple[Key, Entry]]:
        """Everything that it held when it was opened."""
        return iter(self._entries.items())

    def clear(self) -> None:
        """Drops all that the file holds."""
        os.ftruncate(self._descriptor, 0)
        self._entries.clear()

    def append(self, key: Key, transcripts: Sequence[Transcript]) -> None:
        """Appends the lines of one recording, all of them or none, whatever ends the process.

        Raises:
            TranscriptError: the disk is full, for example.
        """
        lines = b"".join(transcript.to_json().encode("utf-8") + b"\n" for transcript in transcripts)
        with writing(self.path):
            write_whole(self._descriptor, lines)
        self._superseded = self._superseded or key in self._entries

    @property
    def _draft(self) -> Path:
        """Where the file is written anew before it takes the old one's place."""
        target = self.path.resolve()
        return target.with_name(f".{target.name}.new")

    def _mend(self, last: list[Line]) -> None:
        """Cuts off what a crash tore, or ends a last line that only lacks its newline.

        A torn line may be one of several segments that were written together: those before it go too.

        Args:
            last: the group of whole lines that ends the file.
        """
        if not mend_open(self._descriptor, self.path, is_whole):
            return
        if last and last[-1].start_s is not None:
            os.ftruncate(self._descriptor, last[0].offset)
        self._superseded = False
        self._read(None)

    def _read(self, check: Callable[[Line], None] | None) -> list[Line]:
        """Takes in who is there, of several groups of lines for one recording the last; returns the last of all."""
        self._entries.clear()
        group: list[Line] = []
        for group in self._groups():
            if check is not None:
                for line in group:
                    check(line)
            key = group[0].key
            self._superseded = self._superseded or key in self._entries
            self._entries[key] = _entry(group)
        return group

    def _compact(self) -> None:
        """Writes the file anew without lines that others replace; the new file takes the old one's place at once."""
        draft = self._draft
        with writing(self.path):
            descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o644)
            try:
                lock(descriptor)
                draft.chmod(os.fstat(self._descriptor).st_mode & 0o7777)
                for group in self._groups():
                    if self._entries[group[0].key].offset == group[0].offset:
                        for line in group:  # empty lines may stand between them
                            write_whole(descriptor, os.pread(self._descriptor, line.size, line.offset))
                os.fsync(descriptor)
                draft.replace(self.path.resolve())
            except BaseException:
                os.close(descriptor)
                draft.unlink(missing_ok=True)
                raise
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._superseded = False

    def _groups(self) -> Iterator[list[Line]]:
        with self.path.open("rb") as file:
            yield from groups(read_lines(self.path, file))


def _entry(group: Sequence[Line]) -> Entry:
    first = group[0].values
    if all(line.good for line in group):
        return Entry(group[0].offset, first.get("sha256"), None)
    item = Item(first["file"], first.get("id"), first.get("language"), first.get("prompt"))
    return Entry(group[0].offset, first.get("sha256"), item)
