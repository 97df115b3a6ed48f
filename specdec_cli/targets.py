"""The files that a command may write: new ones, and ones that specdec wrote, but none that the command reads."""

from __future__ import annotations

import errno
import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Final

from specdec_cli import marks
from specdec_cli.errors import ConfigError, TranscriptError, WrongFileError
from specdec_cli.regular_files import open_regular

STDOUT: Final = Path("-")
LONGEST: Final = 1 << 26  # bytes of a line; a clip's line has some ten thousand, one of a thousand rounds some million

_OF_DISKS: Final = (None, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file that specdec writes: whole, with a mark or a list (see `marks`), or as appended JSON lines."""

    name: str  # for messages, in the plural
    mark: str = ""  # the word in its mark; "": JSON lines, or listed
    suffixes: tuple[str, ...] = ()  # allowed endings of the file's name; none: any
    first: tuple[str, int] = ("", 0)  # of JSON lines: name and value of the first field of the first line
    fields: frozenset[str] = frozenset()  # of JSON lines: fields that the first line has
    lines: tuple[bytes, ...] = ()  # of JSON lines: beginnings of lines, that of the first line first
    listed: bool = False  # known by the list in its folder

    def holds(self, file: BufferedReader[FileIO]) -> bool:
        """Whether specdec wrote this file, as it is now, as this kind. JSON lines are known by the first line."""
        if not self.mark:
            line = file.readline(LONGEST)
            return self._begins(line) or (not line.endswith(b"\n") and line.startswith(self.lines[0]))
        file.seek(max(0, os.fstat(file.fileno()).st_size - marks.LONGEST))
        if b"specdec:" not in file.read():  # a large file of another origin is not read
            return False
        file.seek(0)
        return marks.fits(file.read(), self.mark)

    def left_half(self, end: bytes) -> bool:
        """Whether `end` may be the beginning of a line that a killed run left."""
        return any(end.startswith(line) or line.startswith(end) for line in self.lines)

    def _begins(self, line: bytes) -> bool:
        try:
            value = json.loads(line) if line.startswith(b"{") else None
        except (ValueError, RecursionError):
            return False
        return isinstance(value, dict) and (*value.items(), None)[0] == self.first and self.fields <= value.keys()


_LINE: Final = b'{"schema":1,"file":"'
_OF_TRANSCRIPTS: Final = frozenset({"file", "sha256", "language", "prompt", "mode", "caption", "models", "settings"})

TRANSCRIPTS: Final = Kind("transcripts", "", (".jsonl",), ("schema", 1), _OF_TRANSCRIPTS, (_LINE,))
RECORDINGS: Final = Kind(
    "recordings of specdec tune",
    first=("recording", 1),
    fields=frozenset({"file", "sha256", "setup", "edge", "cloud"}),
    lines=(b'{"recording":1,', _LINE),
)
EXPORTS: Final = Kind("exports of specdec", listed=True)
PICTURE: Final = Kind("pictures of specdec", "picture", (".svg", ".png", ".pdf"))
PAGE: Final = Kind("pages of specdec", "page", (".html",))
REVIEW: Final = Kind("review pages of specdec", "review", (".html",))
CALIBRATION: Final = Kind("calibrations", "calibration", (".json",))
GATE: Final = Kind("gate files", "gate", (".json",))


def refuse(flag: str, target: Path | None, kind: Kind, inputs: Iterable[str | Path | None]) -> None:
    """Refuses a target that cannot be written, or that holds something of another origin; writes nothing.

    Args:
        flag: the option that names the target.
        target: the file; None: the option is not given.
        kind: what the file will hold.
        inputs: files that the command reads: recordings, tables, configuration, gate, lexicon.

    Raises:
        ConfigError: the target is an input, or has the wrong ending.
        TranscriptError: it holds something that specdec did not write, or cannot be written.
    """
    if target is None:
        return
    if target == STDOUT:
        raise ConfigError(f"{flag} takes a file, not -.", hint="Name a file; --json prints where a command has it.")
    if _identity(target) in {_identity(given) for given in inputs if given is not None}:
        raise ConfigError(f"{flag} {target} is one of the recordings or other inputs.", hint="Name another file.")
    ending = target.suffix.lower()
    suffixes = kind.suffixes or (ending,)
    if ending not in suffixes and (kind.mark or not target.exists()):  # JSON lines are resumed by any name
        hint = f"Name it {target.stem}{suffixes[0]}; specdec export writes transcripts in other formats."
        raise ConfigError(f"{flag} {target} does not end in {' or '.join(suffixes)}.", hint=hint)
    require_ours(target, kind)


def require_ours(target: Path, kind: Kind) -> bool:
    """Whether the file exists. Raises TranscriptError if it cannot be written, or is not one of `kind` by specdec.

    An empty file is accepted.
    """
    found, ours, written = True, True, target
    with writing(target):
        try:
            with open_regular(target) as file:
                empty = not os.fstat(file.fileno()).st_size
                ours = _is_export(target) if kind.listed else empty or kind.holds(file)
        except FileNotFoundError:
            found, written = False, Path(os.path.realpath(target)).parent.resolve(strict=True)
        if not os.access(written, os.W_OK):
            raise PermissionError(errno.EACCES, "Permission denied")
    if not ours:
        edited = ", or was edited since specdec wrote it" if kind.mark or kind.listed else ""
        message = f"{target} holds something other than {kind.name}{edited}; nothing was written to it."
        raise WrongFileError(message, hint="Name a new file, or delete that one if nobody needs it.")
    return found


def _is_export(target: Path) -> bool:
    return not target.is_symlink() and marks.is_listed(target)


def write(target: Path, content: str | bytes, kind: Kind) -> None:
    """Writes a file with its mark, whole or not at all: a new one, or in the place of one of the same kind.

    Raises TranscriptError if it cannot be written, or by now holds something else.
    """
    found = require_ours(target, kind)
    data = content.encode("utf-8") if isinstance(content, str) else content
    replace(target, marks.sealed(data, kind.mark), new=not found)


def to_stdout(content: Iterable[str]) -> None:
    """Writes texts to standard output as they are, in UTF-8."""
    sys.stdout.flush()
    sys.stdout.buffer.writelines(_encoded(content))
    sys.stdout.buffer.flush()


def replace(
    target: Path, content: str | bytes | Iterable[str | bytes], *, durable: bool = False, new: bool = False
) -> None:
    """Writes a file whole or not at all, in the place of any file with that name; a link stays a link.

    `durable`: the content is on the disk before it takes that place, since it cannot be made again. `new`: no file may
    have that name. Raises TranscriptError if it cannot be written.
    """
    with writing(target):
        target = Path(os.path.realpath(target))
        draft = target.with_name(f".specdec-{secrets.token_hex(8)}")
        try:
            with draft.open("xb") as file:  # follows no planted link
                file.writelines(_encoded(content))
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            if new:
                target.open("xb").close()  # fails if the file was made meanwhile, which then stays
            else:
                draft.chmod(target.stat().st_mode & 0o7777)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


def _encoded(content: str | bytes | Iterable[str | bytes]) -> Iterator[bytes]:
    parts = [content] if isinstance(content, str | bytes) else content
    return (part.encode("utf-8") if isinstance(part, str) else part for part in parts)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns errors of the system within the block into a TranscriptError about `path`."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        hint = "Check the folder, its permissions and the free space; what the file held is untouched."
        of_disk = isinstance(error, OSError) and error.errno in _OF_DISKS
        kind = TranscriptError if of_disk else WrongFileError
        raise kind(f"{path} cannot be written: {reason}.", hint=hint) from error


def _identity(path: str | Path) -> object:
    """A value that is equal for two names of one file, even of one that does not exist."""
    real = os.path.realpath(path)
    try:
        status = os.stat(real)
    except (OSError, ValueError):
        return real
    return status.st_dev, status.st_ino
