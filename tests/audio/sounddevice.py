"""Stands in for the package sounddevice: a machine whose microphone plays a file, then is interrupted as by Ctrl-C.

`PLAYED` says which, and what goes wrong: blocks before which sound is lost, a block after which it is gone.
"""

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import soundfile

from specdec_cli.cli import ending

DEVICES = [
    {"name": "Loudspeaker", "max_input_channels": 0, "default_samplerate": 48000.0},
    {"name": "Desk \x1b[31mmicrophone", "max_input_channels": 2, "default_samplerate": 48000.0},
    {"name": "Headset", "max_input_channels": 1, "default_samplerate": 16000.0},
]


@dataclass
class Played:
    """What is played, at once, and what goes wrong."""

    path: Path = Path()
    refused: str | None = None
    lost_at: set[int] = field(default_factory=set)
    gone_at: int | None = None


PLAYED = Played()
default = SimpleNamespace(device=(1, 0))


class PortAudioError(Exception):
    """As PortAudio's."""


def query_devices(device: int | str | None = None, kind: str | None = None) -> object:
    if kind is None:
        return DEVICES
    number = default.device[0] if device is None else device
    if isinstance(number, str):
        found = [one for one in DEVICES if number.lower() in str(one["name"]).lower()]
        if len(found) != 1:
            raise ValueError(f"{'Multiple' if found else 'No'} input device{'s' * bool(found)} matching {number!r}")
        return found[0]
    if not 0 <= number < len(DEVICES):
        raise PortAudioError(f"Error querying device {number}")
    return DEVICES[number]


class InputStream:
    """Plays the file into the callback, from a thread."""

    def __init__(
        self, *, samplerate: int, blocksize: int, channels: int, callback: Callable[..., None], **_: object
    ) -> None:
        if PLAYED.refused:
            raise PortAudioError(PLAYED.refused)
        samples, rate = soundfile.read(PLAYED.path, dtype="float32")
        places = np.arange(0, len(samples) - 1, rate / samplerate)
        played = np.interp(places, np.arange(len(samples)), samples).astype(np.float32)
        whole = np.repeat(played[:, None], channels, axis=1)
        self._blocks = [whole[at : at + blocksize] for at in range(0, len(whole), blocksize)]
        self._callback, self._stopped = callback, threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)
        self.active = False

    def start(self) -> None:
        self.active = True
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self.active = False

    def close(self) -> None:
        self.stop()
        self._thread.join()

    def _play(self) -> None:
        for number, block in enumerate(self._blocks):
            if number == PLAYED.gone_at:
                self.active = False
                return
            if self._stopped.is_set():
                return
            self._callback(block, len(block), None, SimpleNamespace(input_overflow=number in PLAYED.lost_at))
        ending.handle(signal.SIGINT, None)  # as a process that handles signals does
