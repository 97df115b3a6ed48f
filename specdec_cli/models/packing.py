"""Loading a checkpoint with packed weights through transformers, and keeping them for later starts.

`PackedConfig` is a `quantization_config` for `from_pretrained`, which then reads, packs and drops one weight after the
other.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import save_file
from transformers.core_model_loading import ConversionOps, revert_weight_conversion
from transformers.quantizers import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from specdec_cli.cache import cache_folder
from specdec_cli.models.families import prune
from specdec_cli.models.packed import GROUP, MULTIPLES, PackedLinear, pack, packable

_METHOD: Final = "specdec_packed"
_WORTH_KEEPING: Final = 1 << 26  # bytes; less is packed in no time
_FILE: Final = 1 << 28  # bytes of a kept file
_DONTNEED: Final = 4  # of Linux: it is not read again, and may be lost
_PAGEOUT: Final = 21  # it is read again later, if ever


def _advise(tensor: torch.Tensor, advice: int) -> None:
    """Tells the system what will become of the pages of a tensor: those of a mapped file would stay in memory.

    Without effect where there is no madvise. A tensor that is not contiguous is left alone: between its numbers lie
    those of others.
    """
    page = mmap.PAGESIZE
    start = -(-tensor.data_ptr() // page) * page
    length = (tensor.data_ptr() + tensor.nbytes) // page * page - start
    if length > 0 and tensor.is_contiguous() and sys.platform == "linux":
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), advice)


def free_heap() -> None:
    """Hands freed memory back to the system, of which the C library would keep hundreds of megabytes in pieces."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


@register_quantization_config(_METHOD)
class PackedConfig(QuantizationConfigMixin):  # type: ignore[misc]
    """Asks `from_pretrained` for layers of 4 or 8 bits, without the parameters that have `unused` prefixes."""

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
        _advise(whole, _DONTNEED)
        return {full_layer_name: weight, f"{full_layer_name.removesuffix('weight')}scales": scales}


def packed_folder(weights: str, bits: int, dtype: torch.dtype) -> Path:
    """Where the packed form of a checkpoint is kept, by the fingerprint of its weights; the order is the CPU's."""
    way = (
        weights,
        bits,
        (GROUP, MULTIPLES),
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
            _write(module, inside)
            os.replace(inside, folder)
        return True
    return False


def _write(module: Any, folder: Path) -> None:
    """As `save_pretrained` does, but lets the pages of mapped weights go between two files: it would hold them all."""
    for part in (module.config, module.generation_config):
        part.save_pretrained(folder)
    weights = revert_weight_conversion(module, module.state_dict())
    split = split_torch_state_dict_into_shards(weights, max_shard_size=_FILE)
    for file, names in split.filename_to_tensors.items():
        save_file({name: weights[name].contiguous() for name in names}, folder / file, {"format": "pt"})
        for name in names:
            _advise(weights[name], _PAGEOUT)
    index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
    if split.is_sharded:
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
