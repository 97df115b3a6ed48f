"""Linear layers that multiply with weights of four or eight bits, by PyTorch's own kernels.

A step of a large model at batch 1 waits for its weights to arrive from memory, so that a quarter of the bytes is up to
a quarter of the time. PyTorch's CPU kernels are fast for a few rows. For more rows, some outputs' weights at a time are
turned back into the activations' number format, few enough to stay in the processor's cache. A prefill in bfloat16
multiplies in int8 if the CPU has the instructions, in half of the time; that rounds far less than four bits do.
On a GPU both products can be captured in a CUDA graph, and no row depends on its neighbours.

torchao 0.18 has no four bits for CPUs but a prototype over the same kernel. With its eight bits a layer of 2,048 by
11,008 takes 35 ms for a step, against 3.2 here (one thread); a prompt of 300 tokens takes 13 times as long.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cache
from typing import Any, Final

import torch
from torch import nn

from specdec_cli.errors import CheckpointError, first_line
from specdec_cli.models.kernels import decoder_layers, has_int8, int8_product, lacks_16_bits, over_threads
from specdec_cli.models.packing import BLOCK, GROUP, MULTIPLES, byte_halves, codes_of, outputs_of, pack, tiles_of

BITS: Final = {"int8": 8, "int4": 4}
_PREFILL: Final = 96  # rows; verifications have fewer, and agree with steps but for rounding
_PEAK: Final = 16.0  # largest number of a row over its root mean square; a row beyond takes 15 bits
_WEIGHTS_AT_ONCE: Final = 1 << 23  # turned back at a time
_TRIED: Final = (64, 256)  # outputs and inputs of the layer by which a product is tried


class PackedLinear(nn.Module):
    """x W^T + b, with W in four or eight bits.

    Eight bits: one scale per output, symmetric. Four bits: one scale and one zero point per output and group of 32
    inputs, so that a weight is (code - 8) scale + zero. The scales of an output are whole multiples of one step, a
    sixteenth of the largest scale. So (code - 8) multiple is the weight without its zero point in eight bits, and the
    step is the one scale of its output.

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
        """One layer with the outputs of several, which have the same inputs and bits.

        The weights of the given layers become views of the joined ones.
        """
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
        """Rows [n, inputs] times the weights: [n, outputs]."""
        if self.bits == 8:  # compiled, one kernel
            return rows @ self.weight.T.to(rows.dtype) * self.scales
        tiles = tiles_of(self.in_features)
        tiled = self.weight.view(torch.int32).view(self.out_features // 8, -1, 32, tiles // 2)
        made: torch.Tensor = torch.ops.aten._weight_int4pack_mm(rows, tiled, GROUP, self.scales.contiguous())
        return made

    def _on_cpu(self, rows: torch.Tensor) -> torch.Tensor:
        # up to so many rows PyTorch's kernels are faster, measured on a Xeon; in float32 they are slow
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
        each = over_threads()
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
            halves = codes_of(self.weight[piece], self.in_features), byte_halves(scales), byte_halves(made[:, piece])
            for codes, scale, place in zip(*halves, strict=True):
                if in_int8 is not None:
                    found = in_int8(*_codes_in_int8(codes, scale.float().flatten(1)))
                else:
                    found = x @ codes.to(x.dtype).mul_(scale.flatten(1)[:, None]).view(self.in_features, -1)
                place.copy_(found.view(place.shape))
            made[:, piece].addmm_(sums, zeros.to(x.dtype))

        step = outputs_of(self.in_features, min(_WEIGHTS_AT_ONCE, self.weight.nelement() // torch.get_num_threads()))
        list(each(multiply, range(0, self.out_features, step)))
        return made.mul_(self.scales) if self.bits == 8 else made


def _codes_in_int8(codes: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights code x scale in eight bits with one scale per output: (int8 [inputs, n], float32 [n]).

    Codes are int8 [inputs / 32, 32, n], -8 to 7, and overwritten; scales are float32 [inputs / 32, n].
    """
    steps = scales.amax(0) / MULTIPLES
    return codes.mul_((scales / steps).round_().to(torch.int8)[:, None]).flatten(0, 1), steps


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
    return {name: part for name, part in layers if part.in_features % GROUP == part.out_features % BLOCK == 0}


def empty_packed(module: Any, bits: int, whole: Container[str] = ()) -> None:
    """Replaces all packable layers by packed ones without values, except those named in `whole`."""
    for name, linear in packable(module).items():
        if name not in whole:
            module.set_submodule(name, PackedLinear(linear, bits))
