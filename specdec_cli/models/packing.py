"""Packs weights in four or eight bits, in the order in which PyTorch's kernel of their device reads them."""

from __future__ import annotations

from functools import cache, partial
from itertools import product
from typing import Final, TypeAlias

import torch

from specdec_cli.errors import CheckpointError
from specdec_cli.models.kernels import over_threads

GROUP: Final = 32
"""Inputs that share a scale and a zero point, in four bits."""
MULTIPLES: Final = 16
"""Steps of the largest scale of an output, in four bits; times -8, the least code, they are the least int8 number."""
BLOCK: Final = 64
"""Outputs that a kernel for four bits keeps together at most."""

_WEIGHTS_AT_ONCE: Final = 1 << 17  # with what they are compared with, they stay in the processor's cache
_FITS: Final = 3  # times that codes are fitted to a zero point, and the zero point to them
_LEAST_STEP: Final = 1e-7  # of scales; float16 can hold it
_NIBBLES: Final = 0x0F0F0F0F
_TILES: Final = (8, 4, 2)  # see `tiles_of`

_Layout: TypeAlias = tuple[int, bool]
"""Bytes of a block's input, and whether a byte holds two adjacent outputs or one of each half of the block."""


def pack(weight: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight [outputs, inputs] as `PackedLinear` keeps it: (weight, scales), the scales in the weight's format.

    In eight bits a scale is the output's largest weight over 127. In four bits two scales are tried for each group, the
    multiples on either side of its span over 15; the one with the smaller squared error is kept. For each, codes and
    zero point are fitted to one another in turns, each code being the nearest one.
    """
    parts = torch.split(weight, outputs_of(weight.shape[1], _WEIGHTS_AT_ONCE))
    packed, scales = zip(*over_threads()(partial(_pack_part, bits=bits), parts), strict=True)
    return torch.cat(packed), torch.cat(scales, dim=1 if bits == 4 else 0)


def outputs_of(inputs: int, weights: int) -> int:
    """How many outputs, in whole blocks, have at most `weights` weights; one block at least."""
    return max(BLOCK, weights // inputs // BLOCK * BLOCK)


def _pack_part(part: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
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
    packed = _in_kernel_order(codes.add_(8).int().view_as(weight))
    return packed, torch.cat([scale, zero], dim=-1).to(dtype).transpose(0, 1).contiguous()


def _in_kernel_order(codes: torch.Tensor) -> torch.Tensor:
    """Codes int32 [outputs, inputs], 0 to 15, as uint8 [outputs, inputs / 2] in the order of their device's kernel."""
    if codes.device.type == "cpu":
        made: torch.Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
        return made
    pairs = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)
    tiled: torch.Tensor = torch.ops.aten._convert_weight_to_int4pack(pairs, tiles_of(codes.shape[1]))
    return tiled.view(torch.uint8).view(pairs.shape)


def tiles_of(inputs: int) -> int:
    """How many tiles of 16 inputs a GPU's kernel for four bits keeps together."""
    return next(tiles for tiles in _TILES if inputs % (16 * tiles) == 0)


def codes_of(weight: torch.Tensor, inputs: int, layout: _Layout | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes -8 to 7 of some blocks' packed weights, in the order of `byte_halves`.

    Returns int8 [inputs / 32, 32, outputs / 2], twice: the lower and the upper half of the bytes.
    """
    length, _ = layout or _cpu_layout()
    words = torch.stack([*weight.view(-1, inputs, length).view(torch.int32)], dim=1)
    low, high = words & _NIBBLES, words.bitwise_right_shift_(4).bitwise_and_(_NIBBLES)
    first, second = (part.view(torch.int8).view(inputs // GROUP, GROUP, -1).sub_(8) for part in (low, high))
    return first, second


def byte_halves(values: torch.Tensor, layout: _Layout | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Splits values [..., outputs] by the half of the packed byte that holds an output: lower, upper.

    Each is [..., blocks, n].
    """
    length, adjacent = layout or _cpu_layout()
    shape, half = ((-1, length, 2), -1) if adjacent else ((-1, 2, length), -2)
    lower, upper = torch.unflatten(values, -1, shape).unbind(half)
    return lower, upper


@cache
def _cpu_layout() -> _Layout:
    """How the kernel of this CPU keeps the outputs of a block. Raises CheckpointError if no known way fits."""
    codes = torch.randint(16, (2 * BLOCK, GROUP), generator=torch.Generator().manual_seed(0))
    packed = _in_kernel_order(codes.int())
    for layout in product((BLOCK // 2, BLOCK // 4), (False, True)):
        halves = (half.reshape(1, GROUP, -1) for half in byte_halves(codes.T - 8, layout))
        if all(torch.equal(*both) for both in zip(halves, codes_of(packed, GROUP, layout), strict=True)):
            return layout
    raise CheckpointError(
        "the four-bit kernel of this CPU keeps its weights in an order that specdec does not support",
        hint="Use quantization: int8, or none.",
    )
