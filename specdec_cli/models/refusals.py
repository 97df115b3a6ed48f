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
_FAMILIES: Final = "Use an audio language model of one of the families that `specdec doctor` lists."
_GEMMA: Final = "Use google/gemma-4-E2B-it, google/gemma-4-E4B-it or google/gemma-4-12B-it."


def refuse_unusable(name: str, raw: Mapping[str, Any]) -> None:
    """Raises CheckpointError if a checkpoint called `name` with this config.json cannot be loaded."""
    if found := _reason(name, raw):
        why, hint = found
        raise CheckpointError(f"{name} {why}", hint=hint)


def _reason(name: str, raw: Mapping[str, Any]) -> tuple[str, str] | None:
    """Why a checkpoint cannot be loaded, and what to do about it; None: nothing speaks against it."""
    kind = str(raw.get("model_type"))
    sections = [raw, *(section for section in raw.values() if isinstance(section, Mapping))]
    if kind.endswith("_assistant"):
        return f"is a drafting head ({kind}), which needs the cache of the model that it was trained with", _GEMMA
    if quantized := next((found for each in sections if (found := each.get("quantization_config"))), None):
        method, original = quantized.get("quant_method", "a method"), _QUANTIZED_NAME.sub("", name)
        return (
            f"holds weights that its publisher quantised with {method}, which specdec does not load",
            f"Use the original checkpoint ({original}) with quantization: int4, which packs it when it is loaded.",
        )
    if kind.startswith("gemma4") and not raw.get("audio_config"):
        return "has no audio encoder (audio_config is null)", _GEMMA
    if kind == "gemma3n":
        return "is a Gemma 3n, whose image tower cannot be left out and needs the packages timm and torchvision", _GEMMA
    if kind == "granite_speech" and raw.get("has_lora_adapter"):  # `generate()` switches it on, a forward does not
        hint = "Use a Granite Speech 4, whose adapter is merged into the weights (has_lora_adapter: false)."
        return "has a LoRA adapter for audio, which specdec does not load", hint
    if kind == "phi4_multimodal":
        return "encodes speech through a LoRA adapter, which transformers' class does not switch on", _FAMILIES
    if any(_is_recurrent(section) for section in sections):
        return "has recurrent layers, whose state cannot be rolled back after a rejected draft", _FAMILIES
    if kind not in CONFIG_MAPPING:
        hint = f"{_FAMILIES} As a cloud it may run behind a vLLM server."
        return f"is of type {kind!r}, which transformers {transformers.__version__} lacks", hint
    return None


def _is_recurrent(section: Mapping[str, Any]) -> bool:
    layers = {*(section.get("layer_types") or ()), *(section.get("layers_block_type") or ())}
    return "hybrid_override_pattern" in section or any(word in str(kind) for kind in layers for word in _RECURRENT)
