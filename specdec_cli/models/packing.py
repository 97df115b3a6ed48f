"""Loading a checkpoint with packed weights through transformers, and keeping them for later starts.

`PackedConfig` is a `quantization_config` for `from_pretrained`, which then reads, packs and drops one weight after the
other.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
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
_WORTH_KEEPING: Final = 1 << 26  # bytes; less is packed in no time
_SHARD: Final = "256MB"  # of a kept file, which is copied in memory while it is written


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


def keep_packed(module: Any, folder: Path) -> None:
    """Writes a packed model for later starts, all of it or nothing."""
    if sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers())) < _WORTH_KEEPING:
        return
    home = folder.parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home, prefix="unfinished-") as made:
            inside = Path(made) / folder.name
            module.save_pretrained(inside, max_shard_size=_SHARD)
            inside.rename(folder)
    except (OSError, SafetensorError) as error:
        if not folder.is_dir():  # another run may have kept them meanwhile
            _log.warning("packed weights are not kept for later starts in %s: %s", home, error)
