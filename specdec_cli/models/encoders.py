"""Threads that run audio towers while other clips are being decoded.

A tower is a few large matrix products and a decoding step many small ones: on several cores, clips that are heard side
by side, one core each, are ready sooner than one clip on all cores, and nobody who is decoding waits for them.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch

from specdec_cli.models.family import AudioFeatures, AudioLanguageModel


@dataclass(frozen=True, slots=True)
class Heard:
    """What a model heard of a clip.

    Attributes:
        audio: [audio tokens, hidden].
        ms: time that the audio tower took, milliseconds.
    """

    audio: torch.Tensor
    ms: float


class Encoders:
    """A pool of threads with one core each.

    Args:
        threads: clips that are heard at a time.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, "encoder", initializer=torch.set_num_threads, initargs=(1,))

    def hear(self, model: AudioLanguageModel, features: AudioFeatures) -> Future[Heard]:
        """Begins to run the audio tower of a model for which `steady_encoder` holds."""
        return self._pool.submit(heard_by, model, features)

    def close(self) -> None:
        """Drops what has not begun, and waits for what has."""
        self._pool.shutdown(cancel_futures=True)


@torch.inference_mode()
def heard_by(model: AudioLanguageModel, features: AudioFeatures) -> Heard:
    """Runs the audio tower of `model`, here and now."""
    started = time.perf_counter()
    audio = model.encode(features)
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)
    return Heard(audio, (time.perf_counter() - started) * 1e3)
