"""From a path to a recording that a model can read, or a typed refusal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from io import FileIO

import numpy as np

from specdec_cli.audio.checks import MAX_DURATION_S, Floats, SampleStatistics
from specdec_cli.audio.decode import open_sound
from specdec_cli.audio.files import convert_command, opened, sha256, shown
from specdec_cli.audio.mix import Mixdown
from specdec_cli.audio.segment import Segment, cut, require_fitting, whole_samples
from specdec_cli.errors import AudioContentError, AudioDecodeError, ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A recording that was decoded once and found fit to caption.

    Attributes:
        path: as it was given.
        sampling_rate: of the samples of its pieces, Hz.
        duration_s: of the original, seconds.
        sha256: hex digest of the file's bytes.
        original_rate: of the file, Hz.
        channels: of the file.
        count: number of pieces.
        decode_s: time from opening the file to the checked samples, seconds.
    """

    path: str
    sampling_rate: int
    duration_s: float
    sha256: str
    original_rate: int
    channels: int
    count: int
    decode_s: float
    _total: int = field(repr=False)  # samples at sampling_rate
    _samples: Floats | None = field(repr=False)  # if they fit the window
    _channel: int | None = field(repr=False)  # the one to use where the mean over the channels loses the sound
    _stamp: tuple[int, ...] = field(repr=False)

    def pieces(self) -> Iterator[Segment]:
        """The pieces that the model reads one at a time, in order and without gaps, all equally long (to a sample).

        A recording that is longer than the window is decoded again while the pieces are read, so that only one of them
        is in memory.

        Raises:
            AudioError: the file is gone, or has changed since it was opened.
        """
        blocks = self._decoded_again() if self._samples is None else iter((self._samples,))
        return cut(blocks, self._total, self.count, self.sampling_rate)

    def _decoded_again(self) -> Iterator[Floats]:
        with opened(self.path) as (file, _):
            if _stamp(file) != self._stamp:
                raise AudioDecodeError(
                    f"{shown(self.path)} has changed since it was opened.", hint="Caption it again when it is complete."
                )
            with open_sound(self.path, file) as sound:
                yield from Mixdown(sound, self.sampling_rate, self._channel)


class _BeyondWindow(Exception):
    """There is more than the window takes; the argument is the length that the header declares, seconds, or None."""


def open_recording(
    path: str | os.PathLike[str], sampling_rate: int = 16000, *, window_s: float, segment_s: float | None = None
) -> Recording:
    """Decode a recording, mix it down to mono (mean over the channels), resample it, check it and cut it.

    When the mean loses the sound because channels are in antiphase, the loudest channel is taken instead. The number of
    pieces is the smallest that keeps each within `segment_s`; so there is no tail too short to describe.

    Args:
        path: anything that libsndfile or FFmpeg reads; of a video, the first sound track.
        sampling_rate: of the result, Hz.
        window_s: longest audio that the model reads at once, seconds.
        segment_s: longest piece, seconds; None to refuse what is longer than the window.

    Raises:
        AudioNotFoundError: no such file, not a regular file, or it may not be read.
        AudioDecodeError: empty, not audio, cut short, damaged, or of an unknown codec.
        AudioContentError: too short, too long, silent, or with samples that are not finite.
        ConfigError: `segment_s` is longer than the window or shorter than 0.1 s, or `sampling_rate` is not positive.
    """
    try:
        return _open(os.fsdecode(path), sampling_rate, window_s, segment_s)
    except _BeyondWindow as excess:
        (declared_s,) = excess.args
        length = f"more than {window_s:g} s" if declared_s is None else f"{declared_s:.2f} s"
        raise AudioContentError(
            f"{shown(os.fsdecode(path))} lasts {length}, but the model reads {window_s:g} s at once.",
            hint=f"Caption it piece by piece with: --segment SECONDS, {window_s:g} at most.",
        ) from excess


def load_audio(
    path: str | os.PathLike[str], sampling_rate: int = 16000, *, longest_s: float = MAX_DURATION_S
) -> tuple[Floats, Recording]:
    """A whole recording in memory: its samples, float32 mono [n] at `sampling_rate`, and what describes them.

    Args:
        path, sampling_rate: as for `open_recording`.
        longest_s: a longer recording is refused, seconds.

    Raises:
        AudioError: as `open_recording`.
    """
    try:
        recording = _open(os.fsdecode(path), sampling_rate, longest_s, None)
    except _BeyondWindow as excess:
        raise _too_long(os.fsdecode(path), excess.args[0] or longest_s, longest_s) from excess
    assert recording._samples is not None  # it fits
    return recording._samples, recording


def _open(name: str, sampling_rate: int, window_s: float, segment_s: float | None) -> Recording:
    if sampling_rate < 1:
        raise ConfigError(f"A sampling rate of {sampling_rate} Hz is not possible.", hint="Give the model's rate.")
    if segment_s is not None:
        require_fitting(segment_s, window_s)
    begun = time.perf_counter()
    with opened(name) as (file, _):
        window = whole_samples(window_s, sampling_rate)
        longest = None if segment_s is None else whole_samples(segment_s, sampling_rate)
        recording = _decode(name, file, sampling_rate, window, longest)
        return replace(recording, sha256=sha256(file), decode_s=time.perf_counter() - begun)


def _decode(
    name: str, file: FileIO, sampling_rate: int, window: int, longest: int | None, channel: int | None = None
) -> Recording:
    """One pass over the whole recording, which keeps the samples as long as they fit the window."""
    with open_sound(name, file) as sound:
        if sound.declared_s is not None and sound.declared_s > MAX_DURATION_S:
            raise _too_long(name, sound.declared_s, MAX_DURATION_S)
        mixdown, statistics, kept = Mixdown(sound, sampling_rate, channel), SampleStatistics(sampling_rate), bytearray()
        for block in mixdown:
            if mixdown.duration_s > MAX_DURATION_S:
                raise _too_long(name, mixdown.duration_s, MAX_DURATION_S)
            if mixdown.length > window and longest is None:
                raise _BeyondWindow(sound.declared_s)
            statistics.add(block)
            if mixdown.length <= window:
                kept.extend(block.data.cast("B"))
            else:
                kept.clear()
    if channel is None and (loudest := mixdown.cancelled()) is not None:
        return _decode(name, file, sampling_rate, window, longest, loudest)
    statistics.require_content(shown(name), mixdown.duration_s)
    total = mixdown.length
    kept.extend(bytes(4))  # the resampler may return a sample less
    return Recording(
        path=name,
        sampling_rate=sampling_rate,
        duration_s=mixdown.duration_s,
        sha256="",
        original_rate=sound.sampling_rate,
        channels=sound.channels,
        count=1 if longest is None else -(-total // longest),
        decode_s=0.0,
        _total=total,
        _samples=np.frombuffer(kept, np.float32)[:total] if total <= window else None,
        _channel=channel,
        _stamp=_stamp(file),
    )


def _stamp(file: FileIO) -> tuple[int, ...]:
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _too_long(name: str, seconds: float, most_s: float) -> AudioContentError:
    length, most = (f"{s:g} s" if s < 3600 else f"{s / 3600:,.1f} h" for s in (seconds, most_s))
    return AudioContentError(
        f"{shown(name)} is too long: it lasts {length} or more, and {most} is the most.",
        hint=f"Cut it into shorter recordings. If it is short, mend its header with: {convert_command(name)}",
    )
