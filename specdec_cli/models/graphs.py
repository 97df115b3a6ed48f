"""Forwards over a cache of fixed size, which a GPU repeats as CUDA graphs.

An eager forward launches hundreds of kernels one by one, and a GPU waits for the launches. A CUDA graph launches them
all at once, but reads and writes the same memory each time and feeds the same number of tokens. So keys and values have
fixed places, positions and mask are computed on the device from the number of cached positions, and a forward of fewer
tokens is padded: what padding writes lies behind the text, where nothing attends to it and the next forward overwrites.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import torch
from transformers.cache_utils import Cache, DynamicLayer

Forward: TypeAlias = Callable[[], torch.Tensor]
"""Reads its inputs from fixed memory and returns logits [size, rows]."""
Record: TypeAlias = Callable[[Forward], Forward]
"""Turns a forward that has been made once into what repeats it."""

SIZES: Final = (1, 9, 17, 65)
"""Tokens of a graph: a step, 8 and 16 drafted or guessed tokens and one more, a deferred draft and one more."""
_LEAST: Final = 1024  # positions of a slot
_SLOTS: Final = 4  # clips with a cache of fixed size at a time; those of others grow


class FixedLayer(DynamicLayer):  # type: ignore[misc]
    """One layer's keys and values at fixed places, cropped by setting their number."""

    def __init__(self, slot: Slot) -> None:
        super().__init__()
        self.slot, self.length = slot, 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        places = [(*states.shape[:-2], self.slot.room, states.shape[-1]) for states in (key_states, value_states)]
        self.keys, self.values = (torch.zeros(place, dtype=self.dtype, device=self.device) for place in places)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """New keys and values [1, heads, q, width] -> the cached ones and those; in a graph, all places."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if (at := self.slot.positions) is not None:
            self.keys.index_copy_(-2, at, key_states)
            self.values.index_copy_(-2, at, value_states)
            return self.keys, self.values
        start, self.length = self.length, self.length + key_states.shape[-2]
        self.keys[..., start : self.length, :] = key_states
        self.values[..., start : self.length, :] = value_states
        return self.keys[..., : self.length, :], self.values[..., : self.length, :]

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return self.slot.room

    def crop(self, tokens_to_remove: int) -> None:
        self.length += tokens_to_remove

    def reset(self) -> None:
        """Empties it, in place: what is not attended to is multiplied by 0, and must be finite."""
        self.length = 0
        if self.is_initialized:
            self.keys.zero_()
            self.values.zero_()


class Slot:
    """Fixed memory for one clip at a time, and the forwards that are recorded over it.

    Args:
        room: positions.
    """

    def __init__(self, module: Any, layers: int, room: int, record: Record) -> None:
        self.module, self.room, self._record = module, room, record
        self.layers = [FixedLayer(self) for _ in range(layers)]
        self.positions: torch.Tensor | None = None  # int64 [size] on the device, within a recorded forward
        self._cache: Callable[[], Cache | None] = lambda: None
        device = module.get_input_embeddings().weight.device
        self._columns = torch.arange(room, device=device)
        self._inputs = {size: torch.zeros(1 + size, dtype=torch.int64, device=device) for size in SIZES}
        self._recorded: dict[int, Forward] = {}

    @property
    def free(self) -> bool:
        """Whether no clip's cache is here any more."""
        return self._cache() is None

    def take(self) -> Cache:
        """An empty cache in this memory, which is free again once nothing refers to the cache."""
        for layer in self.layers:
            layer.reset()
        cache = Cache(layers=list(self.layers))
        self._cache = weakref.ref(cache)
        return cache

    def logits(self, ids: Sequence[int], start: int) -> torch.Tensor:
        """Logits [size, rows] after each of at most 65 tokens that follow `start` cached ones, then those of padding.

        They are overwritten by the next call. The first call of a size makes an eager forward and records it.
        """
        size = next(size for size in SIZES if size >= len(ids))
        padding = (0,) * (size - len(ids))
        self._inputs[size].copy_(torch.tensor((start, *ids, *padding)))
        if (repeat := self._recorded.get(size)) is not None:
            logits = repeat()
        else:
            logits = self._forward(size)
            self._recorded[size] = self._record(lambda: self._forward(size))
        for layer in self.layers:
            layer.length = start + len(ids)
        return logits

    def _forward(self, size: int) -> torch.Tensor:
        start, ids = self._inputs[size][:1], self._inputs[size][1:]
        self.positions = start + self._columns[:size]
        try:
            logits: torch.Tensor = self.module(
                input_ids=ids[None],
                position_ids=self.positions[None],
                attention_mask=(self._columns <= self.positions[:, None])[None, None],
                past_key_values=Cache(layers=self.layers),
                use_cache=True,
            ).logits[0]
        finally:
            self.positions = None
        return logits


class Graphs:
    """The slots of one model. Any thread may use it.

    Args:
        record: see `Record`; None: CUDA graphs on a GPU, and elsewhere each forward is made eagerly.
    """

    def __init__(self, module: Any, layers: int, record: Record | None = None) -> None:
        self._module, self._layers = module, layers
        device = module.get_input_embeddings().weight.device
        self._record = record or (_cuda_recorder() if device.type == "cuda" else lambda forward: forward)
        self._slots: list[Slot] = []
        self._lock = threading.Lock()

    def cache(self, length: int) -> Cache | None:
        """An empty cache for `length` positions; None: all slots are taken."""
        room = max(_LEAST, 1 << (length + SIZES[-1] - 1).bit_length())  # padding needs room as well
        with self._lock:
            free = [slot for slot in self._slots if slot.free]
            if not (fitting := [slot for slot in free if slot.room >= room]):
                if len(self._slots) == _SLOTS:
                    if not free:
                        return None
                    self._slots.remove(free[0])
                fitting = [Slot(self._module, self._layers, room, self._record)]
                self._slots += fitting
            return min(fitting, key=lambda slot: slot.room).take()

    def logits(self, ids: Sequence[int], cache: Cache) -> torch.Tensor | None:
        """A copy of the logits float32 [q, rows] after each of q tokens; None: the cache or q is not of a graph."""
        layer = cache.layers[0]
        if not isinstance(layer, FixedLayer) or len(ids) > SIZES[-1] or layer.length + SIZES[-1] > layer.slot.room:
            return None
        with self._lock:  # graphs of one model share memory
            return layer.slot.logits(ids, layer.length)[: len(ids)].to(torch.float32, copy=True)


def _cuda_recorder() -> Record:
    pool = torch.cuda.graph_pool_handle()

    def record(forward: Forward) -> Forward:
        graph = torch.cuda.CUDAGraph()
        # other threads may go on: by default, their allocations would end the capture
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            logits = forward()

        def repeat() -> torch.Tensor:
            graph.replay()
            return logits

        return repeat

    return record
