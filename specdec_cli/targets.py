"""What a command may write: nothing but new files and files that specdec wrote itself, and none that it reads."""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specdec_cli.errors import ConfigError, TranscriptError

STDOUT: Final = Path("-")
"""As a target: standard output."""

TRANSCRIPT: Final = b'{"schema":1,"file":"'
RECORDING: Final = b'{"recording":1,'
COLUMNS: Final = (
    "name", "id", "file", "start_s", "end_s", "duration_s", "language", "caption", "finish_reason", "error"
)  # fmt: skip

_FORMATS: Final = {
    **{f".{name}": name for name in ("textgrid", "eaf", "srt", "vtt", "rttm", "csv", "txt")},
    **dict.fromkeys((".tsv", ".xlsx"), "csv"),
}
"""Ending that promises another format than transcripts -> its name in `specdec export`."""
_HEAD: Final = 16_384  # bytes of a file that identify its kind


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file that specdec writes.

    Attributes:
        name: for messages, in the plural.
        ours: whether the beginning of a file says that specdec wrote it as this kind; blanks before it are left out.
        suffixes: what the file's name may end in; none: anything.
        appended: whether it is read again and appended to, which takes a regular file.
        stdout: whether "-" means standard output; elsewhere it is refused, for stdout has the command's own text.
    """

    name: str
    ours: Callable[[bytes], bool]
    suffixes: tuple[str, ...] = ()
    stdout: bool = False
    appended: bool = False


def _like(pattern: bytes, *torn: bytes) -> Callable[[bytes], bool]:
    """Whether a file's beginning matches, or is the beginning of a line that was torn."""
    expected = re.compile(pattern, re.DOTALL)
    return lambda head: expected.match(head) is not None or any(line.startswith(head) for line in torn)


_SCHEMA: Final = rb'\{\s*"schema"\s*:\s*1\s*[,}]'  # as another JSON library may write it
_PAGE: Final = rb"(?i:<!doctype html>).*<title>specdec %s</title>"
_FORMAT: Final = rb'\{\s*"format"\s*:\s*"specdec %s"'

TRANSCRIPTS: Final = Kind("transcripts", _like(_SCHEMA, TRANSCRIPT), appended=True)
RECORDINGS: Final = Kind(
    "recordings of specdec tune",
    _like(_SCHEMA + rb'|\{\s*"recording"\s*:\s*1\s*[,}]', RECORDING, TRANSCRIPT),
    appended=True,
)
TABLE: Final = Kind("tables of specdec batch", _like(",".join(COLUMNS[:8]).encode()), stdout=True)
PICTURE: Final = Kind(  # a PDF does not say so at its head
    "pictures of specdec", _like(rb"(?:<svg|\x89PNG).*specdec"), (".svg", ".png", ".pdf")
)
PAGE: Final = Kind("pages of specdec", _like(_PAGE % b"report"), (".html",))
REVIEW: Final = Kind("review pages of specdec", _like(_PAGE % b"review"), (".html",))
CALIBRATION: Final = Kind("calibrations", _like(_FORMAT % b"calibration"), (".json",))
GATE: Final = Kind("gate files", _like(_FORMAT % b"gate"), (".json",))


def refuse(targets: Mapping[str, tuple[Path | None, Kind]], inputs: Iterable[str | Path | None]) -> None:
    """Refuses targets that cannot be written, or whose writing would destroy something; writes nothing.

    Args:
        targets: flag -> the file, None where the flag is not given, and what it will hold.
        inputs: files that the command reads: recordings, tables, configuration, gate, lexicon.

    Raises:
        ConfigError: a target is an input, or another target; it has the wrong ending; its folder does not exist.
        TranscriptError: a target holds something that specdec did not write, or cannot be written.
    """
    read = [Path(given) for given in inputs if given is not None]
    taken: dict[str, str] = {}
    for flag, (target, kind) in targets.items():
        if target is None:
            continue
        real = os.path.realpath(target)
        if (other := taken.setdefault(real, flag)) != flag:
            raise ConfigError(f"{flag} and {other} are both {target}.", hint="Name two files.")
        if target == STDOUT:
            if not kind.stdout:
                hint = "Name a file; --json prints to stdout where a command has it."
                raise ConfigError(f"{flag} takes a file, not -.", hint=hint)
            continue
        if any(os.path.realpath(given) == real or _same(given, target) for given in read):
            raise ConfigError(f"{flag} {target} is one of the recordings or other inputs.", hint="Name another file.")
        if kind is TRANSCRIPTS and (format_ := _FORMATS.get(target.suffix.lower())):
            hint = f"Name it {target.stem}.jsonl; then: specdec export {target.stem}.jsonl --to {format_}"
            raise ConfigError(f"{flag} {target} would hold transcripts, lines of JSON, not {target.suffix}.", hint=hint)
        if kind.suffixes and target.suffix.lower() not in kind.suffixes:
            hint = f"Name it {target.stem}{kind.suffixes[0]}, for example."
            raise ConfigError(f"{flag} {target} does not end in {' or '.join(kind.suffixes)}.", hint=hint)
        if not Path(os.path.realpath(target)).parent.is_dir():
            hint = f"Create it: mkdir -p {target.parent}"
            raise ConfigError(f"The folder of {flag} {target} does not exist.", hint=hint)
        require_ours(target, kind)


def require_ours(target: Path, kind: Kind) -> None:
    """Refuses a file that holds something else than `kind`, or cannot be written; an empty one is fine.

    Raises:
        TranscriptError: the reason.
    """
    head, folder = b"", Path(os.path.realpath(target)).parent
    with writing(target):
        try:
            with os.fdopen(os.open(target, os.O_RDWR | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
                head = file.read(_HEAD) if target.is_file() else b""
            if kind.appended and not target.is_file():
                raise OSError(errno.EINVAL, "It is no regular file")
        except FileNotFoundError:
            if not folder.is_dir():
                raise
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError("Permission denied") from None
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\0\r\n\t ")
    if head and not kind.ours(head):
        raise TranscriptError(
            f"{target} holds something else than {kind.name}; nothing was written to it.",
            hint="Name a new file, or one that specdec wrote.",
        )


def write(target: Path, content: str | bytes | Iterable[str], kind: Kind) -> None:
    """Writes a file whole or not at all, in the place of one of the same kind; "-" is standard output.

    Raises:
        TranscriptError: it cannot be written, or holds something else by now.
    """
    if target == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(_encoded(content))
        sys.stdout.buffer.flush()
        return
    require_ours(target, kind)
    replace(target, content)


def replace(
    target: Path, content: str | bytes | Iterable[str | bytes], *, draft: Path | None = None, durable: bool = False
) -> None:
    """Writes a file whole or not at all, in the place of whatever has that name; a link stays a link.

    `draft`: a file in the same folder that is written first, and must not exist; None: one with a random name.
    `durable`: it is on the disk before it takes that place, for content that cannot be made again.

    Raises:
        TranscriptError: it cannot be written.
    """
    with writing(target):
        if target.exists() and not target.is_file():  # a device or a pipe
            with target.open("wb") as file:
                file.writelines(_encoded(content))
            return
        target = Path(os.path.realpath(target))
        draft = draft or target.with_name(f".specdec-{secrets.token_hex(8)}")
        try:
            with draft.open("xb") as file:  # follows no link that was planted in its place
                file.writelines(_encoded(content))
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            if target.exists():
                draft.chmod(target.stat().st_mode & 0o7777)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


def _encoded(content: str | bytes | Iterable[str | bytes]) -> Iterator[bytes]:
    parts = [content] if isinstance(content, str | bytes) else content
    return (part.encode("utf-8") if isinstance(part, str) else part for part in parts)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system refuses inside becomes a TranscriptError."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise TranscriptError(
            f"{path} cannot be written: {getattr(error, 'strerror', None) or error}.",
            hint="Check the folder, its permissions and the free space; what the file held is untouched.",
        ) from error


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them does not exist
        return False
