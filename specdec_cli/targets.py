"""The files that a command may write.

New ones, and those that specdec wrote and nobody edited since; with consent any other, but never one that it reads.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Final

from specdec_cli import interrupts
from specdec_cli.errors import ConfigError, TranscriptError, WrongFileError
from specdec_cli.regular_files import open_regular
from specdec_cli.written import Digests, digest_of, problem

STDOUT: Final = Path("-")
LONGEST: Final = 1 << 26  # bytes of a line; a clip's line has some ten thousand, one of a thousand rounds some million

_OF_DISKS: Final = (None, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)  # of a file system that has none


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file that specdec writes: whole, or as appended JSON lines, which are known by the first line."""

    name: str  # for messages, in the plural
    suffixes: tuple[str, ...]  # allowed endings of the file's name; JSON lines are resumed by any name
    first: tuple[str, int] = ("", 0)  # of JSON lines: name and value of the first field of the first line
    fields: frozenset[str] = frozenset()  # of JSON lines: fields that the first line has
    lines: tuple[bytes, ...] = ()  # of JSON lines: beginnings of lines, that of the first line first

    def named(self, path: Path) -> str:
        """The file's name with the first allowed ending in place of its own."""
        return path.stem.removesuffix(self.suffixes[0]) + self.suffixes[0]

    def begins(self, file: BufferedReader[FileIO]) -> bool:
        """Whether the first line of a file is of this kind, or half of such a line."""
        if not self.lines:
            return False
        line = file.readline(LONGEST)
        if not line.endswith(b"\n") and line.startswith(self.lines[0]):
            return True
        try:
            value = json.loads(line) if line.startswith(b"{") else None
        except (ValueError, RecursionError):
            return False
        return isinstance(value, dict) and (*value.items(), None)[0] == self.first and self.fields <= value.keys()

    def left_half(self, end: bytes) -> bool:
        """Whether `end` may be the beginning of a line that a killed run left."""
        return any(end.startswith(line) or line.startswith(end) for line in self.lines)


_LINE: Final = b'{"schema":1,"file":"'
_OF_TRANSCRIPTS: Final = frozenset({"file", "sha256", "language", "prompt", "mode", "caption", "models", "settings"})

TRANSCRIPTS: Final = FileKind("transcripts", (".jsonl",), ("schema", 1), _OF_TRANSCRIPTS, (_LINE,))
RECORDINGS: Final = FileKind(
    "recordings of specdec tune",
    (".jsonl",),
    ("recording", 1),
    frozenset({"file", "sha256", "setup", "edge", "cloud"}),
    (b'{"recording":1,', _LINE),
)
PICTURE: Final = FileKind("pictures", (".svg", ".png", ".pdf"))
PAGE: Final = FileKind("pages", (".html",))
CONFIG: Final = FileKind("configurations", (".yaml", ".yml"))


class Targets:
    """What one command may write.

    Args:
        reads: files that it reads, which it never writes: recordings, tables, configuration.
        overwrite: whether it may replace files of another origin, and those that were edited since specdec wrote them.
    """

    def __init__(self, reads: Iterable[str | Path | None] = (), *, overwrite: bool = False) -> None:
        self.overwrite = overwrite
        self._reads = {_identity(path) for path in reads if path is not None}
        self._written = Digests()

    def refuse(self, flag: str, target: Path | None, kind: FileKind) -> None:
        """Refuses a file that an option names, before anything is made; None: the option is not given.

        Raises:
            ConfigError: it is stdout, or has the wrong ending.
            WrongFileError: it may not be replaced.
            TranscriptError: it cannot be written.
        """
        if target is None:
            return
        if target == STDOUT:
            raise ConfigError(f"{flag} takes a file, not -.", hint="Name a file; --json prints where a command has it.")
        self.require(target, kind)
        if target.suffix.lower() not in kind.suffixes and not self._resumes(target, kind):
            hint = f"Name it {kind.named(target)}; specdec export writes transcripts in other formats."
            raise ConfigError(f"{flag} {target} does not end in {' or '.join(kind.suffixes)}.", hint=hint)

    def require(self, target: Path, kind: FileKind | None = None, about: str = "", new: str = "") -> str | None:
        """The digest of the file at a path (see `digest_of`), "" if it is empty or JSON lines; None if there is none.

        Args:
            target: the path.
            kind: of JSON lines, which may be there.
            about: see `digest_of`.
            new: the digest of what is to be written, which may be there, too.

        Raises:
            WrongFileError: the file may not be replaced.
            TranscriptError: it cannot be written.
        """
        with writing(target):
            if _identity(target) in self._reads:
                raise WrongFileError(f"{target} is one of the files that are read.", hint="Name another file.")
            real = Path(os.path.realpath(target))
            found = _digest_at(real, kind, about)
            for path in (real.parent.resolve(strict=True), *([] if found is None else [real])):
                if not os.access(path, os.W_OK):
                    raise PermissionError(errno.EACCES, "Permission denied")
        if self.overwrite or not found or found == new or self._written.holds(found):
            return found
        what, why = "exists, and specdec did not write it, or it was edited since", problem()
        if kind is not None and kind.lines:
            what, why = f"holds something other than {kind.name}", None
        hint = f"Name a new file, or replace it: --overwrite.{f' {why}' if why else ''}"
        raise WrongFileError(f"{target} {what}; it stays as it is.", hint=hint)

    def write(self, target: Path, content: str | bytes, about: str = "") -> None:
        """Writes a file whole or not at all; see `digest_of` for `about`, and `require` for errors."""
        data = content.encode("utf-8") if isinstance(content, str) else content
        new = digest_of(data, about)
        found = self.require(target, None, about, new)
        self._written.add(new)  # before it is there: a file that is not in the list could not be replaced
        if found != new:
            replace(target, data, new=found is None)

    @staticmethod
    def _resumes(target: Path, kind: FileKind) -> bool:
        """Whether a file, whatever its name, holds JSON lines of a kind, which can be resumed."""
        try:
            with open_regular(target) as file:
                return kind.begins(file)
        except (OSError, ValueError):
            return False


def _digest_at(path: Path, kind: FileKind | None, about: str) -> str | None:
    """See `Targets.require`. Raises OSError if there is a file that cannot be read, or is no regular one."""
    try:
        with open_regular(path) as file:
            if not os.fstat(file.fileno()).st_size or (kind is not None and kind.begins(file)):
                return ""
            file.seek(0)
            return digest_of(file, about)
    except FileNotFoundError:
        return None


def to_stdout(content: Iterable[str | bytes]) -> None:
    """Writes texts to standard output as they are, in UTF-8."""
    sys.stdout.flush()
    sys.stdout.buffer.writelines(_encoded(content))
    sys.stdout.buffer.flush()


def replace(
    target: Path,
    content: str | bytes | Iterable[str | bytes],
    *,
    durable: bool = False,
    new: bool = False,
    draft: Path | None = None,
) -> None:
    """Writes a file whole or not at all, in the place of any file with that name; a link stays a link.

    `durable`: the content is on the disk before it takes that place, since it cannot be made again. `new`: no file may
    have that name. `draft`: a file of the same folder that holds the content until then, which is there no more. Raises
    TranscriptError if it cannot be written.
    """
    with writing(target):
        target = Path(os.path.realpath(target))
        draft = draft or target.with_name(f".specdec-{secrets.token_hex(8)}")
        try:
            with draft.open("xb") as file:  # follows no planted link
                file.writelines(_encoded(content))
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            if new:
                _place(draft, target)
            else:
                with suppress(FileNotFoundError):
                    draft.chmod(target.stat().st_mode & 0o7777)
                draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


def _place(draft: Path, target: Path) -> None:
    """Gives a file a name. Raises FileExistsError if another one was given that name meanwhile, which then stays."""
    try:
        os.link(draft, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "File exists") from error
        draft.replace(target)  # on a file system without links


def _encoded(content: str | bytes | Iterable[str | bytes]) -> Iterator[bytes]:
    parts = [content] if isinstance(content, str | bytes) else content
    return (part.encode("utf-8") if isinstance(part, str) else part for part in parts)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns errors of the system within the block into a TranscriptError about `path`. No signal cuts it short."""
    try:
        with interrupts.WRITING:
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
