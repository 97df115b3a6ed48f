"""Bytes of weights and caches."""

from __future__ import annotations

from typing import Any, Final

import torch

from specdec_cli.models.session import Session

MIB: Final = 2**20


def weight_bytes(module: Any) -> int:
    """Bytes of all parameters and buffers of `module`."""
    return sum(map(stored_bytes, (*module.parameters(), *module.buffers())))


def stored_bytes(tensor: torch.Tensor) -> int:
    """Bytes that a tensor takes; one that is quantised is made of others, and states the format it stands for."""
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        return sum(stored_bytes(getattr(tensor, name)) for name in names)
    return tensor.nbytes


def cache_bytes(session: Session) -> int:
    """Bytes of the keys and values that a session holds."""
    layers = session.cache.layers if session.cache is not None else ()
    held = (getattr(layer, name, None) for layer in layers for name in ("keys", "values"))
    return sum(stored_bytes(tensor) for tensor in held if tensor is not None)
