"""A microphone as blocks of mono samples at the models' rate, through PortAudio (sounddevice), and what was said."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Self

import numpy as np
import soxr

from specdec_cli.audio.pauses import PauseCutter
from specdec_cli.audio.samples import Floats, Segment
from specdec_cli.errors import ConfigError, DeviceError, install

_BLOCK_S: Final = 0.05
_SIGNAL_S: Final = 0.1  # how long a wait may keep the main thread from noticing a stop
_PATIENCE_S: Final = 5.0  # a device that delivers nothing for so long is gone
_LIST: Final = "--list-devices lists what there is; --device names one."


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """What was recorded in some milliseconds."""

    samples: Floats  # mono [n]
    at: float  # when the last of them was recorded, `time.monotonic` seconds
    lost: bool = False  # whether sound is missing before it


def devices() -> list[str]:
    """The input devices of this machine, a line for each: number and name, either of which `--device` takes, and facts.

    Raises:
        ConfigError: sounddevice or PortAudio is not installed.
        DeviceError: there is none.
    """
    sounds, found = _portaudio(), []
    hosts, default = sounds.query_hostapis(), sounds.default.device[0]
    for number, one in enumerate(sounds.query_devices()):
        if channels := one["max_input_channels"]:
            facts = [hosts[one["hostapi"]]["name"], f"{channels} channel{'s' if channels > 1 else ''}"]
            facts += [f"{one['default_samplerate']:.0f} Hz", *(["default"] if number == default else [])]
            found.append(f"{number:>3}  {one['name']}  ({', '.join(facts)})")
    if not found:
        raise DeviceError("There is no microphone on this machine.", hint="Connect one, and allow its use.")
    return found


def find_device(device: str | None) -> Mapping[str, Any]:
    """An input device as PortAudio describes it; the argument and errors are those of `Microphone`."""
    sounds = _portaudio()
    try:
        found: Mapping[str, Any] = sounds.query_devices(_named(device), "input")
    except (ValueError, sounds.PortAudioError) as error:
        missing = "There is no microphone" if device is None else f"There is no microphone {device!r}"
        raise DeviceError(f"{missing}: {_reason(error)}.", hint=_LIST) from error
    return found


class Microphone:
    """An open device, which records from `with` on.

    Args:
        device: number, name or part of a name; None: the system's default.
        sampling_rate: of the samples that it gives, Hz. A device that cannot record at it is resampled.

    Raises:
        ConfigError: sounddevice or PortAudio is not installed.
        DeviceError: there is no such device, or it cannot be opened.
    """

    def __init__(self, device: str | None, sampling_rate: int) -> None:
        self._sounds, found = _portaudio(), find_device(device)
        self._queue: queue.SimpleQueue[Block] = queue.SimpleQueue()
        self.name = str(found["name"])
        self._stream, rate = self._open(_named(device), found, sampling_rate)
        self._resampler = (
            None if rate == sampling_rate else soxr.ResampleStream(rate, sampling_rate, 1, "float32", "HQ")
        )

    def __enter__(self) -> Self:
        try:
            self._stream.start()
        except self._sounds.PortAudioError as error:
            raise self._refused(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._resampler = None  # which the stream, whose callback is ours, would keep until the process ends

    def blocks(self, stopped: Callable[[], bool]) -> Iterator[Block]:
        """What is recorded, as it comes, until `stopped`; then what is left.

        Raises:
            DeviceError: the device is gone.
        """
        delivered = time.monotonic()
        while True:
            if ending := stopped():
                self._stream.stop()
            try:
                block = self._queue.get(block=not ending, timeout=_SIGNAL_S)
            except queue.Empty:
                if ending:
                    return
                if not self._stream.active or time.monotonic() - delivered > _PATIENCE_S:
                    hint = "Look at its cable and whether another program has taken it, then start again."
                    raise DeviceError(f"The microphone {self.name} delivers no sound any more.", hint=hint) from None
                continue
            delivered = time.monotonic()
            if self._resampler is not None:
                block = Block(self._resampler.resample_chunk(block.samples), block.at, block.lost)
            yield block

    def _open(self, device: str | int | None, found: Any, sampling_rate: int) -> tuple[Any, int]:
        """A stream, not started, and its rate: `sampling_rate` and one channel where the device supports both."""
        own_rate, own_channels = round(found["default_samplerate"]), found["max_input_channels"]
        refused: Exception | None = None
        for channels, rate in product(dict.fromkeys((1, own_channels)), dict.fromkeys((sampling_rate, own_rate))):
            try:
                stream = self._sounds.InputStream(
                    samplerate=rate,
                    blocksize=round(_BLOCK_S * rate),
                    device=device,
                    channels=channels,
                    dtype="float32",
                    callback=self._take,
                )
            except self._sounds.PortAudioError as error:
                refused = error
            else:
                return stream, rate
        assert refused is not None
        raise self._refused(refused) from refused

    def _take(self, data: Any, _frames: int, _times: Any, status: Any) -> None:
        """Called in PortAudio's thread."""
        self._queue.put(Block(data.mean(axis=1, dtype=np.float32), time.monotonic(), bool(status.input_overflow)))

    def _refused(self, error: Exception) -> DeviceError:
        hint = f"Close the program that uses it, or allow this one to use the microphone. {_LIST}"
        return DeviceError(f"The microphone {self.name} cannot be opened: {_reason(error)}.", hint=hint)


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """What was said between two pauses."""

    segment: Segment  # its samples and its place in the recording
    ended: float  # `time.monotonic` seconds
    lost: bool  # whether sound is missing in it, because a buffer overflowed


def utterances(blocks: Iterable[Block], sampling_rate: int, longest_s: float) -> Iterator[Utterance]:
    """Cuts blocks at pauses; an utterance comes 0.3 to 0.6 s after its end, the last ones when the blocks end.

    Args:
        blocks: of samples at `sampling_rate`, Hz.
        longest_s: of an utterance, seconds; a longer one is split.

    Raises:
        DeviceError: the blocks raised it; the utterances until then come first.
    """
    cutter = PauseCutter(sampling_rate, longest_s)
    arrived: deque[tuple[int, Block]] = deque()  # with the sample behind each
    count = 0

    def timed(segment: Segment) -> Utterance:
        first, behind = round(segment.start_s * sampling_rate), round(segment.end_s * sampling_rate)
        while arrived and arrived[0][0] <= first:
            arrived.popleft()
        within = [(end, block) for end, block in arrived if end - len(block.samples) < behind]
        end, last = within[-1]
        return Utterance(segment, last.at - (end - behind) / sampling_rate, any(block.lost for _, block in within))

    gone: DeviceError | None = None
    try:
        for block in blocks:
            count += len(block.samples)
            arrived.append((count, block))
            yield from map(timed, cutter.feed(block.samples))
            while len(arrived) > 1 and arrived[0][0] < count - 2 * longest_s * sampling_rate:
                arrived.popleft()
    except DeviceError as error:
        gone = error  # what was said before it is not lost
    yield from map(timed, cutter.finish())
    if gone is not None:
        raise gone


def _named(device: str | None) -> str | int | None:
    return int(device) if device is not None and device.isdecimal() else device


def _portaudio() -> Any:
    try:
        import sounddevice
    except ImportError as error:
        raise ConfigError(
            "specdec listen needs the package sounddevice, which is not installed.",
            hint=f"Install it: {install('listen')}",
        ) from error
    except OSError as error:
        raise ConfigError(
            "specdec listen needs the PortAudio library, which is not installed.",
            hint="On Debian and Ubuntu: apt install libportaudio2; on Fedora: dnf install portaudio.",
        ) from error
    return sounddevice


def _reason(error: Exception) -> str:
    return " ".join(str(error.args[0] if error.args else error).split()).rstrip(".")
