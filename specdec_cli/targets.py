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
_HEAD: Final = 16_384  # bytes of a file that tell what it is
_LINE: Final = re.compile(rb'\{\s*"(schema|recording)"\s*:\s*1\s*[,}]')


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


def _lines(*beginnings: bytes) -> Callable[[bytes], bool]:
    """Recognises JSON lines by the beginning of the first, which may be torn, or written by another JSON library."""
    keys = [beginning.split(b'"')[1] for beginning in beginnings]

    def ours(head: bytes) -> bool:
        found = _LINE.match(head)
        return (found is not None and found[1] in keys) or any(b.startswith(head) for b in beginnings)

    return ours


def _page(title: bytes) -> Callable[[bytes], bool]:
    named = b"<title>specdec %s</title>" % title
    return lambda head: head.lower().startswith(b"<!doctype html>") and named in head


def _format(name: bytes) -> Callable[[bytes], bool]:
    return lambda head: re.match(rb'\{\s*"format"\s*:\s*"specdec %s"' % name, head) is not None


TRANSCRIPTS: Final = Kind("transcripts", _lines(TRANSCRIPT), appended=True)
RECORDINGS: Final = Kind("recordings of specdec tune", _lines(RECORDING, TRANSCRIPT), appended=True)
TABLE: Final = Kind(
    "tables of specdec batch", lambda head: head.startswith(",".join(COLUMNS[:8]).encode()), stdout=True
)
PICTURE: Final = Kind(
    "pictures of specdec",
    lambda head: head.startswith((b"<svg", b"\x89PNG")) and b"specdec" in head,  # a PDF does not say so at its head
    (".svg", ".png", ".pdf"),
)
PAGE: Final = Kind("pages of specdec", _page(b"report"), (".html",))
REVIEW: Final = Kind("review pages of specdec", _page(b"review"), (".html",))
CALIBRATION: Final = Kind("calibrations", _format(b"calibration"), (".json",))
GATE: Final = Kind("gate files", _format(b"gate"), (".json",))


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


def replace(target: Path, content: str | bytes | Iterable[str | bytes], draft: Path | None = None) -> None:
    """Writes a file whole or not at all, in the place of whatever has that name; a link stays a link.

    Args:
        target: the file.
        content: all of it.
        draft: what it is called until it is whole, in the same folder; None: a name that nobody can foretell.

    Raises:
        TranscriptError: it cannot be written.
    """
    with writing(target):
        if target.exists() and not target.is_file():  # a device or a pipe
            with target.open("wb") as file:
                file.writelines(_encoded(content))
            return
        target = Path(os.path.realpath(target))
        held, draft = draft is not None, draft or target.with_name(f".specdec-{secrets.token_hex(8)}")
        if held:
            draft.unlink(missing_ok=True)  # of a run that was killed
        try:
            with draft.open("xb") as file:
                file.writelines(_encoded(content))
                file.flush()
                if held:  # nothing can make its captions again
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
