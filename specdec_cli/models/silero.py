"""The speech check by silero-vad, a voice-activity model in a package of its own (the extra `vad`)."""

from __future__ import annotations

import warnings
from functools import cache
from threading import Lock
from typing import Any, Final

import soxr
import torch

from specdec_cli.audio.samples import Floats
from specdec_cli.audio.speech import MIN_ACTIVE_S
from specdec_cli.errors import ConfigError

_RATE: Final = 16_000
_LOCK: Final = Lock()  # the model keeps a state from one window to the next


def has_speech(samples: Floats, sampling_rate: int) -> bool:
    """Whether the model hears speech for 0.3 s or more, in mono samples [n] at `sampling_rate` Hz.

    Raises:
        ConfigError: the package is not installed.
    """
    detector, model = _detector()
    if sampling_rate != _RATE:
        samples = soxr.resample(samples, sampling_rate, _RATE)
    with _LOCK, torch.inference_mode():
        found = detector(torch.from_numpy(samples.copy()), model, sampling_rate=_RATE)
    heard: int = sum(stretch["end"] - stretch["start"] for stretch in found)
    return heard >= MIN_ACTIVE_S * _RATE


@cache
def _detector() -> tuple[Any, Any]:
    threads = torch.get_num_threads()
    try:
        from silero_vad import get_speech_timestamps, load_silero_vad

        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of TorchScript
            return get_speech_timestamps, load_silero_vad()
    except ImportError as error:
        raise ConfigError(
            "audio.speech_check is silero, which needs the package silero-vad, and it is not installed.",
            hint="Install it with: pip install 'specdec-cli[vad]', or set audio.speech_check to built-in.",
        ) from error
    finally:
        torch.set_num_threads(threads)  # the package sets one thread for the whole process
