"""Opens a file as an `OpenedFile` of chunks of samples on the file's own clock.

FFmpeg (PyAV) decodes every format. libsndfile reads plain WAV and FLAC, whose samples it gives exactly and faster,
and the files that FFmpeg does not open. The bytes decide, never the name of the file.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from io import FileIO
from typing import Any, Final

from specdec_cli.audio.paths import audio_error
from specdec_cli.audio.samples import CHUNK_SAMPLES, MAX_DURATION_S, MISSING_S, STREAMED, Floats, OpenedFile
from specdec_cli.errors import AudioDecodeError, AudioError, CutsError, TooLongError
from specdec_cli.regular_files import POSIX, read_at

_OPENING: Final = threading.Lock()  # all threads share the error code of a file that libsndfile does not open
_AHEAD: Final = 1 << 16  # bytes that libFLAC reads ahead: of a shorter file, it does not show where the sound ended
_OTHERS: Final = {
    b"version https://git-lfs": ("a pointer of Git LFS", "Fetch the recording itself: git lfs pull"),
    b"<!doctype html": ("a web page", "Download the recording itself."),
    b"<html": ("a web page", "Download the recording itself."),
    b"pk\3\4": ("a ZIP archive", "Unpack it first."),
    b"\x1f\x8b": ("packed with gzip", "Unpack it first: gunzip"),
    b"%pdf": ("a PDF", "Name the recording itself."),
}
"""Beginning of a file that is not a recording, in lower case -> what it is, and what to do."""

Library = Callable[[str, FileIO, ExitStack, float, int | None], OpenedFile | None]
"""Opens a file as a source, or returns None. Takes path, file, stack for open objects, start in seconds, and track."""


class MisfitError(Exception):
    """The content of a FLAC does not fit its header, so FFmpeg reads it; the message, if any, is a fault."""


def refused(path: str, says: str) -> AudioDecodeError:
    """The error for a file that cannot be decoded."""
    hint = "Copy or record it again. To keep what is there: ffmpeg -i FILE -ac 1 -ar 16000 converted.wav"
    return audio_error(AudioDecodeError, path, says, hint)


def not_sound(path: str, file: FileIO) -> AudioDecodeError:
    """The error for a file that no library reads; it names what the file is, if its beginning shows that."""
    start = read_at(file, 4096, 0)
    if start.startswith(b"RIFF") and start[-8:-4] == b"data":
        return audio_error(AudioDecodeError, path, "holds a header and no sound", "Record or copy it again.")
    for magic, (says, hint) in _OTHERS.items():
        if start.lstrip().lower().startswith(magic):
            return audio_error(AudioDecodeError, path, f"is not a recording: it is {says}", hint)
    return refused(path, "cannot be decoded: its format or codec is not known, or it is damaged or cut short")


def require_bounded(path: str, seconds: float) -> None:
    """Raises TooLongError for more than `MAX_DURATION_S`."""
    if seconds > MAX_DURATION_S:
        says = f"is too long: it lasts {seconds:,.0f} s or more, and {MAX_DURATION_S:,.0f} s is the most"
        hint = "Cut it into shorter recordings. If it is short, its header is wrong: convert it with ffmpeg."
        raise audio_error(TooLongError, path, says, hint)


def require_decodable(path: str, file: FileIO) -> float | None:
    """Returns the seconds that a recording's header declares, if it does. Raises AudioError if no library opens it.

    The file is not read to its end.
    """
    failure = refused(path, "cannot be decoded")
    for library in LIBRARIES:
        with ExitStack() as stack:
            try:
                if (source := library(path, file, stack, 0.0, None)) is not None:
                    return source.declared_s
            except AudioDecodeError as error:
                failure = error
    raise failure


def from_exact(_path: str, file: FileIO, stack: ExitStack, from_s: float, track: int | None) -> OpenedFile | None:
    """An `OpenedFile` for a WAV whose header fits the file, or a FLAC, of one or two channels; None for all others.

    Whether a FLAC fits its header is known after reading: its chunks raise MisfitError if not.
    """
    start, size = read_at(file, 36, 0), os.fstat(file.fileno()).st_size
    is_flac, frame = start.startswith(b"fLaC") and size > _AHEAD and not _is_joined(file), _frame_of_wav(start, size)
    if not (is_flac or frame) or track not in (None, 1) or (decoder := _sndfile(file, stack)) is None:
        return None
    unread_s = (size / frame - decoder.frames) / decoder.samplerate if frame else 0.0
    if decoder.channels > 2 or unread_s > MISSING_S:  # FFmpeg has the places of more channels
        return None
    source = _source(decoder, from_s)
    if is_flac:
        source.chunks = _checked(source, source.chunks, file, size)
    return source


def _frame_of_wav(start: bytes, size: int) -> int:
    """Bytes of a frame of a WAV that begins with the format of its samples, and has its header's length; else 0."""
    if len(start) < 36:
        return 0
    magic, length, kind, _, _, channels, _, _, frame, bits = struct.unpack("<4sI8sIHHIIHH", start)
    fits = magic == b"RIFF" and kind == b"WAVEfmt " and length + 8 <= size <= length + 9
    return frame if fits and 8 * frame == channels * bits else 0


def _is_joined(file: FileIO) -> bool:
    """Whether another FLAC follows in a file."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"fLaC", 4) >= 0


def _checked(source: OpenedFile, chunks: Iterator[Floats], file: FileIO, size: int) -> Iterator[Floats]:
    """The chunks of a FLAC. Raises MisfitError at damage, or if more or less follows than its header has."""
    try:
        yield from chunks
    except RuntimeError as error:  # libsndfile's
        raise MisfitError("parts of it do not decode") from error
    lacks_s = source.longest_s - source.at / source.rate
    if lacks_s > 0 or size - file.tell() > MISSING_S * size / source.longest_s:
        raise MisfitError


def from_ffmpeg(path: str, file: FileIO, stack: ExitStack, _from_s: float, track: int | None) -> OpenedFile:
    """An `OpenedFile` for a file that FFmpeg decodes.

    Raises:
        AudioDecodeError: the file is not sound, of an unknown codec, or encrypted.
        CutsError: the file has no such track.
    """
    from specdec_cli.audio.ffmpeg import FrameClock, chosen_track, open_container

    try:
        container = stack.enter_context(open_container(file))
        tracks = container.streams.audio
        _require_track(path, tracks, track)
        number = chosen_track(tracks) if track is None else track
        source = FrameClock(container, tracks[number - 1], file).source
    except AudioError:
        raise
    except PermissionError as error:
        hint = "Export it without protection, or decrypt it with its key first."
        raise audio_error(AudioDecodeError, path, "is encrypted", hint) from error
    except Exception as error:  # PyAV raises many kinds
        if type(error) is MemoryError:  # Python's; PyAV's own subclass is about an absurd header
            raise
        raise not_sound(path, file) from error
    start = read_at(file, 8, 0)
    if start.startswith(b"RIFF"):  # FFmpeg takes what is there for the whole
        declared, size = int.from_bytes(start[4:], "little") + 8, os.fstat(file.fileno()).st_size
        source.promised = declared / size if size < declared < STREAMED else 1.0
    if track is None and len(tracks) > 1:
        source.notes.append(f"has {len(tracks)} sound tracks, and track {number} is read (audio.track names another)")
    return source


def _require_track(path: str, tracks: Sequence[Any], named: int | None) -> None:
    """Raises AudioError if there is no track, or none of the number that is named, 1-based."""
    if not tracks:
        raise refused(path, "cannot be decoded: it holds no sound")
    if named is not None and named > len(tracks):
        says = f"has {len(tracks)} sound track{'s' * (len(tracks) > 1)}; there is no track {named}"
        raise audio_error(CutsError, path, says, "Name one of them with audio.track, or leave it out.")


def from_sndfile(_path: str, file: FileIO, stack: ExitStack, from_s: float, _track: int | None) -> OpenedFile | None:
    """An `OpenedFile` for a file that libsndfile reads: some old formats, and WAV behind a tag; else None."""
    if read_at(file, 1, 0) == b"\xff":  # its decoder of MP3 writes to stderr
        return None
    decoder = _sndfile(file, stack)
    return None if decoder is None else _source(decoder, from_s)


def _sndfile(file: FileIO, stack: ExitStack) -> Any | None:
    """The file as libsndfile opens it; None if it does not, or finds no sound in it."""
    import soundfile

    file.seek(0)  # a descriptor: soundfile guesses from names (`x.raw` raises), and C prints errors of a Python reader
    try:
        with _OPENING:
            decoder = stack.enter_context(soundfile.SoundFile(file.fileno() if POSIX else file, closefd=False))
    except soundfile.LibsndfileError:
        return None
    return decoder if 0 < decoder.frames < 1 << 62 else None


def _source(decoder: Any, from_s: float) -> OpenedFile:
    duration_s = decoder.frames / decoder.samplerate
    source = OpenedFile(decoder.samplerate, decoder.channels, iter(()), declared_s=duration_s, longest_s=duration_s)
    if from_s > 0 and decoder.seekable():
        source.at = decoder.seek(min(round(from_s * decoder.samplerate), decoder.frames))
    length = max(1, CHUNK_SAMPLES // decoder.channels)

    def chunks() -> Iterator[Floats]:
        # not decoder.blocks(), which fills up a file that ends early with earlier samples
        while len(chunk := decoder.read(length, dtype="float32", always_2d=True)):
            yield chunk

    source.chunks = chunks()
    return source


LIBRARIES: Final[tuple[Library, ...]] = (from_exact, from_ffmpeg, from_sndfile)
"""In the order to try them. If none opens a file, FFmpeg's error is raised."""
