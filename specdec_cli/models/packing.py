"""Loading a checkpoint with packed weights through transformers, and keeping them for later starts.

`PackedConfig` is a `quantization_config` for `from_pretrained`, which then reads, packs and drops one weight after the
other.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from safetensors import SafetensorError
from transformers.core_model_loading import ConversionOps
from transformers.quantizers import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from specdec_cli.cache import cache_folder
from specdec_cli.models.families import prune
from specdec_cli.models.packed import GROUP, MULTIPLES, PackedLinear, pack, packable

_log = logging.getLogger(__name__)

_METHOD: Final = "specdec_packed"
_MADE_WITH: Final = (_METHOD, GROUP, MULTIPLES, torch.__version__, transformers.__version__)
_DIGESTS: Final = "digests.json"
_UNFINISHED: Final = "unfinished-"
_DAY_S: Final = 86400.0
_WORTH_KEEPING: Final = 1 << 26  # bytes; less is packed in no time
_SHARD: Final = "256MB"  # of a kept file, which is copied in memory while it is written


def free_heap() -> None:
    """Hands freed memory back to the system, of which the C library would keep hundreds of megabytes in pieces."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


@register_quantization_config(_METHOD)
class PackedConfig(QuantizationConfigMixin):  # type: ignore[misc]
    """Lets `from_pretrained` make layers of 4 or 8 bits, without the parameters that have `unused` prefixes."""

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
        weight, scales = pack(value[0] if isinstance(value, list) else value, self.bits)
        return {full_layer_name: weight, f"{full_layer_name.removesuffix('weight')}scales": scales}


def packed_folder(weights: str, bits: int, dtype: torch.dtype) -> Path | None:
    """Where the packed form of a checkpoint is kept, by the fingerprint of its weights; the order is the CPU's.

    None where there is no cache.
    """
    way = (weights, bits, dtype, torch.backends.cpu.get_cpu_capability(), _MADE_WITH)
    home = cache_folder("packed")
    return home and home / hashlib.sha256(repr(way).encode()).hexdigest()[:32]


def is_whole(folder: Path) -> bool:
    """Whether a kept folder holds what was written there; a damaged one is removed, and has to be packed again.

    Every byte is read, which takes about a second for a gigabyte: a sample would miss what was zeroed, and decoding
    reads them all for its first token anyway. CRC-32 finds damage at twice the speed of SHA-256; who may write here
    could replace any digest as well.
    """
    if not folder.is_dir():
        return False
    with suppress(OSError, ValueError):
        if json.loads((folder / _DIGESTS).read_text(encoding="utf-8")) == _digests(folder):
            with suppress(OSError):
                os.utime(folder)  # it was used
            return True
    _log.warning("the packed weights in %s are damaged, and are made again", folder)
    shutil.rmtree(folder, ignore_errors=True)
    return False


def keep_packed(module: Any, folder: Path) -> bool:
    """Writes a packed model for later starts, all of it or nothing; False where it is small or cannot be written.

    Removes weights that were not used for a month, and what a killed run left a day ago.
    """
    if sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers())) < _WORTH_KEEPING:
        return False
    home = folder.parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        for path in home.iterdir():
            days = 1 if path.name.startswith(_UNFINISHED) else 30
            if time.time() - path.stat().st_mtime > days * _DAY_S:
                shutil.rmtree(path, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=home, prefix=_UNFINISHED) as made:
            inside = Path(made) / folder.name
            module.save_pretrained(inside, max_shard_size=_SHARD)
            (inside / _DIGESTS).write_text(json.dumps(_digests(inside)), encoding="utf-8")
            inside.rename(folder)
        return True
    except (OSError, SafetensorError) as error:
        if is_whole(folder):  # another run has kept them meanwhile
            return True
        _log.warning("packed weights are not kept for later starts in %s: %s", home, error)
        return False


def _digests(folder: Path) -> dict[str, int]:
    """Name and CRC-32 of every file, but of that which holds them."""
    files = [path for path in folder.iterdir() if path.name != _DIGESTS]
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        return dict(zip((path.name for path in files), pool.map(_crc32, files), strict=True))


def _crc32(file: Path) -> int:
    value = 0
    with file.open("rb") as content:
        while part := content.read(1 << 20):
            value = zlib.crc32(part, value)
    return value
