"""A preallocated key/value cache in which a rollback is a moved pointer.

transformers' `DynamicCache` grows by concatenation and crops by copying; speculative decoding crops in almost every
round. Here each layer owns one buffer of shape [rows, kv_heads, capacity, head_dim]; feeding writes behind the
current length and rolling back lowers it. Nothing is copied and memory is bounded by the capacity.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from specdec_cli.errors import CacheError


class BufferedLayer(CacheLayerMixin):  # type: ignore[misc]
    """One decoder layer's keys and values in a fixed buffer.

    Args:
        capacity: most positions that the layer will ever hold.
    """

    is_sliding = False

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocates the buffers on the device and in the dtype of the first states."""
        self.dtype, self.device = key_states.dtype, key_states.device
        rows, heads, _, head_dim = key_states.shape
        self.keys = key_states.new_empty((rows, heads, self.capacity, head_dim))
        self.values = value_states.new_empty((rows, heads, self.capacity, value_states.shape[-1]))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Appends q positions and returns views of all that is held: two of [rows, kv_heads, length, head_dim]."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        end = self.length + key_states.shape[-2]
        if end > self.capacity:
            raise CacheError(f"the cache holds {self.capacity} positions and {end} were needed")
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """(positions attended to, offset of the first one), for the model's own mask builder."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """Positions held."""
        return self.length

    def get_max_length(self) -> int:
        """Positions that fit."""
        return self.capacity

    def reset(self) -> None:
        """Forgets everything."""
        self.length = 0


class BufferedCache(Cache):  # type: ignore[misc]
    """The caches of all layers of one model for one clip."""

    def __init__(self, layers: int, capacity: int) -> None:
        super().__init__(layers=[BufferedLayer(capacity) for _ in range(layers)])

    @property
    def nbytes(self) -> int:
        """Memory of all buffers, bytes; 0 before anything was fed."""
        held = [buffer for layer in self.layers for buffer in (layer.keys, layer.values) if buffer is not None]
        return sum(buffer.nbytes for buffer in held)

    def truncate(self, length: int) -> None:
        """Forgets every position from `length` on.

        Raises:
            CacheError: `length` lies beyond what is held.
        """
        for layer in self.layers:
            assert isinstance(layer, BufferedLayer)
            if length > layer.length:
                raise CacheError(f"cannot roll a cache of {layer.length} positions back to {length}")
            layer.length = length
