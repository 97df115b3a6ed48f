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
from functools import partial
from typing import Any, Final, TypeAlias

import torch
from transformers.cache_utils import Cache, DynamicLayer

from specdec_cli.models.families import CACHE

Forward: TypeAlias = Callable[[], torch.Tensor]
"""Reads its inputs from fixed memory and returns logits [size, rows]."""
Record: TypeAlias = Callable[[Forward], Forward]
"""Turns a forward into what repeats it."""

SIZES: Final = (1, 9, 17, 65)
"""Tokens of a graph: a step, 8 and 16 drafted or guessed tokens and one more, a deferred draft and one more."""
ROOM: Final = 2048
"""Positions with fixed places; the cache of a longer clip grows."""


class FixedLayer(DynamicLayer):  # type: ignore[misc]
    """One layer's keys and values at fixed places, cropped by setting their number."""

    def __init__(self, graphs: Graphs) -> None:
        super().__init__()
        self.graphs, self.length = graphs, 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """New keys and values [1, heads, q, width] -> the cached ones and those; in a graph, all places."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = (
                states.new_zeros(*states.shape[:-2], ROOM, states.shape[-1]) for states in (key_states, value_states)
            )
        if (at := self.graphs.positions) is not None:
            self.keys.index_copy_(-2, at, key_states)
            self.values.index_copy_(-2, at, value_states)
            return self.keys, self.values
        start, self.length = self.length, self.length + key_states.shape[-2]
        self.keys[..., start : self.length, :] = key_states
        self.values[..., start : self.length, :] = value_states
        return self.keys[..., : self.length, :], self.values[..., : self.length, :]

    def get_seq_length(self) -> int:
        return self.length

    def crop(self, tokens_to_remove: int) -> None:
        self.length += tokens_to_remove

    def reset(self) -> None:
        """Empties it, in place: what is not attended to is multiplied by 0, and must be finite."""
        self.length = 0
        if self.is_initialized:
            self.keys.zero_()
            self.values.zero_()


class Graphs:
    """Fixed memory for one clip of a model at a time, and the forwards that are recorded over it.

    Once `record` has returned, any thread may use it; until then every cache grows.

    Args:
        record: see `Record`; None: CUDA graphs on a GPU, and elsewhere each forward is made eagerly.
    """

    def __init__(self, module: Any, layers: int, record: Record | None = None) -> None:
        device = module.get_input_embeddings().weight.device
        self._module = module
        self._record = record or (_cuda_recorder() if device.type == "cuda" else lambda forward: forward)
        self.positions: torch.Tensor | None = None  # int64 [size] on the device, within a recorded forward
        self._layers = [FixedLayer(self) for _ in range(layers)]
        self._cache: Callable[[], Cache | None] = lambda: None
        self._columns = torch.arange(ROOM, device=device)
        self._inputs = {size: torch.zeros(1 + size, dtype=torch.int64, device=device) for size in SIZES}
        self._recorded: dict[int, Forward] = {}
        self._lock = threading.Lock()

    @torch.inference_mode()
    def record(self) -> None:
        """Records a forward of every size. A capture fails when another thread waits for the GPU meanwhile.

        Raises whatever a module raises that cannot be recorded.
        """
        if not self._recorded:
            self._forward(1)  # the layers take their memory
            self._recorded = {size: self._record(partial(self._forward, size)) for size in SIZES}

    def cache(self, length: int) -> Cache | None:
        """An empty cache for `length` positions, until nothing refers to it any more; None: it has to grow."""
        with self._lock:
            # padding needs room as well
            if not self._recorded or length + SIZES[-1] > ROOM or self._cache() is not None:
                return None
            for layer in self._layers:
                layer.reset()
            cache = Cache(layers=list(self._layers))
            self._cache = weakref.ref(cache)
            return cache

    def logits(self, ids: Sequence[int] | torch.Tensor, cache: Cache) -> torch.Tensor | None:
        """A copy of the logits float32 [q, rows] after each of q tokens; None: the cache or q is not of a graph."""
        start = cache.layers[0].get_seq_length()
        if cache is not self._cache() or len(ids) > SIZES[-1] or start + SIZES[-1] > ROOM:
            return None
        size = next(size for size in SIZES if size >= len(ids))
        with self._lock:
            inputs = self._inputs[size]
            if isinstance(ids, torch.Tensor):
                inputs[0].fill_(start)
                inputs[1 : 1 + len(ids)] = ids
            else:
                inputs.copy_(torch.tensor((start, *ids, *(0,) * (size - len(ids)))))
            logits = self._recorded[size]()
            for layer in self._layers:
                layer.length = start + len(ids)
            return logits[: len(ids)].to(torch.float32, copy=True)

    def _forward(self, size: int) -> torch.Tensor:
        start, ids = self._inputs[size][:1], self._inputs[size][1:]
        self.positions = start + self._columns[:size]
        try:
            logits: torch.Tensor = self._module(
                input_ids=ids[None],
                position_ids=self.positions[None],
                attention_mask=(self._columns <= self.positions[:, None])[None, None],
                use_cache=True,
                **{CACHE: Cache(layers=self._layers)},
            ).logits[0]
        finally:
            self.positions = None
        return logits


def _cuda_recorder() -> Record:
    pool = torch.cuda.graph_pool_handle()

    def record(forward: Forward) -> Forward:
        forward()  # picks kernels, which a capture cannot
        graph = torch.cuda.CUDAGraph()
        # other threads may allocate meanwhile: by default, that would end the capture
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            logits = forward()

        def repeat() -> torch.Tensor:
            graph.replay()
            return logits

        return repeat

    return record
