"""Checkpoints that are of no use here, known by config.json: refused in words before a weight is downloaded or read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import transformers
from transformers import CONFIG_MAPPING

from specdec_cli.errors import CheckpointError

_QUANTIZED_NAME: Final = re.compile(r"-(AWQ|GPTQ|FP8|bnb|int4|int8)\b.*", re.IGNORECASE)
_RECURRENT: Final = ("mamba", "linear_attention", "recurrent", "ssm")
_GEMMA: Final = "google/gemma-4-E2B-it, google/gemma-4-E4B-it or google/gemma-4-12B-it"
_INSTEAD: Final = "Use an audio language model of one of the families that `specdec doctor` lists."


def refuse_unusable(name: str, raw: Mapping[str, Any]) -> None:
    """Raises CheckpointError if a checkpoint called `name` with this config.json cannot be loaded, and says why."""
    kind = str(raw.get("model_type"))
    sections = [raw, *(section for section in raw.values() if isinstance(section, Mapping))]
    if kind.endswith("_assistant"):
        says = f"is a drafting head ({kind}), which reads the cache of the model that it was trained with"
        raise CheckpointError(f"{name} {says}", hint=f"As the edge, use a whole model: {_GEMMA}.")
    if quantized := next((found for each in sections if (found := each.get("quantization_config"))), None):
        original = _QUANTIZED_NAME.sub("", name)
        beside = f" ({original})" if original != name else ""
        raise CheckpointError(
            f"{name} holds weights that its publisher quantised with {quantized.get('quant_method', 'a method')}, "
            "which specdec does not load",
            hint=f"Use the original checkpoint{beside} with quantization: int4, which packs it when it is loaded.",
        )
    if kind.startswith("gemma4") and not raw.get("audio_config"):
        raise CheckpointError(f"{name} has no audio encoder (audio_config is null)", hint=f"Use {_GEMMA}.")
    if kind == "gemma3n":
        says = "is a Gemma 3n, whose image tower cannot be left out and needs the packages timm and torchvision"
        raise CheckpointError(f"{name} {says}", hint=f"Use its successor: {_GEMMA}.")
    if kind == "granite_speech":
        _refuse_granite(name, raw)
    if kind == "phi4_multimodal":
        says = "reads speech through a LoRA adapter, which transformers' class does not switch on"
        raise CheckpointError(f"{name} {says}", hint=_INSTEAD)
    if any(_is_recurrent(section) for section in sections):
        says = "has recurrent layers, whose state cannot be rolled back after a rejected draft"
        raise CheckpointError(f"{name} {says}", hint="Use a model whose layers are all attention.")
    if kind not in CONFIG_MAPPING:
        says = f"is of type {kind!r}, which transformers {transformers.__version__} does not know"
        raise CheckpointError(f"{name} {says}", hint=f"{_INSTEAD} As a cloud it may run behind a vLLM server.")


def _refuse_granite(name: str, raw: Mapping[str, Any]) -> None:
    hint = "Use a Granite Speech 4, whose adapter is merged into the weights (has_lora_adapter: false)."
    projector = (raw.get("projector_config") or {}).get("model_type", "blip_2_qformer")
    if projector not in CONFIG_MAPPING:
        says = f"has a projector of type {projector!r}, which transformers {transformers.__version__} does not know"
        raise CheckpointError(f"{name} {says}", hint=hint)
    if raw.get("has_lora_adapter"):  # `generate()` switches it on and off, which a forward does not
        raise CheckpointError(f"{name} has a LoRA adapter for audio, which specdec does not load", hint=hint)


def _is_recurrent(section: Mapping[str, Any]) -> bool:
    layers = {*(section.get("layer_types") or ()), *(section.get("layers_block_type") or ())}
    return "hybrid_override_pattern" in section or any(word in str(kind) for kind in layers for word in _RECURRENT)
