"""Opens a file with libsndfile or FFmpeg, as a `Source` of blocks of samples on the file's own clock.

The bytes decide, never the name of the file. Headers, tags and indexes are hints: the samples that decode count.
libsndfile is tried first: it reads uncompressed sound, FLAC and Ogg exactly and fast. FFmpeg (PyAV) reads MP3, whose
decoder in libsndfile writes to stderr, all other formats, and whatever libsndfile does not read to its end. FFmpeg is
limited to a list of formats: it would also "play" images, plain text, and playlists that name other files or web
addresses.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from io import FileIO
from typing import Any, Final

from specdec_cli.audio.bare_samples import from_bare_samples
from specdec_cli.audio.chunks import TAGS, chunk_named, chunks, missing_bytes, tag_end
from specdec_cli.audio.ffmpeg import FrameClock, chosen_track, open_container
from specdec_cli.audio.ogg_pages import has_several_streams
from specdec_cli.audio.paths import audio_error
from specdec_cli.audio.samples import BLOCK_SAMPLES, MAX_DURATION_S, STREAMED, Floats, Source
from specdec_cli.errors import AudioDecodeError, AudioError, CutsError, TooLongError
from specdec_cli.regular_files import POSIX, read_at

MISSING_S: Final = 1.0  # missing sound that is reported; less is rounding, padding, or a tail of no importance
_OPENING: Final = threading.Lock()  # all threads share the error code of a file that libsndfile does not open
_SHORTENED: Final = re.compile(r"^ *(?:data|SSND|Data Size|riff|Riff size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)
"""In libsndfile's log: the size that a WAV, AIFF, AU, CAF, W64 or RF64 declares, and the size that is there."""
_BLOCKS: Final = re.compile(r"^ *Block Align *: (\d+).*\n *Bit Width *: (\d+)$", re.MULTILINE)
_OF_NIST: Final = re.compile(rb"sample_count -i (\d{1,12})")
_SNDFILE_MAGIC: Final = (b"RIFF", b"RIFX", b"RF64", b"riff", b"FORM", b".snd", b"caff", b"fLaC", b"OggS")
_FRAME_OR_PADDING: Final = re.compile(rb"\xff[\xe2-\xe5\xf2-\xf5\xfa-\xfd]|\0{4}")  # of MPEG audio, layers II and III
_MOST_ZEROS: Final = 1 << 20  # chunks of eight zeros after the sound
_CHUNK_NAME: Final = re.compile(rb"[\x20-\x7e]{4}|\0{4}")
_OTHERS: Final = {
    b"version https://git-lfs": ("a pointer of Git LFS", "Fetch the recording itself: git lfs pull"),
    b"<!doctype html": ("a web page", "Download the recording itself."),
    b"<html": ("a web page", "Download the recording itself."),
    b"pk\3\4": ("a ZIP archive", "Unpack it first."),
    b"\x1f\x8b": ("packed with gzip", "Unpack it first: gunzip"),
    b"%pdf": ("a PDF", "Name the recording itself."),
}
"""Beginning of a file that is no recording, in lower case -> what it is, and what to do."""
_MORE_SOUND: Final = (b"data", b"SSND", b"RIFF", b"FORM", b"caff")
"""Chunks after the sound that are another part of it, or another file."""


def refused(path: str, says: str) -> AudioDecodeError:
    """The error for a file that cannot be decoded."""
    hint = "Copy or record it again. To keep what is there: ffmpeg -i FILE -ac 1 -ar 16000 converted.wav"
    return audio_error(AudioDecodeError, path, says, hint)


def not_sound(path: str, file: FileIO) -> AudioDecodeError:
    """The error for a file that no library reads; it names what the file is, if its beginning shows that."""
    start = read_at(file, 4096, 0)
    if start.startswith(b"RIFF") and start[-8:-4] == b"data":
        return audio_error(AudioDecodeError, path, "holds a header and no sound", "Record or copy it again.")
    head = start.lstrip()
    for magic, (says, hint) in _OTHERS.items():
        if head.lower().startswith(magic):
            return audio_error(AudioDecodeError, path, f"is no recording: it is {says}", hint)
    return refused(path, "cannot be decoded: its format or codec is not known, or it is damaged or cut short")


def require_bounded(path: str, seconds: float) -> None:
    """Raises TooLongError for more than `MAX_DURATION_S`."""
    if seconds > MAX_DURATION_S:
        says = f"is too long: it lasts {seconds:,.0f} s or more, and {MAX_DURATION_S:,.0f} s is the most"
        hint = "Cut it into shorter recordings. If it is short, its header is wrong: convert it with ffmpeg."
        raise audio_error(TooLongError, path, says, hint)


def libraries(file: FileIO, track: int | None) -> list[Callable[..., Source | None]]:
    """The functions that may open a file, in the order to try them."""
    magic, tagged = _magic(file)
    known = magic.startswith(_SNDFILE_MAGIC) if tagged else not magic.startswith(b"\xff")
    known = known and not has_several_streams(file)  # libsndfile reads the first one, in silence
    return [from_bare_samples, from_sndfile, from_ffmpeg] if known and track in (None, 1) else [from_ffmpeg]


def from_sndfile(_path: str, file: FileIO, stack: ExitStack, from_s: float, _track: int | None) -> Source | None:
    """A `Source` for WAV, FLAC, Ogg, AIFF, AU, CAF and many old formats; None if libsndfile does not read the file."""
    import soundfile

    file.seek(0)  # a descriptor: soundfile guesses from names (`x.raw` raises), and C prints errors of a Python reader
    try:
        with _OPENING:
            sound = stack.enter_context(soundfile.SoundFile(file.fileno() if POSIX else file, closefd=False))
    except soundfile.LibsndfileError:
        return None
    if not 0 < sound.frames < 1 << 62:  # a streamed WAV; FLAC and Ogg of unknown length
        return None
    size, duration_s = os.fstat(file.fileno()).st_size, sound.frames / sound.samplerate
    source = Source(sound.samplerate, sound.channels, iter(()), declared_s=duration_s, longest_s=duration_s)
    if from_s > 0 and sound.seekable():
        source.at = sound.seek(min(round(from_s * sound.samplerate), sound.frames))
    _compare_with_header(source, sound, file)
    length = max(1, BLOCK_SAMPLES // sound.channels)

    def blocks() -> Iterator[Floats]:
        # not sound.blocks(), which fills up a file that ends early with earlier samples
        while len(block := sound.read(length, dtype="float32", always_2d=True)):
            yield block

    def unread_s(read_s: float) -> float:
        if sound.format in ("WAV", "WAVEX"):
            return _unread_of_wav(file, read_s)
        place = file.tell()
        if sound.format not in ("FLAC", "OGG") and _is_chunks(file, place, size):
            return 0.0
        return max(0, size - place) * read_s / max(1, place)

    source.blocks, source.unread_s = blocks(), unread_s
    return source


def _compare_with_header(source: Source, sound: Any, file: FileIO) -> None:
    """Notes in the source what the header declares otherwise, as libsndfile's log of the open file has it."""
    if shortened := _SHORTENED.search(sound.extra_info):
        declared, present = map(int, shortened.groups())
        if present < declared < STREAMED:
            source.declared_s = sound.frames / sound.samplerate * (1 + (declared - present) / max(1, present))
    if sound.format == "NIST" and (counted := _OF_NIST.search(read_at(file, 1024, 0))):
        source.declared_s = int(counted[1]) / sound.samplerate
    if "truncated" in sound.extra_info:  # a VOC
        source.faults.append("it lacks its end")
    if sound.subtype.startswith("PCM") and (stored := _BLOCKS.search(sound.extra_info)):
        block, bits = map(int, stored.groups())
        if block != sound.channels * math.ceil(bits / 8):
            source.notes.append(
                f"has a header that contradicts itself: {bits} bits per sample in blocks of {block} bytes"
            )


def from_ffmpeg(path: str, file: FileIO, stack: ExitStack, _from_s: float, track: int | None) -> Source:
    """A `Source` for MP3, AAC, M4A, WebM, the sound of a video, and codecs that libsndfile lacks.

    Raises:
        AudioDecodeError: the file is not audio, or of an unknown codec.
        TooLongError: the file is a WAV without a size, and too large.
        CutsError: there is no such track.
    """
    require_bounded(path, _wav_seconds(file))  # FFmpeg would look for chunks in the whole file
    try:
        container = stack.enter_context(open_container(file))
        tracks = container.streams.audio
        number = _track(path, tracks, track)
        source = FrameClock(container, tracks[number - 1], os.fstat(file.fileno()).st_size).source
    except AudioError:
        raise
    except Exception as error:  # PyAV raises many kinds
        if type(error) is MemoryError:  # Python's; PyAV's own subclass is about an absurd header
            raise
        raise not_sound(path, file) from error
    name = container.format.name
    magic, tagged = _magic(file)
    if name == "mp3" and tagged and not _FRAME_OR_PADDING.match(magic):
        source.notes.append("has an ID3 tag that does not end where sound begins: sound next to it may be missing")
    if name in ("avi", "caf") and (missing := missing_bytes(file)):
        source.faults.append(f"it lacks {missing:,} bytes at its end")
    source.searched = name in ("flac", "ogg")
    if name == "wav":
        source.unread_s = partial(_unread_of_wav, file)
    if track is None and len(tracks) > 1:
        source.notes.append(f"has {len(tracks)} sound tracks, and track {number} is read (audio.track names another)")
    return source


def _track(path: str, tracks: Sequence[Any], named: int | None) -> int:
    """The number of the track to read, 1-based."""
    if not tracks:
        raise refused(path, "cannot be decoded: it holds no sound")
    if named is not None and named > len(tracks):
        says = f"has {len(tracks)} sound track{'s' * (len(tracks) > 1)}, and no track {named}"
        raise audio_error(CutsError, path, says, "Name one of them with audio.track, or leave it out.")
    return chosen_track(tracks) if named is None else named


def _magic(file: FileIO) -> tuple[bytes, bool]:
    """The first bytes after ID3 tags, which may precede any format, and whether there are such tags."""
    at = 0
    while (end := tag_end(file, at)) is not None:
        at = end
    return read_at(file, 12, at), at > 0


def _wav_seconds(file: FileIO) -> float:
    """Length of a WAV or RF64 if the whole file were sound, seconds; 0 for other formats."""
    header = chunk_named(file, b"fmt ")
    bytes_per_s = int.from_bytes(read_at(file, 4, header.at + 8), "little") if header else 0
    return os.fstat(file.fileno()).st_size / bytes_per_s if bytes_per_s else 0.0


def _unread_of_wav(file: FileIO, read_s: float) -> float:
    """Seconds of sound after the first `data` of a WAV, as in two files that were joined: FFmpeg reads one of them."""
    data = chunk_named(file, b"data")
    size = os.fstat(file.fileno()).st_size
    if data is None or not data.size or data.end >= size or _is_chunks(file, data.end, size):  # 0: of a pipe
        return 0.0
    return (size - data.end) * read_s / data.size


def _is_chunks(file: FileIO, at: int, size: int) -> bool:
    """Whether the bytes after the sound are named chunks up to the end of the file, or begin with tags."""
    end = at
    for chunk in chunks(file, at, _MOST_ZEROS):
        if chunk.name.startswith(TAGS):
            return True
        if not _CHUNK_NAME.fullmatch(chunk.name) or chunk.name in _MORE_SOUND or not at <= chunk.end <= size + 8:
            return False
        end = chunk.end
    return end >= size - 8
