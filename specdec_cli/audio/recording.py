"""From a path to a recording that a model can read, or a typed refusal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import FileIO

from specdec_cli.audio import chunks, streams
from specdec_cli.audio.containers import Container, recognise
from specdec_cli.audio.content import MAX_DURATION_S, check_content
from specdec_cli.audio.decoded import DamagedAudio, Decoded, Floats, NoSoundTrack, NotThisDecoder
from specdec_cli.audio.ffmpeg import open_ffmpeg
from specdec_cli.audio.files import convert_command, opened, read_at, sha256, shown
from specdec_cli.audio.mono import Mono, TooLong, to_mono
from specdec_cli.audio.sndfile import open_sndfile
from specdec_cli.errors import AudioContentError, AudioDecodeError, ConfigError

_Decoder = Callable[[FileIO], AbstractContextManager[Decoded]]

_COMPLETENESS: dict[Container, Callable[[FileIO, int], str | None]] = {
    "wav": chunks.wav,
    "avi": chunks.avi,
    "aiff": chunks.aiff,
    "au": chunks.au,
    "caf": chunks.caf,
    "w64": chunks.w64,
    "asf": chunks.asf,
    "mp4": chunks.mp4,
    "ogg": streams.ogg,
    "matroska": streams.matroska,
    "mp3": streams.mp3,
}
_FFMPEG_ONLY: frozenset[Container] = frozenset({"mp3", "mp4", "matroska", "asf", "avi", "stream"})


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A decoded recording.

    Attributes:
        path: as it was given.
        samples: float32 mono [n] at `sampling_rate`, full scale 1.0, all finite.
        sampling_rate: of `samples`, Hz.
        duration_s: of the original, seconds.
        sha256: hex digest of the file's bytes.
        original_rate: of the file, Hz.
        channels: of the file.
        decode_s: time from opening the file to the checked samples, seconds.
    """

    path: str
    samples: Floats
    sampling_rate: int
    duration_s: float
    sha256: str
    original_rate: int
    channels: int
    decode_s: float


def load_audio(path: str | os.PathLike[str], sampling_rate: int = 16000) -> Recording:
    """Read a recording, mix it down to mono (mean over the channels) and resample it.

    When the mean loses the sound because channels are in antiphase, the loudest channel is taken instead.

    Args:
        path: anything that libsndfile or FFmpeg reads; of a video, the first sound track.
        sampling_rate: of the result, Hz.

    Raises:
        AudioNotFoundError: no such file, not a regular file, or it may not be read.
        AudioDecodeError: empty, not audio, cut short, damaged, or of an unknown codec.
        AudioContentError: too short, too long, silent, or with samples that are not finite.
        ConfigError: `sampling_rate` is not positive.
    """
    if sampling_rate < 1:
        raise ConfigError(f"A sampling rate of {sampling_rate} Hz is not possible.", hint="Give the model's rate.")
    begun = time.perf_counter()
    name = os.fsdecode(path)
    with opened(name) as (file, size):
        container = recognise(name, file)
        _require_complete(name, file, size, container)
        digest = sha256(file)
        mono, rate, channels = _decode(name, file, container, sampling_rate)
    recording = Recording(
        path=name,
        samples=mono.samples,
        sampling_rate=sampling_rate,
        duration_s=mono.frames / rate,
        sha256=digest,
        original_rate=rate,
        channels=channels,
        decode_s=time.perf_counter() - begun,
    )
    check_content(recording)
    return recording


def _require_complete(name: str, file: FileIO, size: int, container: Container) -> None:
    incomplete = _COMPLETENESS.get(container)
    reason = incomplete(file, size) if incomplete else None
    if reason:
        raise AudioDecodeError(
            f"{shown(name)} is cut short: {reason}.",
            hint=f"Copy or record it again. To keep what is there: {convert_command(name)}",
        )


def _decode(name: str, file: FileIO, container: Container, sampling_rate: int) -> tuple[Mono, int, int]:
    refusal = NotThisDecoder("its format is not known")
    for decoder in _decoders(file, container):
        try:
            return _decode_with(decoder, file, sampling_rate)
        except NotThisDecoder as error:
            refusal = error
        except DamagedAudio as damage:
            raise _undecodable(name, damage) from damage
        except TooLong as excess:
            raise AudioContentError(
                f"{shown(name)} is too long: it claims {_hours(excess.duration_s)} or more, "
                f"and {_hours(MAX_DURATION_S)} is the most.",
                hint=f"Cut it into shorter recordings. If it is short, mend its header with: {convert_command(name)}",
            ) from excess
    raise _undecodable(name, refusal) from refusal


def _decoders(file: FileIO, container: Container) -> tuple[_Decoder, ...]:
    if container in _FFMPEG_ONLY:
        return (open_ffmpeg,)
    if container == "unknown" and read_at(file, 0, 1) == b"\xff":
        return (open_ffmpeg,)  # libsndfile would try its MP3 decoder, which writes to stderr
    return (open_sndfile, open_ffmpeg)


def _decode_with(decoder: _Decoder, file: FileIO, sampling_rate: int) -> tuple[Mono, int, int]:
    with decoder(file) as decoded:
        mono = to_mono(decoded, sampling_rate, MAX_DURATION_S)
        rate, channels = decoded.sampling_rate, decoded.channels
    if mono.cancelled is not None:
        with decoder(file) as decoded:
            mono = to_mono(decoded, sampling_rate, MAX_DURATION_S, channel=mono.cancelled)
    return mono, rate, channels


def _undecodable(name: str, reason: DamagedAudio | NotThisDecoder) -> AudioDecodeError:
    if isinstance(reason, NoSoundTrack):
        hint = "Name a recording, or a video that has sound."
    elif isinstance(reason, NotThisDecoder):
        hint = f"If it is a recording, convert it with: {convert_command(name)}"
    else:
        hint = f"Copy or record it again. To keep what can be read: {convert_command(name)}"
    return AudioDecodeError(f"{shown(name)} cannot be decoded: {reason}.", hint=hint)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h"
