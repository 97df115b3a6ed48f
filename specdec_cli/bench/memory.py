"""Where the memory of the process is: libraries, weights, caches."""

from __future__ import annotations

from typing import Any

import psutil
import torch

from specdec_cli.bench.clips import Clip, Models
from specdec_cli.bench.result import Memory
from specdec_cli.models.session import Session
from specdec_cli.run import gpu_mb, peak_rss_mb

MIB = 2**20


def resident_mb() -> float:
    """Resident memory of this process now, MiB."""
    return float(psutil.Process().memory_info().rss) / MIB


def weight_bytes(module: Any) -> int:
    """Bytes of all parameters and buffers of `module`."""
    return sum(map(stored_bytes, (*module.parameters(), *module.buffers())))


def stored_bytes(tensor: torch.Tensor) -> int:
    """Bytes that a tensor takes; one that is quantised is made of others, and states the format it stands for."""
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        return sum(stored_bytes(getattr(tensor, name)) for name in names)
    return tensor.nbytes


def account(models: Models, clip: Clip, capacity: int, libraries_mb: float) -> Memory:
    """What the process held, for a clip that both models captioned and `capacity` tokens after its prompts at most.

    `libraries_mb` was resident before the models were loaded.
    """
    loaded, prompts = (models.edge, models.cloud), (clip.edge, clip.cloud)
    edge, cloud = (weight_bytes(model.module) / MIB for model in loaded)
    caches = sum(_cache_mb(Session(*pair, capacity), capacity) for pair in zip(loaded, prompts, strict=True))
    peak, on_cpu = peak_rss_mb(), all(model.device.type == "cpu" for model in loaded)
    return Memory(
        libraries_mb=libraries_mb,
        edge_weights_mb=edge,
        cloud_weights_mb=cloud,
        caches_mb=caches,
        unaccounted_mb=peak - libraries_mb - edge - cloud - caches if peak is not None and on_cpu else None,
        peak_mb=peak,
        gpu_peak_mb=gpu_mb(),
    )


def cache_bytes(session: Session) -> int:
    """Bytes of the keys and values that a session holds."""
    layers = session.cache.layers if session.cache is not None else ()
    held = (getattr(layer, name, None) for layer in layers for name in ("keys", "values"))
    return sum(stored_bytes(tensor) for tensor in held if tensor is not None)


def _cache_mb(session: Session, capacity: int) -> float:
    session.prefill()
    return cache_bytes(session) / session.length * (session.length + capacity) / MIB
