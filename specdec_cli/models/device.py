"""Where a model runs and in which number format."""

from __future__ import annotations

import torch

from specdec_cli.errors import ConfigError

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def resolve_device(name: str) -> torch.device:
    """The device called `name`; "auto" means cuda, then mps, then cpu.

    Raises:
        ConfigError: the device does not exist on this machine.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device {name!r} was asked for, but this PyTorch sees no CUDA GPU", hint=_HINT)
    if device.type == "cuda" and device.index is not None and device.index >= torch.cuda.device_count():
        raise ConfigError(f"device {name!r} was asked for, but there are {torch.cuda.device_count()} GPUs", hint=_HINT)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device 'mps' was asked for, but this PyTorch has no Apple GPU support", hint=_HINT)
    return device


def resolve_dtype(name: str, device: torch.device, stored: torch.dtype | None) -> torch.dtype:
    """The dtype called `name`; "auto" means the checkpoint's own, but float32 for half precision on a CPU.

    Args:
        name: "auto", "float32", "bfloat16" or "float16".
        device: where the model will run.
        stored: dtype that the checkpoint declares, None if it does not.
    """
    if name != "auto":
        return _DTYPES[name]
    if stored is None or (device.type == "cpu" and stored == torch.float16):
        return torch.float32
    return stored


_HINT = "Use device: auto, which takes what the machine has."
