"""Loading a checkpoint with packed weights through transformers, and keeping them for later starts.

`PackedConfig` is a `quantization_config` for `from_pretrained`, which then reads, packs and drops one weight after the
other.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import logging
import mmap
import os
import shutil
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from filelock import FileLock, Timeout
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors import SafetensorError
from safetensors.torch import save_file
from transformers.core_model_loading import ConversionOps, revert_weight_conversion
from transformers.quantizers import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from specdec_cli.cache import cache_folder
from specdec_cli.models.families import prune
from specdec_cli.models.packed import GROUP, MULTIPLES, PackedLinear, pack, packable

_log = logging.getLogger(__name__)

_METHOD: Final = "specdec_packed"
_MADE_WITH: Final = [_METHOD, GROUP, MULTIPLES, torch.__version__, transformers.__version__]
_DIGESTS: Final = "digests.json"
_UNFINISHED: Final = "unfinished-"
_UNUSED_S: Final = 30 * 86400.0
_WAIT_S: Final = 300.0  # while another run writes
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
    try:
        expected = json.loads((folder / _DIGESTS).read_text(encoding="utf-8"))["crc32"]
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            found = dict(pool.map(_crc32, [path for path in folder.iterdir() if path.name != _DIGESTS]))
        if found == expected:
            with suppress(OSError):
                os.utime(folder)  # it was used
            return True
        says = ", ".join(sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        says = str(error)
    _log.warning("the packed weights in %s are damaged (%s), and are made again", folder, says)
    shutil.rmtree(folder, ignore_errors=True)
    return False


def keep_packed(module: Any, folder: Path) -> bool:
    """Writes a packed model for later starts, all of it or nothing; False where it is small or cannot be written.

    Removes what killed runs left, packed weights of other versions, and those that were not used for a month.
    """
    size = sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))
    if size < _WORTH_KEEPING:
        return False
    home = folder.parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(home / ".lock", timeout=_WAIT_S):  # so that no other run writes here
            for path in home.iterdir():
                if path.is_dir() and _is_stale(path):
                    shutil.rmtree(path, ignore_errors=True)
            if (free := shutil.disk_usage(home).free) < size:
                raise OSError(errno.ENOSPC, f"{size >> 20} MiB needed, {free >> 20} MiB free")
            with tempfile.TemporaryDirectory(dir=home, prefix=_UNFINISHED) as made:
                inside = Path(made) / folder.name
                _write(module, inside)
                digests = {"made_with": _MADE_WITH, "crc32": dict(map(_crc32, inside.iterdir()))}
                (inside / _DIGESTS).write_text(json.dumps(digests), encoding="utf-8")
                os.replace(inside, folder)
        return True
    except (OSError, SafetensorError, Timeout) as error:
        _log.warning("packed weights are not kept for later starts in %s: %s", home, error)
        return False


def _is_stale(folder: Path) -> bool:
    """Whether a folder is what a killed run left, of other versions, or unused for a month."""
    if folder.name.startswith(_UNFINISHED):
        return True
    try:
        made_with = json.loads((folder / _DIGESTS).read_text(encoding="utf-8"))["made_with"]
        return bool(made_with != _MADE_WITH or time.time() - folder.stat().st_mtime > _UNUSED_S)
    except (OSError, ValueError, KeyError, TypeError):
        return True


def _crc32(file: Path) -> tuple[str, int]:
    """Name and CRC-32 of a file."""
    value = 0
    with file.open("rb") as content:
        while part := content.read(1 << 20):
            value = zlib.crc32(part, value)
    return file.name, value


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
