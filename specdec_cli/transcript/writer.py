"""JSONL on disk: whole lines, appended, by one process at a time; and the end that a crash left mended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from specdec_cli.errors import TranscriptError
from specdec_cli.targets import TRANSCRIPT, writing
from specdec_cli.transcript.schema import Transcript

PATIENCE_S = 10.0
"""How long an append waits for its turn, seconds; longer, and a batch has the file for hours."""

_ANOTHER_FILE = "Name a new file, or one that specdec wrote."


def append_transcript(path: Path, transcript: Transcript) -> None:
    """Appends a transcript as one line; see `append_line`."""
    append_line(path, transcript.to_json())


def append_line(path: Path, text: str) -> None:
    """Appends one line, whole or not at all; what the file held stays as it was.

    A file that does not end in a newline (an editor's, or a crash's) gets one first, so that its last line is not
    joined to ours.

    Raises:
        TranscriptError: the file cannot be written, or the disk is full.
    """
    line = text.encode("utf-8") + b"\n"
    with os.fdopen(open_locked(path, wait_s=PATIENCE_S)) as file, writing(path):
        size = os.fstat(file.fileno()).st_size
        joined = size and os.pread(file.fileno(), 1, size - 1) != b"\n"
        write_whole(file.fileno(), b"\n" + line if joined else line)


def open_locked(path: Path, *, wait_s: float = 0.0) -> int:
    """A descriptor for appending to the file of that name, which nobody else holds; created if there is none.

    Args:
        path: the file.
        wait_s: how long to wait for another that holds it, seconds.

    Raises:
        TranscriptError: another run is writing it, or it cannot be written.
    """
    while True:
        with writing(path), ExitStack() as stack:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            stack.callback(os.close, descriptor)
            if not lock(descriptor, wait_s=wait_s):
                raise TranscriptError(
                    f"{path} is being written by another run.", hint="Wait until it has ended, or name another file."
                )
            # While we waited, the other may have put a new file in its place.
            if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(descriptor)):
                stack.pop_all()
                return descriptor


def lock(descriptor: int, *, wait_s: float = 0.0) -> bool:
    """Keeps two processes that write one file apart, where the system can; lasts until the descriptor is closed.

    Args:
        descriptor: of the file.
        wait_s: how long to wait for another that holds it, seconds.

    Returns:
        Whether it was had.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    given_up = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= given_up:
                return False
            time.sleep(0.005)


def write_whole(descriptor: int, lines: bytes) -> None:
    """Appends `lines`, all of them or nothing, so that a reader never finds half of what belongs together.

    Raises:
        OSError: the disk is full, for example.
    """
    size = os.fstat(descriptor).st_size
    written = os.write(descriptor, lines)
    if written != len(lines):
        os.ftruncate(descriptor, size)
        raise OSError(f"only {written} of {len(lines)} bytes could be written")


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """The lines of a transcript file, in order; empty lines are skipped.

    Raises:
        TranscriptError: the file cannot be read, or a line is no transcript of schema 1; names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TranscriptError(f"The transcript {path} cannot be read: {reason}.") from error
    # Not splitlines(): a caption may hold U+2028 and its like, which JSON does not escape.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            transcript = Transcript.from_json(line)
        except TranscriptError as error:
            raise TranscriptError(f"{path}:{number} is {error.message}", hint=error.hint) from error
        yield transcript


def mend(path: Path, whole: Callable[[bytes], bool], beginnings: Sequence[bytes] = (TRANSCRIPT,)) -> None:
    """Mends the end of a file that nobody writes; a file whose lines all end is not opened for writing.

    Raises:
        TranscriptError: it cannot be read or mended, another run is writing it, or it ends in something else.
    """
    try:
        with path.open("rb") as file:
            intact = not last_line(file.fileno())[1]
    except OSError as error:
        raise TranscriptError(f"The transcript {path} cannot be read: {error.strerror or error}.") from error
    if not intact:
        with os.fdopen(open_locked(path)) as file:
            mend_open(file.fileno(), path, whole, beginnings)


def mend_open(
    descriptor: int, path: Path, whole: Callable[[bytes], bool], beginnings: Sequence[bytes] = (TRANSCRIPT,)
) -> bool:
    """Ends a last line that only lacks its newline, or cuts off half a line, or the zeros that a crash left instead.

    Args:
        descriptor: of the file, for reading and appending; nobody else writes it.
        path: its name, for messages.
        whole: whether bytes are one whole line.
        beginnings: what every line of this kind of file begins with.

    Returns:
        Whether something was cut off.

    Raises:
        TranscriptError: the file ends in something else, which is left alone; or it cannot be written.
    """
    start, tail = last_line(descriptor)
    if not tail:
        return False
    text = tail.strip(b"\0\r\n ")
    with writing(path):
        if whole(tail):
            os.write(descriptor, b"\n")
            return False
        if not any(text.startswith(beginning) or beginning.startswith(text) for beginning in beginnings):
            raise TranscriptError(f"{path} ends in something else than a transcript.", hint=_ANOTHER_FILE)
        os.ftruncate(descriptor, start)
    return True


def last_line(descriptor: int) -> tuple[int, bytes]:
    """Where the last line begins that does not end in a newline, bytes, and what it holds; nothing where all end."""
    at = os.fstat(descriptor).st_size
    tail = b""
    while at > 0:
        length = min(1 << 16, at)
        at -= length
        block = os.pread(descriptor, length, at)
        end = block.rfind(b"\n") + 1
        tail = block[end:] + tail
        if end:
            return at + end, tail
    return 0, tail
