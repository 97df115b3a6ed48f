"""The folder that a data set is unpacked to: recordings as files, and a table that is manifest and references."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Final

from specdec_cli.errors import ConfigError, SpecdecError, WrongFileError, as_specdec_error
from specdec_cli.export.folder import shortened
from specdec_cli.inputs.entries import Columns, plain_name
from specdec_cli.inputs.names import SOUND_ENDINGS
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import Table
from specdec_cli.journal import Journal, StoredLine, Watch
from specdec_cli.targets import Kind, writing
from specdec_cli.unpack.data_set import DataSet, Shard
from specdec_cli.unpack.samples import Sample, samples

TABLE: Final = "table.jsonl"
UNPACKED: Final = Kind(
    "tables of specdec unpack",
    first=("unpacked", 1),
    fields=frozenset({"file", "unpacked_from", "unpacked_of"}),
    lines=(b'{"unpacked": 1, "file": "',),
)
_OWN: Final = ("unpacked", "file", "unpacked_from", "unpacked_of")
_DRAFT: Final = ".specdec-unpack"
_ENDING: Final = re.compile(rf"(.*)\.({SOUND_ENDINGS})", re.IGNORECASE | re.DOTALL)
_UNSAFE: Final = re.compile(r'[<>:"|?*\\]')
_LONGEST: Final = 120  # characters of a part of a name
_HEADS: Final = {
    b"fLaC": "flac",
    b"OggS": "ogg",
    b"ID3": "mp3",
    b"\xff\xfb": "mp3",
    b"\xff\xf3": "mp3",
    b"\x1aE\xdf\xa3": "webm",
    b"FORM": "aiff",
    b"caff": "caf",
    b"#!AMR": "amr",
    b".snd": "au",
    b"ftyp": "m4a",  # behind four bytes
}


class _Unpacked(Journal[dict[str, object]]):
    """The table, which a later run resumes; it remembers the last row of each file of the data set."""

    def __init__(self, path: Path, label: str) -> None:
        self.done: dict[str, int] = {}
        self.count = 0
        self.files: set[object] = set()
        self._label = label
        super().__init__(path, UNPACKED, self._require_same)

    def parsed(self, line: StoredLine) -> dict[str, object]:
        row = json.loads(line.raw)
        if not UNPACKED.fields <= row.keys():
            raise WrongFileError(f"{self.path}:{line.number} is no line of a table of specdec unpack.")
        return row  # type: ignore[no-any-return]

    def take(self, entry: dict[str, object]) -> None:
        file, _, number = str(entry["unpacked_from"]).rpartition(":")
        self.done[file] = int(number)
        self.count += 1
        self.files.add(entry["file"])

    def _require_same(self, row: dict[str, object]) -> tuple[()]:
        if row["unpacked_of"] != self._label:
            message = f"{self.path.parent} holds what was unpacked of another data set: {row['unpacked_of']}."
            raise ConfigError(message, hint=f"Name another folder for {self._label}.")
        return ()


class Unpacking:
    """Unpacks a data set into a folder, which a later call resumes.

    Attributes:
        count, before: recordings that were written now, and in earlier runs.
        failed: files of the data set that could not be read to their end.
        skips: rows that were left out, and changes of others.
    """

    def __init__(self, data_set: DataSet, folder: Path, column: str | None = None) -> None:
        """`column`: which holds the recordings, if several do."""
        self.count = self.before = self.failed = 0
        self.skips = Skips()
        self._set, self._folder, self._column = data_set, folder, column
        self._renamed: dict[str, str] = {}

    def run(self, watch: Watch, *, limit: int | None = None, stopped: Callable[[], bool] = lambda: False) -> None:
        """Writes what the folder lacks; `limit`: recordings that it is to hold.

        A later run reads the data set from its start, and so tells of the same damage and of the same rows.

        Raises:
            ConfigError: the folder holds what was unpacked of another data set.
            TranscriptError: it holds something else, or cannot be written.
        """
        label = self._set.label + (f", column {self._column}" if self._column else "")
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            strange = [name for name in os.listdir(self._folder) if not name.startswith(".specdec-")]
        if strange and TABLE not in strange:
            hint = "Name a new folder; it will be created."
            raise WrongFileError(f"{self._folder} holds something other than a data set that was unpacked.", hint=hint)
        with _Unpacked(self._folder / TABLE, label) as rows:
            self.before, passed = rows.count, 0
            watch.begin(len(self._set.shards))
            for shard in self._set.shards:
                watch.step(shard.label)
                try:
                    for sample in samples(shard, self._set.root, self._column, self.skips.note):
                        if stopped() or (limit is not None and passed >= limit):
                            return
                        if sample.sound is None:
                            problem = sample.problem or "it has no recording"
                            self.skips.leave_out(f"{shard.label}, row {sample.number}", problem)
                            continue
                        for change in sample.changes:
                            self.skips.change(f"{shard.label}, row {sample.number}", change)
                        passed += 1
                        if sample.number > rows.done.get(shard.label, 0):
                            self._add(rows, shard, sample, sample.sound, label)
                except SpecdecError:
                    raise
                except Exception as error:  # whatever pyarrow and tarfile raise for damaged files
                    self.failed += 1
                    watch.failed(shard.label, as_specdec_error(error))
                watch.advance()

    def _add(self, rows: _Unpacked, shard: Shard, sample: Sample, sound: bytes, label: str) -> None:
        file = self._written(sound, shard, sample, rows.files)
        rows.files.add(file)
        own = {"unpacked": 1, "file": file}
        cells = {self._column_named(name, sample.cells): cell for name, cell in sample.cells.items()}
        more = {} if len(self._set.splits) == 1 or "split" in cells else {"split": shard.split}
        told = {"unpacked_from": f"{shard.label}:{sample.number}", "unpacked_of": label}
        rows.append(json.dumps(own | cells | more | told, ensure_ascii=False))
        self.count += 1

    def _column_named(self, name: str, others: Collection[str]) -> str:
        """The name of a column in the table: another one if specdec would read it as a part of the file."""
        if name not in self._renamed:
            known = Columns(Table(Path(), (name,), ()))
            about = (known.start, known.end, known.channel, known.id, known.prompt)
            self._renamed[name] = name
            if name in _OWN or plain_name(name) == "file" or any(about):
                heads = (f"{'source_' * times}{name}" for times in count(1))
                self._renamed[name] = next(head for head in heads if head not in others)
                self.skips.note(
                    f"column {name} is about the source, not about the file, and becomes {self._renamed[name]}"
                )
        return self._renamed[name]

    def _written(self, sound: bytes, shard: Shard, sample: Sample, taken: Collection[object]) -> str:
        """Writes a recording under a name that is free, and returns it.

        `taken`: files that have a row. A file without a row that has the same content is that of this row: the last run
        ended before it wrote the row.
        """
        draft = self._folder / _DRAFT
        with writing(draft):
            draft.unlink(missing_ok=True)
            with draft.open("xb") as file:
                file.write(sound)
                file.flush()
                os.fsync(file.fileno())  # its row is on the disk, too, once it is written
        folders = shard.split.split("/") if len(self._set.splits) > 1 else []
        for name in _names(sample, sound[:16], folders):
            target = self._folder / name
            with writing(target):
                try:
                    target.parent.mkdir(parents=True, exist_ok=True)
                except (FileExistsError, NotADirectoryError):
                    continue
                if os.path.lexists(target) and (name in taken or not _holds(target, sound)):
                    continue
                draft.replace(target)
                return name
        raise AssertionError("there are names without end")


def _names(sample: Sample, head: bytes, folders: list[str]) -> Iterator[str]:
    """Relative names for a recording, the best first: that of its maker, then the same with the number of its row."""
    path = PurePosixPath(sample.name.replace("\\", "/"))
    inner = [] if path.is_absolute() or re.match("[A-Za-z]:", sample.name) else path.parts[:-1]
    known = _ENDING.fullmatch(path.name)
    ending = known[2].lower() if known else _ending_of(head)
    stem = _safe(known[1] if known else path.name) or f"{sample.number:06d}"
    parts = [*folders, *filter(None, map(_safe, inner))]
    yield shortened("/".join([*parts, stem]), f".{ending}")
    yield shortened("/".join([*parts, f"{stem}-{sample.number}"]), f".{ending}")
    for more in count(2):
        yield shortened(f"{stem}-{sample.number}-{more}", f".{ending}")


@cache
def _safe(part: str) -> str:
    """A part of a path as a name that every system takes, neither hidden nor `..`."""
    printable = "".join(letter if letter.isprintable() and letter != "/" else "_" for letter in part)
    return _UNSAFE.sub("_", printable)[:_LONGEST].strip(". -")


def _ending_of(head: bytes) -> str:
    """The ending of a recording by its first bytes; wav if they are unknown."""
    return next((ending for magic, ending in _HEADS.items() if magic in (head[: len(magic)], head[4:8])), "wav")


def _holds(file: Path, content: bytes) -> bool:
    return file.is_file() and file.stat().st_size == len(content) and file.read_bytes() == content
