"""Packs a model while `from_pretrained` loads it, and keeps its packed weights for later starts."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from safetensors import SafetensorError
from transformers.core_model_loading import ConversionOps
from transformers.quantizers import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from specdec_cli.cache import cache_place
from specdec_cli.models.packed import PackedLinear, empty_packed, packable
from specdec_cli.models.packing import GROUP, MULTIPLES, pack

_log = logging.getLogger(__name__)

_METHOD: Final = "specdec_packed"
_MADE_WITH: Final = (_METHOD, GROUP, MULTIPLES, torch.__version__, transformers.__version__)
_SHARD: Final = "256MB"  # of a kept file, which is copied in memory while it is written


@register_quantization_config(_METHOD)
class PackedConfig(QuantizationConfigMixin):  # type: ignore[misc]
    """The `quantization_config` with which `from_pretrained` packs layers in 4 or 8 bits for a type of device.

    Each weight is read, packed and dropped before the next one is read.
    """

    def __init__(self, bits: int, device: str = "cpu", **_: Any) -> None:
        self.quant_method, self.bits, self.device = _METHOD, bits, device


@register_quantizer(_METHOD)
class _Quantizer(HfQuantizer):  # type: ignore[misc]
    requires_calibration = is_trainable = False

    def _process_model_before_weight_loading(self, model: Any, **_: Any) -> None:
        tied = {name.removesuffix(".weight") for name in model.all_tied_weights_keys}
        empty_packed(model, self.quantization_config.bits, whole=tied)

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> None:
        """Packs an output layer that shares its weight with the embedding, which stays whole."""
        for name, linear in packable(model).items():
            packed = PackedLinear(linear.to("meta"), self.quantization_config.bits)
            packed.weight, packed.scales = pack(model.get_input_embeddings().weight.data, packed.bits)
            model.set_submodule(name, packed)
            for config in (model.config, model.config.get_text_config(decoder=True)):
                config.tie_word_embeddings = False

    def param_needs_quantization(self, model: Any, param_name: str, **_: Any) -> bool:
        owner, _dot, name = param_name.rpartition(".")
        return name == "weight" and isinstance(model.get_submodule(owner), PackedLinear)

    def get_quantize_ops(self) -> ConversionOps:
        return _Packing(self.quantization_config.bits, self.quantization_config.device)

    def is_serializable(self) -> bool:
        return True


class _Packing(ConversionOps):  # type: ignore[misc]
    def __init__(self, bits: int, device: str) -> None:
        self.bits, self.device = bits, device

    def convert(self, input_dict: dict[str, Any], *, full_layer_name: str, **_: Any) -> dict[str, torch.Tensor]:
        (value,) = input_dict.values()
        whole = value[0] if isinstance(value, list) else value
        weight, scales = pack(whole.to(self.device) if self.device != whole.device.type else whole, self.bits)
        return {full_layer_name: weight, f"{full_layer_name.removesuffix('weight')}scales": scales}


def packed_folder(weights: Sequence[Path], config: Any, bits: int, dtype: torch.dtype) -> Path | None:
    """The folder that keeps the packed form of files of weights; None: there is no cache.

    Its name depends on the files' places, sizes and times of change (which no copy can set), on the configuration, and
    on the order in which the CPU's kernel reads weights.
    """
    files = [(str(path.resolve()), (of := path.stat()).st_size, of.st_mtime_ns, of.st_ctime_ns) for path in weights]
    capability = torch.backends.cpu.get_cpu_capability()
    return cache_place("packed", files, config.to_dict(), bits, dtype, capability, _MADE_WITH)


def keep_packed(module: Any, folder: Path) -> None:
    """Writes a packed model for later starts, whole or not at all. A failure is a warning in the log."""
    home = folder.parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as made:
            module.save_pretrained(Path(made) / folder.name, max_shard_size=_SHARD)
            (Path(made) / folder.name).rename(folder)
    except (OSError, SafetensorError) as error:
        if not folder.is_dir():  # another run may have kept them meanwhile
            _log.warning("packed weights are not kept for later starts in %s: %s", home, error)
