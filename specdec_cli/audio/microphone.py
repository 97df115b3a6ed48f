"""A microphone, through PortAudio (sounddevice), as utterances of mono samples at the models' rate."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import soxr

from specdec_cli.audio.pauses import PauseCutter
from specdec_cli.audio.samples import AudioPiece, Floats
from specdec_cli.errors import ConfigError, DeviceError, install

_BLOCK_S: Final = 0.05
_WAIT_S: Final = 0.1  # longest wait after which the main thread looks for a stop
_PATIENCE_S: Final = 5.0  # a device that delivers nothing for so long is gone

_Chunk = tuple[Floats, float, bool]
"""Mono samples [n]; when the last one was recorded, `time.monotonic` seconds; whether sound is missing before them."""


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """The sound between two pauses."""

    piece: AudioPiece  # its samples and its place in the recording
    ended: float  # when it ended, `time.monotonic` seconds
    lost: bool  # whether sound is missing in it, because a buffer overflowed


def devices() -> list[str]:
    """The input devices of this machine, a line for each: number and name. `--device` takes either.

    Raises:
        ConfigError: sounddevice or PortAudio is not installed.
        DeviceError: there is no input device.
    """
    sounds = _portaudio()
    found = [
        f"{number:>3}  {one['name']}{'  (default)' if number == sounds.default.device[0] else ''}"
        for number, one in enumerate(sounds.query_devices())
        if one["max_input_channels"]
    ]
    if not found:
        raise DeviceError("There is no microphone on this machine.", hint="Connect one, and allow its use.")
    return found


class Microphone:
    """A device that records within its `with` block.

    Args:
        device: number, name or part of a name; None: the system's default.

    Raises:
        ConfigError: sounddevice or PortAudio is not installed.
        DeviceError: there is no such device, it cannot be opened, or (from `utterances`, at the end) it is gone.
    """

    def __init__(self, device: str | None) -> None:
        self._sounds = _portaudio()
        self._device = int(device) if device is not None and device.isdecimal() else device
        self._queue: queue.SimpleQueue[_Chunk] = queue.SimpleQueue()
        try:
            found = self._sounds.query_devices(self._device, "input")
        except (ValueError, self._sounds.PortAudioError) as error:
            named = "" if device is None else f" {device!r}"
            raise _device_error(f"There is no microphone{named}", error) from error
        self.name, self._rate = str(found["name"]), round(found["default_samplerate"])
        self._channels = min(2, found["max_input_channels"])  # some devices report a hundred

    def __enter__(self) -> Self:
        given = {"device": self._device, "channels": self._channels, "dtype": "float32", "callback": self._take}
        size = round(_BLOCK_S * self._rate)
        try:
            self._stream = self._sounds.InputStream(samplerate=self._rate, blocksize=size, **given)
            self._stream.start()
        except self._sounds.PortAudioError as error:
            raise _device_error(f"The microphone {self.name} cannot be opened", error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def utterances(
        self, sampling_rate: int, longest_s: float, stopped: Callable[[], bool], show: Callable[[Floats], None]
    ) -> Iterator[Utterance]:
        """Yields the recorded utterances, each 0.3 to 0.6 s after its end.

        Args:
            sampling_rate: of their samples, Hz.
            longest_s: longest utterance, seconds; a longer one is split.
            stopped: whether to stop recording; utterances that are not finished are still yielded.
            show: called with the samples of every chunk, float32 [n].
        """
        resampler = soxr.ResampleStream(self._rate, sampling_rate, 1, "float32", "HQ")
        recorded_s, ended = 0.0, 0.0  # length of all chunks so far, and when the last sample was recorded
        gaps: list[float] = []  # where sound is missing, seconds from the start

        def resampled() -> Iterator[Floats]:
            nonlocal recorded_s, ended
            for chunk, at, lost in self._chunks(stopped):
                if lost:
                    gaps.append(recorded_s)
                samples = resampler.resample_chunk(chunk)
                recorded_s, ended = recorded_s + len(samples) / sampling_rate, at
                show(samples)
                yield samples

        for piece in PauseCutter(sampling_rate, longest_s).utterances(resampled()):
            lost = any(piece.start_s <= gap < piece.end_s for gap in gaps)
            yield Utterance(piece, ended - (recorded_s - piece.end_s), lost)
        if not stopped():
            hint = "Look at its cable and whether another program has taken it, then start again."
            raise DeviceError(f"The microphone {self.name} delivers no sound any more.", hint=hint)

    def _chunks(self, stopped: Callable[[], bool]) -> Iterator[_Chunk]:
        delivered = time.monotonic()
        while True:
            if stopped():
                self._stream.stop()
                if self._queue.empty():
                    return
            try:
                yield self._queue.get(timeout=_WAIT_S)
                delivered = time.monotonic()
            except queue.Empty:
                if not self._stream.active or time.monotonic() - delivered > _PATIENCE_S:
                    return

    def _take(self, data: Any, _frames: int, _times: Any, status: Any) -> None:
        """Called in PortAudio's thread."""
        self._queue.put((data.mean(axis=1, dtype=np.float32), time.monotonic(), bool(status.input_overflow)))


def _portaudio() -> Any:
    try:
        import sounddevice
    except (ImportError, OSError) as error:  # OSError: without the PortAudio library
        hint = f"Install it: {install('listen')}; on Debian and Ubuntu also: apt install libportaudio2"
        raise ConfigError(f"specdec listen needs sounddevice and PortAudio: {error}.", hint=hint) from error
    return sounddevice


def _device_error(message: str, error: Exception) -> DeviceError:
    reason = " ".join(str(error.args[0] if error.args else error).split()).rstrip(".")
    hint = "--device list prints what there is, --device NAME takes one; close other programs that use it."
    return DeviceError(f"{message}: {reason}.", hint=hint)
