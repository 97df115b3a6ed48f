"""Linear layers on a CPU with weights of four bits, multiplied by PyTorch's own kernel.

A step of a large model at batch 1 waits for its weights to arrive from memory, so that a quarter of the bytes is up to
a quarter of the time. The kernel is fast for a few rows. For more rows, some outputs' weights at a time are turned back
into the activations' number format, few enough to stay in the processor's cache. A prompt in bfloat16 is multiplied in
int8 if the CPU has the instructions, in half of the time; that rounds far less than four bits do.

torchao 0.18 has no four bits for CPUs but a prototype over the same kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import Any, Final, TypeAlias

import torch
from torch import nn

from specdec_cli.errors import CheckpointError
from specdec_cli.models.kernels import decoder_layers, has_int8, int8_product, lacks_16_bits, over_threads

GROUP: Final = 32
"""Inputs that share a scale and a zero point."""
MULTIPLES: Final = 16
"""Steps of the largest scale of an output; times -8, the least code, they are the least int8 number."""
BLOCK: Final = 64
"""Outputs that the kernel keeps together at most."""

_FEW_ROWS: Final = {torch.float32: 1}
"""Rows for which the kernel is faster than weights that are turned back: 64, in float32 one (measured on a Xeon)."""
_PREFILL: Final = 96  # rows from which a prompt gains by int8
_PEAK: Final = 16.0  # largest number of a row over its root mean square; a row beyond takes 15 bits
_UNPACKED_AT_ONCE: Final = 1 << 23  # weights that are turned back at a time
_PACKED_AT_ONCE: Final = 1 << 15  # weights, which then stay in the processor's cache
_LEAST_STEP: Final = 1e-7  # of scales; float16 can hold it
_NIBBLES: Final = 0x0F0F0F0F

_Layout: TypeAlias = tuple[int, bool]
"""Bytes of a block's input, and whether a byte holds two adjacent outputs or one of each half of the block."""

_prompt = threading.local()  # `rounds`: whether this thread reads a prompt


class PackedLinear(nn.Module):
    """x W^T + b, with W in four bits: one scale and one zero point per output and group of 32 inputs.

    A weight is (code - 8) scale + zero. The scales of an output are whole multiples of one step, a sixteenth of the
    largest scale. So (code - 8) multiple is the weight without its zero point in eight bits, and the step is the one
    scale of its output.

    Attributes:
        weight: uint8 [outputs, inputs / 2] in the order of the kernel.
        scales: [inputs / 32, outputs, 2] scale and zero point.
    """

    weight: torch.Tensor
    scales: torch.Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.bias = linear.bias
        self.in_features, self.out_features = inputs, outputs = linear.in_features, linear.out_features
        self.register_buffer("weight", linear.weight.new_empty(outputs, inputs // 2, dtype=torch.uint8))
        self.register_buffer("scales", linear.weight.new_empty(inputs // GROUP, outputs, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Activations [..., inputs] to [..., outputs], both in the number format of the scales."""
        rows = x.reshape(-1, self.in_features)
        if len(rows) <= _FEW_ROWS.get(rows.dtype, 64):
            made: torch.Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.weight, GROUP, self.scales)
        else:
            made = self._unpacked_product(rows.float() if lacks_16_bits() else rows).to(rows.dtype)
        if self.bias is not None:
            made += self.bias
        return made.reshape(*x.shape[:-1], self.out_features)

    def _unpacked_product(self, x: torch.Tensor) -> torch.Tensor:
        """x [rows, inputs] times the weights, turned back some outputs at a time: [rows, outputs]."""
        each = over_threads()
        rounds = getattr(_prompt, "rounds", False) and x.dtype == torch.bfloat16 and len(x) >= _PREFILL
        in_int8 = int8_product(x, _PEAK, each) if rounds and has_int8() else None
        made = x.new_empty(len(x), self.out_features)
        sums = x.view(len(x), -1, GROUP).sum(-1)  # for zero points

        def multiply(at: int) -> None:
            piece = slice(at, at + step)
            scales, zeros = self.scales[:, piece].unbind(-1)
            halves = codes_of(self.weight[piece], self.in_features), byte_halves(scales), byte_halves(made[:, piece])
            for codes, scale, place in zip(*halves, strict=True):
                if in_int8 is not None:
                    found = in_int8(*_codes_in_int8(codes, scale.float().flatten(1)))
                else:
                    found = x @ codes.to(x.dtype).mul_(scale.flatten(1)[:, None]).view(self.in_features, -1)
                place.copy_(found.view(place.shape))
            made[:, piece].addmm_(sums, zeros.to(x.dtype))

        step = _outputs_of(self.in_features, min(_UNPACKED_AT_ONCE, self.weight.nelement() // torch.get_num_threads()))
        list(each(multiply, range(0, self.out_features, step)))
        return made


@contextmanager
def reading_a_prompt() -> Iterator[None]:
    """Within the block forwards of this thread may round activations to int8, as the prompt of one clip bears.

    In all other forwards no clip's scores depend on how many tokens lie beside its own.
    """
    _prompt.rounds = True
    try:
        yield
    finally:
        _prompt.rounds = False


def _codes_in_int8(codes: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights code x scale in eight bits with one scale per output: (int8 [inputs, n], float32 [n]).

    Codes are int8 [inputs / 32, 32, n], -8 to 7, and overwritten; scales are float32 [inputs / 32, n].
    """
    steps = scales.amax(0) / MULTIPLES
    return codes.mul_((scales / steps).round_().to(torch.int8)[:, None]).flatten(0, 1), steps


def packable(module: Any) -> dict[str, nn.Linear]:
    """The linear layers of decoder and output layer whose sizes suit the kernel, by name."""
    layers = decoder_layers(module).items()
    return {name: part for name, part in layers if part.in_features % GROUP == part.out_features % BLOCK == 0}


def empty_packed(module: Any, whole: Container[str] = ()) -> None:
    """Replaces all packable layers by packed ones without values, except those named in `whole`."""
    for name, linear in packable(module).items():
        if name not in whole:
            module.set_submodule(name, PackedLinear(linear))


def pack(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight [outputs, inputs] on the CPU as `PackedLinear` keeps it: (weight, scales in the weight's format).

    A scale is the multiple that is nearest to a fifteenth of its group's span, around whose middle the codes lie.
    """
    parts, threads = torch.split(weight, _outputs_of(weight.shape[1], _PACKED_AT_ONCE)), torch.get_num_threads()
    torch.set_num_threads(1)  # these operations are short: several threads would mostly wait for each other
    try:
        packed, scales = zip(*map(_pack_part, parts), strict=True)
    finally:
        torch.set_num_threads(threads)
    return torch.cat(packed), torch.cat(scales, dim=1)


def _outputs_of(inputs: int, weights: int) -> int:
    """How many outputs, in whole blocks, have at most `weights` weights; one block at least."""
    return max(BLOCK, weights // inputs // BLOCK * BLOCK)


def _pack_part(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    groups, dtype = part.float().view(len(part), -1, GROUP), part.dtype
    # `aminmax` takes five times as long
    least, most = groups.amin(dim=-1, keepdim=True), groups.amax(dim=-1, keepdim=True)
    spans = (most - least) / 15
    steps = (spans.amax(dim=1, keepdim=True) / MULTIPLES).clamp_(min=_LEAST_STEP).to(dtype).float()
    scale = ((spans / steps).round_().clamp_(1, MULTIPLES) * steps).to(dtype).float()
    zero = ((least + most + scale) / 2).to(dtype).float()
    codes = (groups - zero).div_(scale).round_().clamp_(-8, 7).add_(8).to(torch.uint8)
    scales = torch.cat([scale, zero], dim=-1).to(dtype).transpose(0, 1)
    return _in_kernel_order(codes.view(part.shape), _layout()), scales


def _in_kernel_order(codes: torch.Tensor, layout: _Layout) -> torch.Tensor:
    """Codes uint8 [outputs, inputs], 0 to 15, as uint8 [outputs, inputs / 2]; PyTorch's own way takes longer."""
    length, adjacent = layout
    outputs, inputs = codes.shape
    lower, upper = codes.view(-1, *((length, 2) if adjacent else (2, length)), inputs).unbind(2 if adjacent else 1)
    return upper.bitwise_left_shift(4).bitwise_or_(lower).transpose(1, 2).reshape(outputs, inputs // 2)


def codes_of(weight: torch.Tensor, inputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes -8 to 7 of some blocks' packed weights, in the order of `byte_halves`.

    Returns int8 [inputs / 32, 32, outputs / 2], twice: the lower and the upper half of the bytes.
    """
    length, _ = _layout()
    words = torch.stack([*weight.view(-1, inputs, length).view(torch.int32)], dim=1)
    low, high = words & _NIBBLES, words.bitwise_right_shift_(4).bitwise_and_(_NIBBLES)
    first, second = (part.view(torch.int8).view(inputs // GROUP, GROUP, -1).sub_(8) for part in (low, high))
    return first, second


def byte_halves(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Splits values [..., outputs] by the half of the packed byte that holds an output: lower, upper.

    Each is [..., blocks, n].
    """
    length, adjacent = _layout()
    shape, half = ((-1, length, 2), -1) if adjacent else ((-1, 2, length), -2)
    lower, upper = torch.unflatten(values, -1, shape).unbind(half)
    return lower, upper


@cache
def _layout() -> _Layout:
    """How the kernel of this CPU keeps the outputs of a block. Raises CheckpointError if no known way fits."""
    codes = torch.randint(16, (2 * BLOCK, GROUP), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.int(), 1)
    for layout in product((BLOCK // 2, BLOCK // 4), (False, True)):
        if torch.equal(_in_kernel_order(codes, layout), packed):
            return layout
    raise CheckpointError(
        "the four-bit kernel of this CPU keeps its weights in an order that specdec does not support",
        hint="Use quantization: null.",
    )
