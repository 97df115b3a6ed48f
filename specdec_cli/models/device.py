"""Where a model runs and in which number format, weight-only quantisation included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from specdec_cli.errors import CheckpointError, ConfigError, first_line

_DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def resolve_device(name: str) -> torch.device:
    """The device called `name`; "auto" means cuda, then mps, then cpu.

    Raises:
        ConfigError: the device does not exist on this machine.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(name)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # as each backend likes
        says = first_line(error).partition(". ")[0]  # a page follows
        hint = "Use device: auto, which takes what the machine has."
        raise ConfigError(f"device {name!r} cannot be used: {says}", hint=hint) from error
    if device.type == "cuda":  # convolutions would round float32 to ten bits, which products do not
        torch.backends.cudnn.allow_tf32 = False
    return device


def resolve_dtype(name: str, device: torch.device, stored: torch.dtype | None) -> torch.dtype:
    """The dtype called `name`; "auto" means the one that the checkpoint declares, but float32 for float16 on a CPU."""
    if name != "auto":
        return _DTYPES[name]
    if stored is None or (device.type == "cpu" and stored == torch.float16):
        return torch.float32
    return stored


def quantization_config(name: str | None, device: torch.device, unused: Sequence[str] = ()) -> Any | None:
    """The `quantization_config` of `from_pretrained` for "int8" or "int4".

    On a CPU both are specdec's own (`models.packing`); elsewhere torchao's and, on CUDA, bitsandbytes' nf4.

    Args:
        name: as configured; None: no quantisation.
        device: where the model will run.
        unused: prefixes of parameters that are not wanted.

    Raises:
        CheckpointError: it does not run on `device`.
        ImportError: the library is not installed.
    """
    if name is None:
        return None
    if device.type == "cpu":
        from specdec_cli.models.packed import BITS
        from specdec_cli.models.packing import PackedConfig

        return PackedConfig(BITS[name], list(unused))
    if name == "int8":
        from torchao.quantization import Int8WeightOnlyConfig
        from transformers import TorchAoConfig

        return TorchAoConfig(Int8WeightOnlyConfig())
    if device.type != "cuda":
        raise CheckpointError(
            f"quantization 'int4' runs on CUDA and on CPUs, and the device is {device}",
            hint="Use quantization: int8, or device: cpu.",
        )
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
