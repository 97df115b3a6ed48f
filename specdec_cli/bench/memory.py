"""Where the memory of the process is: weights, caches, features, scores, and what the libraries take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psutil
import torch

from specdec_cli.bench.clips import Clip, Models
from specdec_cli.bench.result import Memory
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from specdec_cli.run import gpu_mb, peak_rss_mb

MIB = 2**20
_FLOAT = 4  # bytes of a score: float32 whatever the model's dtype


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


def account(models: Models, clips: Sequence[Clip], capacity: int, k: int, libraries_mb: float) -> Memory:
    """What the process held.

    Args:
        models: both.
        clips: what they were given.
        capacity: most tokens after a prompt.
        k: drafted tokens a round.
        libraries_mb: resident before the models were loaded.
    """
    edge, cloud = (weight_bytes(model.module) / MIB for model in (models.edge, models.cloud))
    caches = [_cache_mb(models.edge, [clip.edge for clip in clips], capacity)]
    caches.append(_cache_mb(models.cloud, [clip.cloud for clip in clips], capacity))
    features = sum(values.nbytes for clip in clips for values in clip.edge.audio.values()) / len(clips) / MIB
    logits = (k + 1) * models.vocab_size * _FLOAT / MIB
    longest = max(len(clip.cloud.ids) for clip in clips)
    peak, held = peak_rss_mb(), libraries_mb + edge + cloud + sum(caches) + features + logits
    on_cpu = models.edge.device.type == "cpu" and models.cloud.device.type == "cpu"
    return Memory(
        edge_weights_mb=edge,
        cloud_weights_mb=cloud,
        edge_cache_mb=caches[0],
        cloud_cache_mb=caches[1],
        features_mb=features,
        logits_mb=logits,
        prompt_logits_mb=longest * models.vocab_size * _FLOAT / MIB,
        libraries_mb=libraries_mb,
        peak_mb=peak,
        unaccounted_mb=peak - held if peak is not None and on_cpu else None,
        gpu_peak_mb=gpu_mb(),
    )


def cache_bytes(session: Session) -> int:
    """Bytes of the keys and values that a session holds."""
    layers = session.cache.layers if session.cache is not None else ()
    held = (getattr(layer, name, None) for layer in layers for name in ("keys", "values"))
    return sum(stored_bytes(tensor) for tensor in held if tensor is not None)


def _cache_mb(model: AudioLM, prompts: Sequence[Prompt], capacity: int) -> float:
    """Mean over clips of what a session's keys and values take with `capacity` tokens after the prompt, MiB."""
    taken = 0.0
    for prompt in prompts:
        session = Session(model, prompt, capacity)
        session.prefill()
        taken += cache_bytes(session) / session.length * (session.length + capacity)
    return taken / len(prompts) / MIB
