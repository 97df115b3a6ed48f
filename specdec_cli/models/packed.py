"""Linear layers with weights of four or eight bits on a CPU, over PyTorch's own packed kernels.

A step of a large model at batch 1 waits for its weights to arrive from memory, so that a quarter of the bytes is up to
a quarter of the time. The kernels take a few rows at a time; from `_MANY_ROWS` on, as in a prefill, the weights are
turned back into the number format of the activations a few columns at a time, which stay in the processor's cache, and
multiplied as usual.

transformers loads such layers by itself: `PackedConfig` is a `quantization_config` for `from_pretrained`, which then
reads, packs and drops one weight after the other.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from torch import nn
from transformers.core_model_loading import ConversionOps
from transformers.quantizers import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from specdec_cli.cache import cache_folder
from specdec_cli.errors import CheckpointError
from specdec_cli.models.family import prune

BITS: Final = {"int8": 8, "int4": 4}
_METHOD: Final = "specdec_packed"
_WORTH_KEEPING: Final = 1 << 26  # bytes; less is packed in no time
_GROUP: Final = 32  # inputs that share a scale and a zero point, of four bits
_BLOCK: Final = 64  # outputs that the kernel keeps together
_MANY_ROWS: Final = 16
_AT_ONCE: Final = 1 << 20  # weights packed or turned back at a time: fewer suit the cache better, and two threads worse
_EXPONENT: Final = 0x41804180  # two numbers of bfloat16, to which a code in the upper mantissa bits adds 16 + code
_MANTISSA: Final = 0x00780078
_SHIFTS: Final = (-3, 1, 5, 9)  # bring the nibbles of a 32-bit word to those bits, two at a time


class PackedLinear(nn.Module):
    """x W^T + b, with W in four or eight bits.

    Eight bits: one scale per output, symmetric. Four bits: one scale and one zero point per output and group of 32
    inputs, so that a weight is (code - 8) scale + zero.

    Attributes:
        weight: uint8 [outputs, inputs / 2] in the kernel's own order, or int8 [outputs, inputs].
        scales: [inputs / 32, outputs, 2] scale and zero point, or [outputs].
    """

    weight: torch.Tensor
    scales: torch.Tensor

    def __init__(self, linear: nn.Linear, bits: int) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bits = linear.in_features, linear.out_features, bits
        four, weight = bits == 4, linear.weight
        packed = (self.out_features, self.in_features // 2 if four else self.in_features)
        scales = (self.in_features // _GROUP, self.out_features, 2) if four else (self.out_features,)
        self.register_buffer("weight", weight.new_empty(packed, dtype=torch.uint8 if four else torch.int8))
        self.register_buffer("scales", weight.new_empty(scales))
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Activations [..., inputs] to [..., outputs], both in the number format of the scales."""
        rows = x.reshape(-1, self.in_features)
        if len(rows) >= _MANY_ROWS:
            made = self._unpacked_product(rows)
        elif self.bits == 4:
            made = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.weight, _GROUP, self.scales)
        else:
            made = torch.ops.aten._weight_int8pack_mm(rows, self.weight, self.scales)
        if self.bias is not None:
            made += self.bias
        return made.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bits={self.bits}"

    def _unpacked_product(self, x: torch.Tensor) -> torch.Tensor:
        made = x.new_empty(len(x), self.out_features)
        step = _at_once(self.in_features)
        pieces = [slice(at, min(at + step, self.out_features)) for at in range(0, self.out_features, step)]
        if self.bits == 8:
            for piece in pieces:
                torch.mm(x, self.weight[piece].to(x.dtype).T, out=made[:, piece])
            return made.mul_(self.scales)
        scales, zeros = self.scales.unbind(-1)
        codes = torch.empty(self.in_features * step // 2, dtype=torch.int32)
        for piece in pieces:
            made[:, piece] = self._product(x, self.weight[piece], scales[:, piece], codes)
        return made.add_(x.view(len(x), -1, _GROUP).sum(-1) @ zeros)

    def _product(
        self, x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, codes: torch.Tensor
    ) -> torch.Tensor:
        """x [rows, inputs] times (code - 8) scale of some blocks of outputs; `codes` is memory to work in."""
        inputs, order = self.in_features, _order()
        words = weight.view(-1, inputs, order.numel() // 2).view(torch.int32).transpose(0, 1).contiguous()
        blocks, length = words.shape[1:]  # [inputs, blocks, words of a block]
        codes = codes[: weight.numel()].view(inputs, len(_SHIFTS), blocks, length)
        for at, shift in enumerate(_SHIFTS):
            moved = torch.bitwise_left_shift if shift < 0 else torch.bitwise_right_shift
            moved(words, abs(shift), out=codes[:, at])
        numbers = codes.bitwise_and_(_MANTISSA).bitwise_or_(_EXPONENT).view(torch.bfloat16).sub_(24)
        found = (torch.arange(blocks)[:, None] * order.numel() + order[:, None]).flatten()  # outputs as they lie now
        weights = numbers.view(inputs // _GROUP, _GROUP, -1).to(x.dtype).mul_(scales[:, found][:, None])
        # of 16-bit numbers the selection takes five times as long
        return (x @ weights.view(inputs, -1)).float().index_select(1, found.argsort())


def pack(weight: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight [outputs, inputs] as `PackedLinear` keeps it: (weight, scales), the scales in the weight's format.

    Every code is the nearest one; scale and zero point span the range of their weights.
    """
    pieces = [_packed(piece.float(), weight.dtype, bits) for piece in torch.split(weight, _at_once(weight.shape[1]))]
    packed, scales = zip(*pieces, strict=True)
    return torch.cat(packed), torch.cat(scales, dim=1 if bits == 4 else 0)


def _at_once(inputs: int) -> int:
    """Outputs, in whole blocks, whose weights fit the processor's cache."""
    return max(_BLOCK, _AT_ONCE // inputs // _BLOCK * _BLOCK)


def _packed(weight: torch.Tensor, dtype: torch.dtype, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    if bits == 8:
        scale = (weight.abs().amax(dim=1) / 127).clamp(min=1e-8).to(dtype)
        return (weight / scale.float()[:, None]).round_().clamp_(-127, 127).to(torch.int8), scale
    groups = weight.view(len(weight), -1, _GROUP)
    least, most = groups.aminmax(dim=-1, keepdim=True)
    scale = ((most - least) / 15).clamp(min=1e-8).to(dtype)
    zero = (least + 8 * scale.float()).to(dtype)
    codes = ((groups - zero.float()) / scale.float() + 8).round_().clamp_(0, 15).to(torch.int32)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.view_as(weight), 1)
    return packed, torch.cat([scale, zero], dim=-1).transpose(0, 1).contiguous()


@cache
def _order() -> torch.Tensor:
    """Outputs of a block in the order in which `_product` finds them, [4, n]; it depends on the CPU.

    Raises:
        CheckpointError: the kernel of this CPU keeps its weights otherwise.
    """
    rows = torch.arange(2 * _BLOCK, dtype=torch.int32)[:, None].expand(-1, _GROUP)
    low, high = (
        torch.ops.aten._convert_weight_to_int4pack_for_cpu(part.contiguous(), 1).flatten().long()
        for part in (rows & 15, rows >> 4)
    )
    found = torch.stack([low & 15 | (high & 15) << 4, low >> 4 | high & 240], dim=-1)
    for block in (_BLOCK, _BLOCK // 2):
        places = found.view(-1, _GROUP, block)  # [block, input, nibble]
        first = places[0, 0]
        if torch.equal(places, (torch.arange(len(places))[:, None, None] * block + first).expand_as(places)):
            return first.view(-1, 2, 2, 2).permute(2, 3, 0, 1).reshape(len(_SHIFTS), -1)  # [word, half, byte, nibble]
    raise CheckpointError(
        "the four-bit kernel of this CPU keeps its weights in an order that specdec does not know",
        hint="Use quantization: int8, or none.",
    )


def packable(module: Any) -> Iterator[tuple[str, nn.Linear]]:
    """The linear layers of the decoder and the output layer, by name, as far as their sizes suit the kernels."""
    inside = {id(part) for part in module.get_decoder().modules()} | {id(module.get_output_embeddings())}
    for name, part in module.named_modules():
        fits = isinstance(part, nn.Linear) and part.in_features % _GROUP == 0 and part.out_features % _BLOCK == 0
        if fits and id(part) in inside:
            yield name, part


def _forget(tensor: torch.Tensor) -> None:
    """Tells the system that the pages of a tensor, which is not read again, can go: a mapped file would stay in memory.

    Without effect where there is no madvise. A tensor that is not contiguous is left alone: between its numbers lie
    those of others.
    """
    page = mmap.PAGESIZE
    start = -(-tensor.data_ptr() // page) * page
    length = (tensor.data_ptr() + tensor.nbytes) // page * page - start
    if length > 0 and tensor.is_contiguous() and hasattr(mmap, "MADV_DONTNEED"):
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_DONTNEED)


@register_quantization_config(_METHOD)
class PackedConfig(QuantizationConfigMixin):  # type: ignore[misc]
    """Asks `from_pretrained` for packed layers.

    Args:
        bits: 4 or 8.
        unused: prefixes of parameters that are not to be loaded.
    """

    def __init__(self, bits: int, unused: list[str], **_: Any) -> None:
        self.quant_method = _METHOD
        self.bits, self.unused = bits, unused


@register_quantizer(_METHOD)
class _Quantizer(HfQuantizer):  # type: ignore[misc]
    requires_calibration = False

    def _process_model_before_weight_loading(self, model: Any, **_: Any) -> None:
        prune(model, self.quantization_config.unused)
        for name, linear in list(packable(model)):
            if f"{name}.weight" not in model.all_tied_weights_keys:
                model.set_submodule(name, PackedLinear(linear, self.quantization_config.bits))

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> None:
        """Packs an output layer that shares its weight with the embedding, which stays whole."""
        for name, linear in list(packable(model)):
            packed = PackedLinear(linear.to("meta"), self.quantization_config.bits)
            packed.weight, packed.scales = pack(model.get_input_embeddings().weight.data, packed.bits)
            model.set_submodule(name, packed)
            for config in (model.config, model.config.get_text_config(decoder=True)):
                config.tie_word_embeddings = False

    def param_needs_quantization(self, model: Any, param_name: str, **kwargs: Any) -> bool:  # noqa: ARG002
        owner, _, name = param_name.rpartition(".")
        return name == "weight" and isinstance(model.get_submodule(owner), PackedLinear)

    def get_quantize_ops(self) -> ConversionOps:
        return _Packing(self.quantization_config.bits)

    def is_serializable(self) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return False


class _Packing(ConversionOps):  # type: ignore[misc]
    def __init__(self, bits: int) -> None:
        self.bits = bits

    def convert(self, input_dict: dict[str, Any], *, full_layer_name: str, **_: Any) -> dict[str, torch.Tensor]:
        (value,) = input_dict.values()
        whole = value[0] if isinstance(value, list) else value
        weight, scales = pack(whole, self.bits)
        _forget(whole)
        return {full_layer_name: weight, f"{full_layer_name.removesuffix('weight')}scales": scales}


def packed_folder(weights: str, bits: int, dtype: torch.dtype) -> Path:
    """Where the packed form of a checkpoint is kept, by the fingerprint of its weights; the order is the CPU's."""
    way = (
        weights,
        bits,
        _GROUP,
        dtype,
        torch.backends.cpu.get_cpu_capability(),
        torch.__version__,
        transformers.__version__,
    )
    return cache_folder("packed") / hashlib.sha256(repr((_METHOD, way)).encode()).hexdigest()[:32]


def keep_packed(module: Any, folder: Path) -> bool:
    """Writes a packed model for later starts, all of it or nothing; False where it is small or the disk is full."""
    if sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers())) < _WORTH_KEEPING:
        return False
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            inside = Path(made) / folder.name
            module.save_pretrained(inside, max_shard_size="100GB")
            os.replace(inside, folder)
        return True
    return False
