"""FFmpeg through PyAV: MP3, AAC, M4A, WebM, the sound of a video, and codecs that libsndfile lacks.

Formats are limited to a list: FFmpeg would also "play" playlists that name other files or web addresses, images and
plain text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from typing import TYPE_CHECKING

import numpy as np

from specdec_cli.audio.decoded import DamagedAudio, Decoded, Floats, NoSoundTrack, NotThisDecoder, require_plausible

if TYPE_CHECKING:
    from av import AudioFrame
    from av.container import InputContainer

_FORMATS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,eac3,flac,flv,gsm,iff,loas,matroska,mov,mp3,mpeg,mpegts,"
    "mpegvideo,ogg,oma,rm,sln,sox,spdif,tak,truehd,tta,voc,w64,wav,webm,wsd,wv,xwma"
)
_STATES_DURATION = ("mov", "matroska", "asf")  # the others estimate it from the bit rate, often badly
_MICROSECONDS = 1_000_000


class _Reader:
    """The open file without its name, which PyAV would otherwise use and cannot always encode."""

    def __init__(self, file: FileIO) -> None:
        self.read = file.read
        self.seek = file.seek
        self.tell = file.tell


@contextmanager
def open_ffmpeg(file: FileIO) -> Iterator[Decoded]:
    """Open a recording, or the sound of a video, with FFmpeg.

    Raises:
        NotThisDecoder: FFmpeg does not know the format or the codec.
        NoSoundTrack: there is no sound in it.
        DamagedAudio: nothing of the sound can be decoded.
    """
    import av
    import av.logging

    if av.logging.get_level() is not None:
        av.logging.set_level(None)  # FFmpeg would write to stderr
    file.seek(0)
    try:
        container = av.open(_Reader(file), mode="r", metadata_errors="replace", options={"format_whitelist": _FORMATS})
    except (av.FFmpegError, OSError, ValueError, RuntimeError, LookupError, TypeError) as error:
        raise NotThisDecoder("its format is not known") from error
    with container:
        if not container.streams.audio:
            raise NoSoundTrack("it has no sound track")
        frames = _frames(container)
        first = next(frames, None)
        if first is None:
            raise DamagedAudio("it holds no sound that can be decoded")
        require_plausible(first.sample_rate, first.layout.nb_channels)
        yield Decoded(
            first.sample_rate, first.layout.nb_channels, _claimed_frames(container, first), _blocks(first, frames)
        )


def _frames(container: InputContainer) -> Iterator[AudioFrame]:
    """The decoded frames of the first sound track. PyAV raises whatever it likes on hostile input."""
    import av

    stream = container.streams.audio[0]
    if getattr(stream, "codec_context", None) is None:
        raise NotThisDecoder("its codec is not known")
    try:
        yield from container.decode(stream)
    except av.DecoderNotFoundError as error:
        raise NotThisDecoder("its codec is not known") from error
    except (av.FFmpegError, OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError) as error:
        raise DamagedAudio("it is damaged or cut short") from error


def _blocks(first: AudioFrame, frames: Iterator[AudioFrame]) -> Iterator[Floats]:
    yield _floats(first)
    for frame in frames:
        if frame.sample_rate != first.sample_rate:
            raise DamagedAudio(
                f"its sampling rate changes part-way, from {first.sample_rate:,} to {frame.sample_rate:,} Hz"
            )
        if frame.samples:
            yield _floats(frame)


def _floats(frame: AudioFrame) -> Floats:
    """float32 [frames, channels], full scale 1.0, from any sample format (24 bits come left-justified in 32)."""
    try:
        data = frame.to_ndarray()
    except (ValueError, RuntimeError) as error:
        raise DamagedAudio(f"its sample format {frame.format.name} is not supported") from error
    block = data.T if frame.format.is_planar else data.reshape(-1, frame.layout.nb_channels)
    with np.errstate(all="ignore"):  # a float64 beyond float32 becomes inf, which is refused later
        floats: Floats = block.astype(np.float32)
    if block.dtype.kind == "u":
        return floats / np.float32(128) - np.float32(1)  # 8 bits are the only unsigned ones
    if block.dtype.kind == "i":
        return floats * np.float32(2.0 ** (1 - 8 * block.dtype.itemsize))
    return floats


def _claimed_frames(container: InputContainer, first: AudioFrame) -> int | None:
    if container.duration is None or not container.format.name.startswith(_STATES_DURATION):
        return None
    return int(container.duration / _MICROSECONDS * first.sample_rate)
