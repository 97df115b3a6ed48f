"""Products of linear layers on a CPU, by kernels that are faster than PyTorch's own choice for many rows.

In float32 PyTorch multiplies by MKL, which on processors of other makers than Intel runs at less than half of the speed
of oneDNN; both are part of PyTorch, and differ in rounding alone. An x86 processor without AVX-512 multiplies 16-bit
numbers by reference loops, 5 to 50 times slower than float32, so that many rows are multiplied in float32 there.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from torch import nn

Product: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

_MANY_ROWS: Final = 128  # for fewer, a call of oneDNN costs more than it saves
_MANY_16_BIT_ROWS: Final = 16  # for fewer, turning the weights into float32 is most of the work
_ACTIVATIONS_AT_ONCE: Final = 1 << 18  # rounded to int8 while they are in the processor's cache
_WEIGHTS_AT_ONCE: Final = 1 << 22  # turned into float32 at a time
_LEAST_SCALE: Final = 1e-8


class FastLinear(nn.Linear):
    """x W^T + b, with weight and bias of the layer that it replaces."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.train(linear.training)
        self.product: Product | None  # for inputs of `least_rows` rows or more; None: `nn.Linear`'s own serves all
        if linear.weight.dtype == torch.float32:
            self.product, self.least_rows = _by_onednn(linear), _MANY_ROWS
        else:
            self.product, self.least_rows = _in_float32(linear), _MANY_16_BIT_ROWS

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.product is None or x.numel() < self.least_rows * self.in_features:
            return super().forward(x)
        return self.product(x)


def replace_layers(module: Any) -> None:
    """Makes every linear layer on a CPU a `FastLinear`, and runs 16-bit convolutions in float32 if that is faster."""
    for name, part in list(module.named_modules()):
        if type(part) is nn.Linear and part.weight.device.type == "cpu" and not hasattr(part, "_hf_hook"):
            module.set_submodule(name, FastLinear(part))
        elif isinstance(part, nn.Conv1d | nn.Conv2d) and _is_slow(part.weight):
            # its forward stays: a subclass may pad there
            part._conv_forward = partial(_convolution_in_float32, part._conv_forward)  # type: ignore[method-assign]


def decoder_layers(module: Any) -> dict[str, nn.Linear]:
    """The linear layers of the decoder and the output layer, by name; all others are the audio encoder's."""
    inside = {*module.get_decoder().modules(), module.get_output_embeddings()}
    return {name: part for name, part in module.named_modules() if isinstance(part, nn.Linear) and part in inside}


def _by_onednn(layer: nn.Linear) -> Product | None:
    if not _onednn_is_faster():
        return None
    multiply = torch.ops.mkldnn._linear_pointwise
    # activations that are not contiguous would take a reference kernel, many times slower
    return lambda x: multiply(x.contiguous(), layer.weight, layer.bias, "none", [], "")


def _in_float32(layer: nn.Linear) -> Product | None:
    if not _is_slow(layer.weight):
        return None
    outputs = max(1, _WEIGHTS_AT_ONCE // layer.in_features)

    def product(x: torch.Tensor) -> torch.Tensor:
        wide, parts = x.float(), torch.split(layer.weight, outputs)
        made = torch.cat([nn.functional.linear(wide, part.float()) for part in parts], dim=-1)
        return (made if layer.bias is None else made.add_(layer.bias)).to(x.dtype)

    return product


def _convolution_in_float32(
    convolve: Callable[..., torch.Tensor], x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    return convolve(x.float(), weight.float(), None if bias is None else bias.float()).to(x.dtype)


def int8_product(
    x: torch.Tensor, peak: float, each: Callable[..., Iterable[Any]]
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Rounds activations to int8, with one scale per row; returns their product with weights.

    Args:
        x: activations [rows, inputs].
        peak: rows whose largest number is beyond `peak` times their root mean square are multiplied in 15 bits.
        each: a `map` in this thread, or over several (`over_threads`).

    Returns:
        A function: weights int8 [inputs, n] and their scales [n] to float32 [rows, n].
    """
    parts = each(_rows_in_int8, torch.split(x, max(1, _ACTIVATIONS_AT_ONCE // x.shape[1])))
    codes, scales = (torch.cat(part) for part in zip(*parts, strict=True))
    count = len(x)
    spreads = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float32) / math.sqrt(x.shape[1])
    peaked = (scales * 127 > spreads * peak).nonzero()[:, 0]
    rest, fine = _rows_in_int8(x[peaked].float() - codes[peaked] * scales[peaked])
    codes, scales = torch.cat([codes, rest]), torch.cat([scales, fine])

    def product(weights: torch.Tensor, of_weights: torch.Tensor) -> torch.Tensor:
        made = torch._int_mm(codes, weights).float().mul_(scales).mul_(of_weights)
        return made[:count].index_add_(0, peaked, made[count:]) if len(peaked) else made

    return product


def _rows_in_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rounds activations [rows, inputs]: codes int8 [rows, inputs] and scales float32 [rows, 1]."""
    x = x.float()
    scales = (x.abs().amax(dim=1, keepdim=True) / 127).clamp_(min=_LEAST_SCALE)
    return (x / scales).round_().to(torch.int8), scales


def over_threads() -> Callable[..., Iterable[Any]]:
    """A `map` over PyTorch's number of threads, for operations that are too short for PyTorch to divide."""
    threads, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()
    if threads == 1:
        return map
    return lambda function, parts: _workers(threads).map(torch.inference_mode(inference)(function), parts)


@cache
def _workers(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "specdec product", torch.set_num_threads, (1,))


def _is_slow(weight: torch.Tensor) -> bool:
    """Whether products with this weight are faster in float32."""
    return weight.device.type == "cpu" and weight.dtype != torch.float32 and lacks_16_bits()


def lacks_16_bits() -> bool:
    """Whether this is an x86 processor without AVX-512, for which PyTorch has only reference loops in 16 and 8 bits."""
    return _is_x86() and "AVX512" not in torch.backends.cpu.get_cpu_capability()


@cache
def has_int8() -> bool:
    """Whether this CPU multiplies int8 fast and exactly; without VNNI, sums overflow 16 bits."""
    large = torch.full((64, 64), 127, dtype=torch.int8)
    return not lacks_16_bits() and bool((torch._int_mm(large, large) == 64 * 127 * 127).all())


@cache
def _onednn_is_faster() -> bool:
    """Whether this is an x86 processor that Intel did not make. MKL uses slower kernels for those."""
    cpuinfo = Path("/proc/cpuinfo")
    described = cpuinfo.read_text(errors="replace") if cpuinfo.is_file() else platform.processor()
    return _is_x86() and hasattr(torch.ops.mkldnn, "_linear_pointwise") and "GenuineIntel" not in described


def _is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")
