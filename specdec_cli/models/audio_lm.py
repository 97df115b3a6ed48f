"""An audio language model of transformers, called through its own forward."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Literal

import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer

from specdec_cli.errors import first_line
from specdec_cli.models.families import CACHE
from specdec_cli.models.int4 import reading_a_prompt
from specdec_cli.models.kernels import replace_layers
from specdec_cli.models.processor import Processor

if TYPE_CHECKING:
    from specdec_cli.models.slots import Slots

_log = logging.getLogger(__name__)

_CHUNK: Final = 1024  # tokens of a prompt that a GPU reads at a time


class _Sliding(DynamicSlidingWindowLayer):  # type: ignore[misc]
    """A sliding layer that can be cropped twice in a row. The library's forgets its past at the first crop."""

    def crop(self, tokens_to_remove: int) -> None:
        DynamicLayer.crop(self, tokens_to_remove)
        if self.is_initialized:
            self.cumulative_length = self.keys.shape[-2]


def _empty_cache(config: Any) -> DynamicCache:
    """A cache of which every layer can be cropped."""
    cache = DynamicCache(config=config)
    for at, layer in enumerate(cache.layers):
        if type(layer) is DynamicSlidingWindowLayer:
            cache.layers[at] = _Sliding(layer.sliding_window)
    cache.activate_past_recording()
    return cache


class ExactConvolutions:
    """Within a block cuDNN does not round float32 to ten bits (TF32). Matrix products do not either.

    The switch is the process's: the first of several threads in such blocks turns it off, the last one back.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._before = threading.Lock(), 0, True

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = torch.backends.cudnn.allow_tf32
                torch.backends.cudnn.allow_tf32 = False
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                torch.backends.cudnn.allow_tf32 = self._before


_EXACT: Final = ExactConvolutions()


class AudioLM:
    """A loaded checkpoint: transformers' model in evaluation mode, and the processor that belongs to it.

    Args:
        weights: their fingerprint; None: unknown.
        graphs: "auto", "on" or "off", see `RuntimeConfig.graphs`.
        compiled: whether the layers of recorded steps are compiled, see `Slots`.
        quantization: what quantised its weights when they were loaded, such as "int4"; None: they are as stored.
    """

    is_remote: Literal[False] = False

    def __init__(
        self,
        module: Any,
        processor: Processor,
        *,
        weights: str | None = None,
        graphs: str = "off",
        compiled: bool = False,
        quantization: str | None = None,
    ) -> None:
        self.module, self.processor, self.name = module, processor, processor.name
        self.weights, self.quantization = weights, quantization
        replace_layers(module)
        self._empty = _empty_cache(module.config)
        self.parameters = sum(weight.numel() for weight in module.parameters())  # audio encoder included
        self.dtype: torch.dtype = module.dtype
        self.device: torch.device = module.get_input_embeddings().weight.device
        # Clips can share a forward unless layers slide, which keep no full mask, or attention is eager, which takes
        # boolean masks for additive ones.
        full = all(type(layer) is DynamicLayer for layer in self._empty.layers)
        self.joins = full and module.config._attn_implementation == "sdpa"
        # One token attends to all before it, and needs no mask: without one it takes a twentieth less time.
        spared = self.joins and processor.family.takes_masks
        self._mask_of_one = {"full_attention": None} if spared else None
        self._on_cuda = self.device.type == "cuda"
        recorded = graphs == "on" or (graphs == "auto" and self._on_cuda)
        self.slots: Slots | None = None  # None: every cache grows
        if self.joins and (recorded or self.device.type != "cpu"):
            from specdec_cli.models.slots import slots_for

            layers, context = len(self._empty.layers), processor.context
            self.slots = slots_for(module, layers, context, recorded=recorded, compiled=compiled)
        if self.joins and self.device.type != "cpu":
            self.read_in_chunks(_CHUNK)
        self.self_test: str | None = None  # its result, in a phrase; None: it was not run
        self._calls = threading.local()  # per thread: rows to score, and time and passes of the encoder
        self._watch_encoder()
        module.get_output_embeddings().register_forward_pre_hook(self._scored_rows)

    def record_graphs(self) -> None:
        """Records the forwards that are repeated as graphs. A model that cannot be recorded runs without them."""
        if self.slots is None:
            return
        try:
            self.slots.record()
        except Exception as error:  # a module may do anything that cannot be recorded
            if self.slots.compiled:
                _log.warning("%s runs without compiled steps: %s", self.name, first_line(error))
                self.slots = self.slots.like(self.slots.count, compiled=False)
                self.record_graphs()
            else:
                _log.warning("%s runs without graphs: %s", self.name, first_line(error))
                self.slots = None

    def reserve(self, clips: int) -> None:
        """Makes slots for `clips` clips, if there are fewer. Earlier caches keep their content, but no graphs."""
        if self.slots is not None and self.slots.count < clips:
            self.slots = self.slots.like(clips, compiled=self.slots.compiled)
            self.record_graphs()

    def read_in_chunks(self, size: int) -> None:
        """Makes the decoder read a prompt `size` tokens at a time, so that other clips' forwards run in between."""
        decoder = self.module.get_decoder()
        forward = decoder.forward

        def chunked(*args: Any, inputs_embeds: Any = None, position_ids: Any = None, **kwargs: Any) -> Any:
            given = {"inputs_embeds": inputs_embeds, "position_ids": position_ids}
            whole = args or any(isinstance(values, torch.Tensor) for values in kwargs.values())  # masks of all tokens
            if whole or inputs_embeds is None or position_ids is None or inputs_embeds.shape[1] <= size:
                return forward(*args, **given, **kwargs)
            states = []
            for embeds, positions in zip(inputs_embeds.split(size, 1), position_ids.split(size, -1), strict=True):
                made = forward(inputs_embeds=embeds, position_ids=positions, **kwargs)
                states.append(made.last_hidden_state)
                self.synchronize()
            made.last_hidden_state = torch.cat(states, 1)
            return made

        decoder.forward = chunked

    def new_cache(self, length: int) -> Cache:
        """An empty cache for at most `length` positions. All of its layers can be cropped, sliding ones included."""
        if self.slots is not None and (fixed := self.slots.cache(length)) is not None:
            return fixed
        cache = copy(self._empty)
        cache.layers = [copy(layer) for layer in cache.layers]  # nothing is in them that copies could share
        return cache

    def forward(
        self,
        ids: Sequence[int] | torch.Tensor,
        positions: torch.Tensor,
        cache: Cache,
        rows: int | torch.Tensor,
        audio: Mapping[str, torch.Tensor] | None = None,
        mask: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, float, int]:
        """One pass of the module's own forward over q tokens that follow what `cache` holds; call it in inference mode.

        Args:
            ids: of the tokens, or int64 [q] on the device.
            positions: of each token, int64 [q].
            rows: how many of the last tokens to score, or the indices [m] of those that are scored.
            audio: the clip's tensors, if its placeholders are among the tokens.
            mask: bool [1, 1, q, cached + q], which tokens attend to which; None: causal.

        Returns float32 [m, rows of the output layer] logits, milliseconds in the audio encoder, encoder passes. On a
        GPU the logits may not have been computed yet.
        """
        if isinstance(rows, int) and audio is None and self.slots is not None and self.slots.holds(cache, len(ids)):
            (logits,) = self.slots.logits([ids], [cache])
            return logits[-rows:], 0.0, 0
        calls = self._calls
        calls.rows, calls.encoder_ms, calls.passes = rows, 0.0, 0
        inputs: dict[str, Any] = {name: self._placed(values) for name, values in (audio or {}).items()}
        if mask is not None:
            inputs["attention_mask"] = mask
        elif len(ids) == 1 and self._mask_of_one is not None:
            inputs["attention_mask"] = self._mask_of_one
        try:
            with nullcontext() if audio is None else reading_a_prompt():
                tokens = ids[None] if isinstance(ids, torch.Tensor) else torch.tensor([list(ids)], device=self.device)
                where = positions[None].to(self.device)
                output = self.module(input_ids=tokens, position_ids=where, use_cache=True, **{CACHE: cache}, **inputs)
        finally:
            calls.rows = None
        return output.logits[0].float(), calls.encoder_ms, calls.passes

    def synchronize(self) -> None:
        """Waits for the device. Its work goes on after a call returns, so a time taken before would be too short."""
        if self._on_cuda:
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()

    def describe(self) -> dict[str, str]:
        """Name, dtype and device, and what is known of its weights and graphs, as transcripts record them."""
        dtype = "/".join(filter(None, (self.quantization, str(self.dtype).removeprefix("torch."))))
        graphs = None
        if self.slots is not None:
            graphs = "compiled" if self.slots.compiled else "cuda" if self._on_cuda else "eager"
        known = {"dtype": dtype, "device": str(self.device), "weights": self.weights, "graphs": graphs}
        return {"name": self.name} | {name: value for name, value in known.items() if value is not None}

    def _placed(self, values: torch.Tensor) -> torch.Tensor:
        return values.to(self.device, self.dtype) if values.is_floating_point() else values.to(self.device)

    def _scored_rows(self, _module: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
        """Restricts the output layer to the rows that are scored: 300 s of prompt would be 4 GB of logits."""
        rows = getattr(self._calls, "rows", None)
        if rows is None:
            return None
        # indexed before the batch axis is added: with the strides of all rows PyTorch multiplies up to 60 times slower
        # (bfloat16 on a CPU)
        hidden = inputs[0][0]
        return ((hidden[-rows:] if isinstance(rows, int) else hidden[rows.to(hidden.device)])[None], *inputs[1:])

    def _watch_encoder(self) -> None:
        """Counts and times the runs of the audio encoder, whatever its name in the family."""
        owners = [owner for owner in (getattr(self.module, "model", None), self.module) if owner is not None]
        places = [(owner, "get_audio_features") for owner in owners]
        places += [(getattr(owner, "audio_tower", None), "forward") for owner in owners]  # all that Qwen2-Audio has
        owner, name = next((owner, name) for owner, name in places if hasattr(owner, name))
        encode = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            self.synchronize()
            started = time.perf_counter()
            with _EXACT if self._on_cuda else nullcontext():
                encoded = encode(*args, **kwargs)
            self.synchronize()
            calls = self._calls
            calls.encoder_ms = getattr(calls, "encoder_ms", 0.0) + (time.perf_counter() - started) * 1e3
            calls.passes = getattr(calls, "passes", 0) + 1
            return encoded

        setattr(owner, name, watched)
