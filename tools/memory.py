"""Bytes of weights and caches."""

from __future__ import annotations

from typing import Any, Final

from specdec_cli.models.session import Session

MIB: Final = 2**20


def weight_bytes(module: Any) -> int:
    """Bytes of all parameters and buffers of `module`."""
    return sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))


def cache_bytes(session: Session) -> int:
    """Bytes of the keys and values that a session holds."""
    layers = session.cache.layers if session.cache is not None else ()
    held = (getattr(layer, name, None) for layer in layers for name in ("keys", "values"))
    return sum(tensor.nbytes for tensor in held if tensor is not None)
