"""Packs a model in four bits while `from_pretrained` loads it."""

from __future__ import annotations

from typing import Any, Final

import torch
from transformers.core_model_loading import ConversionOps
from transformers.quantizers import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from specdec_cli.models.int4 import PackedLinear, empty_packed, pack, packable

_METHOD: Final = "specdec_int4"


@register_quantization_config(_METHOD)
class Int4Config(QuantizationConfigMixin):  # type: ignore[misc]
    """The `quantization_config` with which `from_pretrained` packs decoder and output layer for a CPU.

    Each weight is read, packed and dropped before the next one is read.
    """

    def __init__(self, **_: Any) -> None:
        self.quant_method = _METHOD


@register_quantizer(_METHOD)
class _Quantizer(HfQuantizer):  # type: ignore[misc]
    requires_calibration = is_trainable = False

    def _process_model_before_weight_loading(self, model: Any, **_: Any) -> None:
        empty_packed(model, whole={name.removesuffix(".weight") for name in model.all_tied_weights_keys})

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> None:
        """Packs an output layer that shares its weight with the embedding, which stays whole."""
        for name, linear in packable(model).items():
            packed = PackedLinear(linear.to("meta"))
            packed.weight, packed.scales = pack(model.get_input_embeddings().weight.data)
            model.set_submodule(name, packed)

    def param_needs_quantization(self, model: Any, param_name: str, **_: Any) -> bool:
        owner, _dot, name = param_name.rpartition(".")
        return name == "weight" and isinstance(model.get_submodule(owner), PackedLinear)

    def get_quantize_ops(self) -> ConversionOps:
        return _Packing()

    def is_serializable(self) -> bool:
        return False


class _Packing(ConversionOps):  # type: ignore[misc]
    def convert(self, input_dict: dict[str, Any], *, full_layer_name: str, **_: Any) -> dict[str, torch.Tensor]:
        (value,) = input_dict.values()
        weight, scales = pack(value[0] if isinstance(value, list) else value)
        return {full_layer_name: weight, f"{full_layer_name.removesuffix('weight')}scales": scales}
