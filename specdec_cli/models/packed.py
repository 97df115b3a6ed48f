"""Linear layers with weights of four or eight bits, over PyTorch's own packed kernels.

A step of a large model at batch 1 waits for its weights to arrive from memory, so that a quarter of the bytes is up to
a quarter of the time. On a CPU PyTorch's kernels take a few rows at a time; for more, the weights are turned back into
the number format of the activations a few columns at a time, which stay in the processor's cache. A prefill in bfloat16
multiplies in int8 where the CPU has the instructions, in half of the time; that rounds far less than four bits do.
torchao 0.18 has no four bits for CPUs but a prototype over the same kernel; its eight bits take 11 times as long for
a step of a model of 3 billion weights (35 ms against 3.2 for a layer of 2,048 by 11,008, one thread), 13 times for a
prompt of 300 tokens.

On a GPU both products can be captured in a CUDA graph, and no row depends on its neighbours.

`PackedConfig` is a `quantization_config` for `from_pretrained`, which then reads, packs and drops one weight after the
other. A later start maps the packed weights that were kept.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
import transformers
from safetensors import SafetensorError
from torch import nn
from transformers.core_model_loading import ConversionOps
from transformers.quantizers import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from specdec_cli.cache import cache_folder
from specdec_cli.errors import CheckpointError, first_line
from specdec_cli.models.kernels import decoder_layers, has_int8, int8_product, lacks_16_bits

_log = logging.getLogger(__name__)

BITS: Final = {"int8": 8, "int4": 4}
GROUP: Final = 32  # inputs that share a scale and a zero point, of four bits
_BLOCK: Final = 64  # outputs that the kernel keeps together, or twice as many
_PREFILL: Final = 96  # rows; verifications have fewer, and agree with steps but for rounding
_PEAK: Final = 16.0  # of a row over its root mean square: beyond, what int8 leaves of it is multiplied too
_AT_ONCE: Final = 1 << 23  # weights turned back at a time
_PACKED_AT_ONCE: Final = 1 << 17  # with what they are compared with, they stay in the processor's cache
MULTIPLES: Final = 16  # of a scale; times -8, the least code, it is the least number of eight bits
_FITS: Final = 3  # of codes to a zero point, and of that to them
_LEAST_STEP: Final = 1e-7  # which float16 can hold
_NIBBLES: Final = 0x0F0F0F0F
_TILES: Final = (8, 4, 2)  # of 16 inputs, which a GPU's kernel keeps together
_TRIED: Final = (64, 256)  # outputs and inputs
_METHOD: Final = "specdec_packed"
_MADE_WITH: Final = (_METHOD, GROUP, MULTIPLES, torch.__version__, transformers.__version__)
_SHARD: Final = "256MB"  # of a kept file, which is copied in memory while it is written

_Layout: TypeAlias = tuple[int, bool]
"""Bytes of a block's input, and whether a byte holds two adjacent outputs or one of each half of the block."""


class PackedLinear(nn.Module):
    """x W^T + b, with W in four or eight bits.

    Eight bits: one scale per output, symmetric. Four bits: one scale and one zero point per output and group of 32
    inputs, so that a weight is (code - 8) scale + zero. The scales of an output are whole multiples of a sixteenth of
    the largest one, so that (code - 8) multiple is the weight in eight bits but for zero, with one scale per output.

    Attributes:
        weight: uint8 [outputs, inputs / 2] in the order of the device's kernel, or int8 [outputs, inputs].
        scales: [inputs / 32, outputs, 2] scale and zero point, or [outputs].
    """

    weight: torch.Tensor
    scales: torch.Tensor

    def __init__(self, linear: nn.Linear, bits: int) -> None:
        super().__init__()
        self.bits, self.bias = bits, linear.bias
        self.in_features, self.out_features = inputs, outputs = linear.in_features, linear.out_features
        empty = linear.weight.new_empty
        if bits == 4:
            weight, scales = empty(outputs, inputs // 2, dtype=torch.uint8), empty(inputs // GROUP, outputs, 2)
        else:
            weight, scales = empty(outputs, inputs, dtype=torch.int8), empty(outputs)
        self.register_buffer("weight", weight)
        self.register_buffer("scales", scales)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Activations [..., inputs] to [..., outputs], both in the number format of the scales."""
        rows = x.reshape(-1, self.in_features)
        made = self._on_gpu(rows) if rows.is_cuda else self._on_cpu(rows)
        if self.bias is not None:
            made += self.bias
        return made.reshape(*x.shape[:-1], self.out_features)

    @classmethod
    def joined(cls, layers: Sequence[PackedLinear]) -> PackedLinear:
        """Layers with the same inputs and bits, end to end; their own weights become views of the joined ones."""
        first, sizes = layers[0], [layer.out_features for layer in layers]
        whole = nn.Linear(first.in_features, sum(sizes), first.bias is not None, device="meta")
        if first.bias is not None:
            whole.bias = nn.Parameter(torch.cat([layer.bias for layer in layers]), requires_grad=False)
        made, along = cls(whole, first.bits), 1 if first.bits == 4 else 0
        made.weight = torch.cat([layer.weight for layer in layers])
        made.scales = torch.cat([layer.scales for layer in layers], along)
        parts = made.weight.split_with_sizes(sizes), made.scales.split_with_sizes(sizes, along)
        for layer, weight, scales in zip(layers, *parts, strict=True):
            layer.weight, layer.scales = weight, scales
        return made

    def _on_gpu(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows [n, inputs] times the weights: [n, outputs]. A compiler makes one kernel of the eight bits' product."""
        if self.bits == 8:
            return rows @ self.weight.T.to(rows.dtype) * self.scales
        tiles = _tiles(self.in_features)
        tiled = self.weight.view(torch.int32).view(self.out_features // 8, -1, 32, tiles // 2)
        made: torch.Tensor = torch.ops.aten._weight_int4pack_mm(rows, tiled, GROUP, self.scales.contiguous())
        return made

    def _on_cpu(self, rows: torch.Tensor) -> torch.Tensor:
        # measured on a Xeon; for float32 there is no kernel to speak of
        fast = 1 if rows.dtype == torch.float32 else 64 if self.bits == 4 else 12
        if len(rows) > fast:
            wide = rows.float() if lacks_16_bits() else rows
            return self._unpacked_product(wide).to(rows.dtype)
        made: torch.Tensor
        if self.bits == 4:
            made = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.weight, GROUP, self.scales.contiguous())
        else:
            made = torch.ops.aten._weight_int8pack_mm(rows, self.weight, self.scales)
        return made

    def _unpacked_product(self, x: torch.Tensor) -> torch.Tensor:
        """x [rows, inputs] times the weights, turned back some outputs at a time: [rows, outputs]."""
        each = _spread()
        prefill = x.dtype == torch.bfloat16 and len(x) >= _PREFILL
        in_int8 = int8_product(x, _PEAK, each) if prefill and has_int8() else None
        if in_int8 is not None and self.bits == 8:
            return in_int8(self.weight.T, self.scales).to(x.dtype)
        made = x.new_empty(len(x), self.out_features)
        sums = x.view(len(x), -1, GROUP).sum(-1) if self.bits == 4 else x  # for zero points

        def multiply(at: int) -> None:
            piece = slice(at, at + step)
            if self.bits == 8:
                torch.mm(x, self.weight[piece].to(x.dtype).T, out=made[:, piece])
                return
            scales, zeros = self.scales[:, piece].unbind(-1)
            halves = _codes(self.weight[piece], self.in_features), _halves(scales), _halves(made[:, piece])
            for codes, scale, place in zip(*halves, strict=True):
                if in_int8 is not None:
                    found = in_int8(*_int8(codes, scale.float().flatten(1)))
                else:
                    found = x @ codes.to(x.dtype).mul_(scale.flatten(1)[:, None]).view(self.in_features, -1)
                place.copy_(found.view(place.shape))
            made[:, piece].addmm_(sums, zeros.to(x.dtype))

        step = _outputs(self.in_features, min(_AT_ONCE, self.weight.nelement() // torch.get_num_threads()))
        list(each(multiply, range(0, self.out_features, step)))
        return made.mul_(self.scales) if self.bits == 8 else made


def _spread() -> Callable[..., Iterable[Any]]:
    """A `map` over threads, for operations that are too short for PyTorch to divide among threads."""
    threads, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()
    if threads == 1:
        return map
    return lambda function, parts: _workers(threads).map(torch.inference_mode(inference)(function), parts)


@cache
def _workers(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "specdec product", torch.set_num_threads, (1,))


def _codes(weight: torch.Tensor, inputs: int, layout: _Layout | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Packed weights of some blocks as codes -8 to 7: int8 [inputs / 32, 32, outputs / 2] in the order of `_halves`."""
    length, _ = layout or _cpu_layout()
    words = torch.stack([*weight.view(-1, inputs, length).view(torch.int32)], dim=1)
    low, high = words & _NIBBLES, words.bitwise_right_shift_(4).bitwise_and_(_NIBBLES)
    first, second = (part.view(torch.int8).view(inputs // GROUP, GROUP, -1).sub_(8) for part in (low, high))
    return first, second


def _halves(values: torch.Tensor, layout: _Layout | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Values [..., outputs] of the outputs in the lower and in the upper half of the bytes, [..., blocks, n] each."""
    length, adjacent = layout or _cpu_layout()
    shape, half = ((-1, length, 2), -1) if adjacent else ((-1, 2, length), -2)
    lower, upper = torch.unflatten(values, -1, shape).unbind(half)
    return lower, upper


@cache
def _cpu_layout() -> _Layout:
    """How the kernel of this CPU keeps the outputs of a block. Raises CheckpointError if no known way fits."""
    codes = torch.randint(16, (2 * _BLOCK, GROUP), generator=torch.Generator().manual_seed(0))
    packed = _in_order(codes.int())
    for layout in product((_BLOCK // 2, _BLOCK // 4), (False, True)):
        halves = (half.reshape(1, GROUP, -1) for half in _halves(codes.T - 8, layout))
        if all(torch.equal(*both) for both in zip(halves, _codes(packed, GROUP, layout), strict=True)):
            return layout
    raise CheckpointError(
        "the four-bit kernel of this CPU keeps its weights in an order that specdec does not support",
        hint="Use quantization: int8, or none.",
    )


def _int8(codes: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights code x scale in eight bits with one scale per output: (int8 [inputs, n], float32 [n]).

    Codes are int8 [inputs / 32, 32, n], -8 to 7, and overwritten; scales are float32 [inputs / 32, n].
    """
    steps = scales.amax(0) / MULTIPLES
    return codes.mul_((scales / steps).round_().to(torch.int8)[:, None]).flatten(0, 1), steps


def pack(weight: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight [outputs, inputs] as `PackedLinear` keeps it: (weight, scales), the scales in the weight's format.

    Every code is the nearest one. The zero point is fitted to what its codes leave, and the scale is one of the two
    multiples around what spans the weights: the one that leaves less.
    """
    parts = torch.split(weight, _outputs(weight.shape[1], _PACKED_AT_ONCE))
    packed, scales = zip(*_spread()(partial(_packed, bits=bits), parts), strict=True)
    return torch.cat(packed), torch.cat(scales, dim=1 if bits == 4 else 0)


def _outputs(inputs: int, weights: int) -> int:
    """How many outputs, in whole blocks, have at most so many weights; one block at least."""
    return max(_BLOCK, weights // inputs // _BLOCK * _BLOCK)


def _packed(part: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    weight, dtype = part.float(), part.dtype
    if bits == 8:
        scale = (weight.abs().amax(dim=1) / 127).clamp(min=1e-8).to(dtype)
        return (weight / scale.float()[:, None]).round_().clamp_(-127, 127).to(torch.int8), scale
    groups = weight.view(len(weight), -1, GROUP)
    least, most = groups.aminmax(dim=-1, keepdim=True)
    spans = (most - least) / 15
    largest = spans.amax(dim=1, keepdim=True)
    steps = (largest / MULTIPLES).clamp(min=_LEAST_STEP).to(dtype).float()
    fewer = (spans / steps).floor().masked_fill_(spans == largest, MULTIPLES)
    tried = []
    for multiples in (fewer, fewer + 1):
        scale = (multiples.clamp(1, MULTIPLES) * steps).to(dtype).float()
        mean = (least + most + scale) / 2
        for _ in range(_FITS):
            zero = mean.to(dtype).float()
            codes = ((groups - zero) / scale).round_().clamp_(-8, 7)
            left = groups - codes * scale
            mean = left.mean(dim=-1, keepdim=True)
        tried.append((left.sub_(zero).square_().sum(dim=-1, keepdim=True), scale, zero, codes))
    (error, *coarse), (other, *fine) = tried
    scale, zero, codes = (torch.where(error <= other, *both) for both in zip(coarse, fine, strict=True))
    packed = _in_order(codes.add_(8).int().view_as(weight))
    return packed, torch.cat([scale, zero], dim=-1).to(dtype).transpose(0, 1).contiguous()


def _in_order(codes: torch.Tensor) -> torch.Tensor:
    """Codes int32 [outputs, inputs], 0 to 15, as uint8 [outputs, inputs / 2] in the order of their device's kernel."""
    if codes.device.type == "cpu":
        made: torch.Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
        return made
    pairs = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)
    tiled: torch.Tensor = torch.ops.aten._convert_weight_to_int4pack(pairs, _tiles(codes.shape[1]))
    return tiled.view(torch.uint8).view(pairs.shape)


def _tiles(inputs: int) -> int:
    return next(tiles for tiles in _TILES if inputs % (16 * tiles) == 0)


@cache
def require_product(device: torch.device, bits: int) -> None:
    """Raises CheckpointError if products with packed weights on a device are not those of the weights but for rounding.

    A kernel that kept its weights in another order would write plausible nonsense, with and without a cache alike.
    """
    linear = nn.Linear(_TRIED[1], _TRIED[0], bias=False).to(device, torch.bfloat16).requires_grad_(False)
    layer, allowed = PackedLinear(linear, bits), 0.1 * linear.weight.abs().max()
    try:
        layer.weight, layer.scales = pack(linear.weight.data, bits)
        weights = layer(torch.eye(_TRIED[1], device=device, dtype=torch.bfloat16)).T
        fits = bool((weights - linear.weight).abs().max() <= allowed)
    except RuntimeError as error:
        raise CheckpointError(f"{device} has no products with {bits}-bit weights: {first_line(error)}") from error
    if not fits:
        says = f"products with {bits}-bit weights are wrong on {device}, by this release of PyTorch"
        raise CheckpointError(says, hint="Use quantization: null.")


def packable(module: Any) -> dict[str, nn.Linear]:
    """The linear layers of decoder and output layer whose sizes suit the kernels, by name."""
    layers = decoder_layers(module).items()
    return {name: part for name, part in layers if part.in_features % GROUP == part.out_features % _BLOCK == 0}


def empty_packed(module: Any, bits: int, whole: Container[str] = ()) -> None:
    """Replaces all packable layers by packed ones without values, except those named in `whole`."""
    for name, linear in packable(module).items():
        if name not in whole:
            module.set_submodule(name, PackedLinear(linear, bits))


@register_quantization_config(_METHOD)
class PackedConfig(QuantizationConfigMixin):  # type: ignore[misc]
    """Makes `from_pretrained` pack layers in 4 or 8 bits, in the order of a type of device."""

    def __init__(self, bits: int, device: str = "cpu", **_: Any) -> None:
        self.quant_method, self.bits, self.device = _METHOD, bits, device


@register_quantizer(_METHOD)
class _Quantizer(HfQuantizer):  # type: ignore[misc]
    requires_calibration = is_trainable = False

    def _process_model_before_weight_loading(self, model: Any, **_: Any) -> None:
        tied = {name.removesuffix(".weight") for name in model.all_tied_weights_keys}
        empty_packed(model, self.quantization_config.bits, whole=tied)

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> None:
        """Packs an output layer that shares its weight with the embedding, which stays whole."""
        for name, linear in packable(model).items():
            packed = PackedLinear(linear.to("meta"), self.quantization_config.bits)
            packed.weight, packed.scales = pack(model.get_input_embeddings().weight.data, packed.bits)
            model.set_submodule(name, packed)
            for config in (model.config, model.config.get_text_config(decoder=True)):
                config.tie_word_embeddings = False

    def param_needs_quantization(self, model: Any, param_name: str, **_: Any) -> bool:
        owner, _dot, name = param_name.rpartition(".")
        return name == "weight" and isinstance(model.get_submodule(owner), PackedLinear)

    def get_quantize_ops(self) -> ConversionOps:
        return _Packing(self.quantization_config.bits, self.quantization_config.device)

    def is_serializable(self) -> bool:
        return True


class _Packing(ConversionOps):  # type: ignore[misc]
    def __init__(self, bits: int, device: str) -> None:
        self.bits, self.device = bits, device

    def convert(self, input_dict: dict[str, Any], *, full_layer_name: str, **_: Any) -> dict[str, torch.Tensor]:
        (value,) = input_dict.values()
        whole = value[0] if isinstance(value, list) else value
        weight, scales = pack(whole.to(self.device) if self.device != whole.device.type else whole, self.bits)
        return {full_layer_name: weight, f"{full_layer_name.removesuffix('weight')}scales": scales}


def packed_folder(weights: Sequence[Path], config: Any, bits: int, dtype: torch.dtype) -> Path | None:
    """The folder that keeps the packed form of some files of weights; None: there is no cache.

    Its name depends on the files' places, sizes and times of change (which no copy can set), on the configuration, and
    on the CPU's order.
    """
    files = [(str(path.resolve()), (of := path.stat()).st_size, of.st_mtime_ns, of.st_ctime_ns) for path in weights]
    way = (files, config.to_dict(), bits, dtype, torch.backends.cpu.get_cpu_capability(), _MADE_WITH)
    home = cache_folder("packed")
    return home and home / hashlib.sha256(repr(way).encode()).hexdigest()[:32]


def keep_packed(module: Any, folder: Path) -> None:
    """Writes a packed model for later starts, all of it or nothing."""
    home = folder.parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as made:
            module.save_pretrained(Path(made) / folder.name, max_shard_size=_SHARD)
            (Path(made) / folder.name).rename(folder)
    except (OSError, SafetensorError) as error:
        if not folder.is_dir():  # another run may have kept them meanwhile
            _log.warning("packed weights are not kept for later starts in %s: %s", home, error)
