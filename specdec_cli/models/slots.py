"""Fixed memory for several clips of a model, and forwards over it that a GPU repeats as CUDA graphs.

An eager forward launches hundreds of kernels one by one, and a GPU waits for the launches. A CUDA graph launches them
all at once, but reads and writes the same memory each time and feeds the same number of tokens. So a clip has a slot
of fixed memory, and a forward of B clips with q tokens each reads `ids [B, q]`, `slot [B]` and `start [B]`.
Positions and mask follow from `start` on the device. Fewer tokens or clips are padded: a short clip's padding lies
after its text, where nothing attends to it and the next forward overwrites it; a missing clip's is written to `SPARE`
places at the end of a slot, which no text reaches.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import torch
from transformers.cache_utils import Cache, DynamicLayer

from specdec_cli.models.compiled_steps import StepCache, compile_every_shape, let_layers_compile
from specdec_cli.models.families import CACHE
from specdec_cli.models.fused import fuse_layers

Forward: TypeAlias = Callable[[], torch.Tensor]
"""Reads its inputs from fixed memory and returns logits [clips, tokens, rows]."""
Record: TypeAlias = Callable[[Forward], Forward]
"""Turns a forward into one that repeats it."""

SIZES: Final = (1, 9, 17, 65)
"""Tokens of a recorded forward: a step; 8 and 16 drafted or guessed ones, and a deferred draft, each with one more."""
JOINT_SIZES: Final = SIZES[:2]
"""Tokens of each clip in a forward of several; a clip that feeds more is served alone."""
CLIPS: Final = (1, 2, 4, 8, 16)
"""Clips of a recorded forward, up to the number of slots."""
ROOMS: Final = (512, 1024, 2048)
"""Positions that attention reads. A slot has the largest number; the cache of a longer clip grows."""
SPARE: Final = SIZES[-1]
"""Places at the end of a slot that no text reaches."""


@dataclass(frozen=True, slots=True)
class _Shape:
    clips: int
    tokens: int
    room: int


class SlotLayer(DynamicLayer):  # type: ignore[misc]
    """One clip's keys and values of a layer, at the fixed places of its slot. A crop changes their number alone."""

    def __init__(self, memory: LayerMemory, slot: int) -> None:
        super().__init__()
        self.memory, self.slot, self.length = memory, slot, 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """New keys and values [1, heads, q, width] -> the cached ones and those."""
        self.keys = self.memory.keys[self.slot : self.slot + 1]
        self.values = self.memory.values[self.slot : self.slot + 1]
        start, self.length = self.length, self.length + key_states.shape[-2]
        self.keys[..., start : self.length, :] = key_states
        self.values[..., start : self.length, :] = value_states
        return self.keys[..., : self.length, :], self.values[..., : self.length, :]

    def get_seq_length(self) -> int:
        return self.length

    def crop(self, tokens_to_remove: int) -> None:
        self.length += tokens_to_remove


class LayerMemory(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer for all slots: [slots, heads, room, width]; in a recorded forward, its cache."""

    def __init__(self, slots: Slots) -> None:
        super().__init__()
        self._slots = slots

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Takes the memory for keys and values [B, heads, q, width], at the first forward of all."""
        super().lazy_initialization(key_states, value_states)
        self.keys, self.values = (
            states.new_zeros(self._slots.count, states.shape[1], ROOMS[-1], states.shape[-1])
            for states in (key_states, value_states)
        )

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """New keys and values [B, heads, q, width] -> all places of those clips, [B, heads, room, width]."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        slot, positions, room = self._slots.slot, self._slots.positions, self._slots.room
        self.keys[slot[:, None], :, positions] = key_states.transpose(1, 2)
        self.values[slot[:, None], :, positions] = value_states.transpose(1, 2)
        if len(slot) == self._slots.count:  # clip i is in slot i, and nothing has to be gathered
            return self.keys[:, :, :room], self.values[:, :, :room]
        return self.keys[:, :, :room].index_select(0, slot), self.values[:, :, :room].index_select(0, slot)

    def get_seq_length(self) -> int:
        return 0

    def clear(self, slot: int) -> None:
        """Zeroes a slot: values that nothing attends to are multiplied by 0, so they have to be finite."""
        self.keys[slot].zero_()
        self.values[slot].zero_()


class Slots:
    """Fixed memory for some clips of a model at a time, and the forwards that are recorded over it.

    Once `record` has returned, any thread may use it; until then every cache grows. A slot is free again when nothing
    refers to its cache any more.

    Args:
        layers: of the decoder.
        count: of slots, each for one clip.
        record: see `Record`; None: CUDA graphs on a GPU; elsewhere each forward is made eagerly.
        compiled: whether steps of one token run compiled layers; `let_layers_compile` must have prepared the module.
    """

    def __init__(
        self, module: Any, layers: int, count: int = 1, record: Record | None = None, *, compiled: bool = False
    ) -> None:
        self.device = module.get_input_embeddings().weight.device
        self.count, self.compiled = count, compiled
        self._module, self._recorder = module, record
        self._record = record or (_cuda_recorder() if self.device.type == "cuda" else lambda forward: forward)
        self._layers = [LayerMemory(self) for _ in range(layers)]
        self._caches: list[Callable[[], Cache | None]] = [lambda: None] * count
        self._columns = torch.arange(ROOMS[-1], device=self.device)
        self._inputs: dict[tuple[int, int], torch.Tensor] = {}  # int64 [clips, 2 + tokens], by clips and tokens
        self._recorded: dict[_Shape, Forward] = {}
        self._lock = threading.Lock()
        # within a recorded forward: int64 [B] and [B, q] on the device, and the positions that attention reads
        self.slot = self.positions = self._columns
        self.room = ROOMS[0]

    @torch.inference_mode()
    def record(self) -> None:
        """Records a forward of every shape. No other thread may wait for the GPU meanwhile: the capture would fail.

        Raises whatever the module raises if it cannot be recorded.
        """
        if self._recorded:
            return
        clips = sorted({count for count in CLIPS if count < self.count} | {self.count})
        shapes = [_Shape(count, size, room) for count in clips for size in SIZES for room in ROOMS]
        shapes = [shape for shape in shapes if shape.clips == 1 or shape.tokens in JOINT_SIZES]
        for shape in shapes:
            self._inputs[shape.clips, shape.tokens] = self._padded([], shape).to(self.device)
        self._forward(shapes[-1])  # the layers take their memory
        recorded = dict[_Shape, Forward]()
        with compile_every_shape() if self.compiled else nullcontext():
            for shape in shapes:
                if self._is_compiled(shape):
                    self._forward(shape)  # compiles it
                recorded[shape] = self._record(partial(self._forward, shape))
        self._recorded = recorded

    def like(self, count: int, *, compiled: bool) -> Slots:
        """Free slots for the same module, without recorded forwards."""
        return Slots(self._module, len(self._layers), count, self._recorder, compiled=compiled)

    def cache(self, length: int) -> Cache | None:
        """An empty cache for `length` positions in a free slot; None if no slot is free or long enough."""
        with self._lock:
            if not self._recorded or length + SPARE > ROOMS[-1]:
                return None
            slot = next((at for at, cache in enumerate(self._caches) if cache() is None), None)
            if slot is None:
                return None
            for layer in self._layers:
                layer.clear(slot)
            cache = Cache(layers=[SlotLayer(layer, slot) for layer in self._layers])
            self._caches[slot] = weakref.ref(cache)
            return cache

    def holds(self, cache: Any, tokens: int) -> bool:
        """Whether a recorded forward can feed `tokens` tokens behind those in `cache`."""
        layer = cache.layers[0]
        if not (isinstance(layer, SlotLayer) and layer.memory is self._layers[0]):
            return False
        return tokens <= SIZES[-1] and layer.length + SIZES[-1] <= ROOMS[-1]

    def logits(self, feeds: Sequence[Sequence[int] | torch.Tensor], caches: Sequence[Cache]) -> list[torch.Tensor]:
        """Feeds each clip its tokens: ids, or int64 [q] on the device. Every cache has a slot here.

        Returns for each clip a copy of its logits float32 [q, rows]. If a forward raises, no cache has changed.
        """
        joint = [at for at, feed in enumerate(feeds) if len(feed) <= JOINT_SIZES[-1]]
        parts = [*([joint] if joint else ()), *([at] for at, feed in enumerate(feeds) if at not in joint)]
        found: dict[int, torch.Tensor] = {}
        with self._lock:
            for part in parts:
                made = self._run([feeds[at] for at in part], [caches[at].layers[0] for at in part])
                found.update(zip(part, made, strict=True))
            for feed, cache in zip(feeds, caches, strict=True):
                for layer in cache.layers:
                    layer.length += len(feed)
        return [found[at] for at in range(len(feeds))]

    def _run(self, feeds: Sequence[Sequence[int] | torch.Tensor], layers: Sequence[SlotLayer]) -> list[torch.Tensor]:
        clips = next(count for count, _ in sorted(self._inputs) if count >= len(feeds))
        size = next(size for size in SIZES if size >= max(map(len, feeds)))
        end = max(layer.length for layer in layers) + size
        shape = _Shape(clips, size, next(room for room in ROOMS if room >= end))
        places = [layer.slot if clips == self.count else at for at, layer in enumerate(layers)]
        read = [() if isinstance(feed, torch.Tensor) else feed for feed in feeds]
        rows = [(layer.slot, layer.length, *ids) for ids, layer in zip(read, layers, strict=True)]
        inputs = self._inputs[clips, size]
        inputs.copy_(self._padded(rows, shape), non_blocking=True)
        for at, feed in zip(places, feeds, strict=True):
            if isinstance(feed, torch.Tensor):  # the host has not read these ids
                inputs[at, 2 : 2 + len(feed)] = feed
        logits = self._recorded[shape]()
        return [logits[at, : len(feed)].to(torch.float32, copy=True) for at, feed in zip(places, feeds, strict=True)]

    def _padded(self, rows: Sequence[tuple[int, ...]], shape: _Shape) -> torch.Tensor:
        """Slot, start and ids of each clip, padded: int64 [clips, 2 + tokens] on the host.

        With as many clips as slots, row i is the clip in slot i.
        """
        whole = shape.clips == self.count
        spare = ROOMS[-1] - SPARE
        padded = [[at if whole else 0, spare, *(0,) * shape.tokens] for at in range(shape.clips)]
        for at, row in enumerate(rows):
            padded[row[0] if whole else at][: len(row)] = row
        made = torch.tensor(padded)
        return made.pin_memory() if self.device.type == "cuda" else made

    def _forward(self, shape: _Shape) -> torch.Tensor:
        inputs = self._inputs[shape.clips, shape.tokens]
        ids = inputs[:, 2:]
        self.slot = inputs[:, 0]
        self.positions = inputs[:, 1:2] + self._columns[: shape.tokens]
        self.room = shape.room
        memories = StepCache(self._layers) if self._is_compiled(shape) else Cache(layers=self._layers)
        logits: torch.Tensor = self._module(
            input_ids=ids,
            position_ids=self.positions,
            attention_mask=self._mask(shape.room),
            use_cache=True,
            **{CACHE: memories},
        ).logits
        return logits

    def _is_compiled(self, shape: _Shape) -> bool:
        return self.compiled and shape.tokens == 1

    def _mask(self, room: int) -> torch.Tensor:
        """The additive attention mask [B, 1, q, room]. A boolean one would be turned into it in every layer."""
        behind = self._columns[:room] > self.positions[..., None]
        return torch.zeros_like(behind, dtype=self._module.dtype).masked_fill_(behind, -torch.inf)[:, None]


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


def slots_for(module: Any, layers: int, context: int, *, recorded: bool, compiled: bool) -> Slots | None:
    """Fuses what a module computes in every step, and makes a slot if its forwards are to be recorded; None: no slots.

    A model whose context is shorter than a slot, or that is spread over devices, has none: a forward over slots reads
    their whole length, whatever the clips' lengths.
    """
    fuse_layers(module)
    spread = len(set(getattr(module, "hf_device_map", {}).values())) > 1
    if spread or not recorded or context < ROOMS[-1]:
        return None
    slots = Slots(module, layers, compiled=compiled)
    if compiled:
        let_layers_compile(module)
    return slots
