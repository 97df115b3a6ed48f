"""Speech by silero-vad, a voice-activity model in a package of its own (extra `vad`): a check, and cuts at pauses."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from threading import local
from typing import Any, Final

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

from specdec_cli.audio.pauses import PauseCutter
from specdec_cli.audio.samples import Floats
from specdec_cli.audio.speech import MIN_ACTIVE_S
from specdec_cli.errors import ConfigError

_RATE: Final = 16_000
_WINDOW: Final = 512  # samples that the model takes at a time
_ON, _OFF = 0.5, 0.35  # probabilities at which speech begins and ends, those of the package
_OWN: Final = local()  # a model of each thread


def has_speech(samples: Floats, sampling_rate: int) -> bool:
    """Whether the model finds speech for 0.3 s or more in mono samples [n] at `sampling_rate` Hz."""
    if sampling_rate != _RATE:
        samples = soxr.resample(samples, sampling_rate, _RATE)
    with torch.inference_mode():
        found = _package().get_speech_timestamps(torch.from_numpy(samples.copy()), _model(), sampling_rate=_RATE)
    heard: int = sum(stretch["end"] - stretch["start"] for stretch in found)
    return heard >= MIN_ACTIVE_S * _RATE


class SpeechCutter(PauseCutter):
    """Cuts where the model finds no speech, in place of sound that stands out from the noise floor.

    A thread may use one at a time. Raises ConfigError without the package, as `has_speech` does.
    """

    def __init__(self, sampling_rate: int, longest_s: float) -> None:
        super().__init__(sampling_rate, longest_s)
        self._model = _model()
        self._resampler = (
            None if sampling_rate == _RATE else soxr.ResampleStream(sampling_rate, _RATE, 1, "float32", "HQ")
        )
        self._part = np.zeros(0, np.float32)  # of a window
        self._speech = bytearray(b"\0")  # 1 for each window with speech; the first is none

    def _take(self, block: Floats) -> None:
        super()._take(block)
        samples = block if self._resampler is None else self._resampler.resample_chunk(block)
        samples = np.concatenate([self._part, samples])
        whole = len(samples) // _WINDOW * _WINDOW
        self._part = samples[whole:]
        with torch.inference_mode():
            for window in torch.from_numpy(samples[:whole].reshape(-1, _WINDOW)):
                odds = self._model(window, _RATE).item()
                self._speech.append(odds >= (_OFF if self._speech[-1] else _ON))

    def _sound(self) -> NDArray[np.bool_]:
        frames = np.arange(self._done, self._dropped + len(self._levels))
        windows = 1 + ((frames * self._hop + self._size // 2) / self._rate * _RATE).astype(np.intp) // _WINDOW
        first = min(int(windows[0]) if len(windows) else 0, len(self._speech) - 1)
        speech = np.frombuffer(bytes(self._speech[first:]), np.bool_)
        found: NDArray[np.bool_] = speech[np.minimum(windows - first, len(speech) - 1)]
        return found


def _model() -> Any:
    """Of this thread, in its first state: it keeps one from one window to the next."""
    if not hasattr(_OWN, "model"):
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of TorchScript
            _OWN.model = _package().load_silero_vad()
    _OWN.model.reset_states()
    return _OWN.model


@cache
def _package() -> Any:
    threads = torch.get_num_threads()
    try:
        return import_module("silero_vad")
    except ImportError as error:
        raise ConfigError(
            "audio.speech_check or audio.segment is silero, which needs the package silero-vad; it is not installed.",
            hint="pip install 'specdec-cli[vad]', or set audio.speech_check to built-in and audio.segment to pauses.",
        ) from error
    finally:
        torch.set_num_threads(threads)  # the package sets one thread for the whole process
