"""Weight-only quantisation, through the libraries that transformers supports."""

from __future__ import annotations

from typing import Any

import torch

from specdec_cli.errors import CheckpointError
from specdec_cli.models.checkpoint import require_packages


def quantization_config(name: str | None, device: torch.device) -> Any | None:
    """The `quantization_config` of `from_pretrained` for "int8" (torchao) or "int4" (bitsandbytes nf4, CUDA only).

    Raises:
        CheckpointError: the library is not installed, or does not run on `device`.
    """
    if name is None:
        return None
    if name == "int8":
        require_packages(f"quantization {name!r}", ("torchao",))
        from torchao.quantization import Int8WeightOnlyConfig
        from transformers import TorchAoConfig

        return TorchAoConfig(Int8WeightOnlyConfig())
    if device.type != "cuda":
        raise CheckpointError(
            f"quantization 'int4' runs on CUDA only, and the device is {device}",
            hint="Use quantization: int8, which also runs on a CPU.",
        )
    require_packages(f"quantization {name!r}", ("bitsandbytes",))
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
