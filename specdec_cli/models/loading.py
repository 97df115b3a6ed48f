"""From a folder or a hub id to an `AudioLM`, or a refusal: nothing missing, nothing unexpected, nothing guessed."""

from __future__ import annotations

import logging
from typing import Any, Final

import torch
from transformers import AutoConfig, GenerationConfig, PreTrainedConfig

from specdec_cli.config.schema import ModelConfig
from specdec_cli.errors import CheckpointError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.checkpoint import (
    checkpoint_folder,
    loading_errors,
    require_complete,
    require_packages,
    require_parts,
    weights_fingerprint,
)
from specdec_cli.models.device import resolve_device, resolve_dtype
from specdec_cli.models.families import family_named, family_of
from specdec_cli.models.family import Family
from specdec_cli.models.processor import Processor
from specdec_cli.models.quantization import quantization_config
from specdec_cli.models.selftest import self_test

_log = logging.getLogger(__name__)

_GREEDY_ONLY: Final = {
    "num_beams": 1,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "bad_words_ids": None,
    "sequence_bias": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "begin_suppress_tokens": None,
    "exponential_decay_length_penalty": None,
    "guidance_scale": None,
    "penalty_alpha": None,
    "dola_layers": None,
    "watermarking_config": None,
    "min_length": 0,
}
"""What a generation_config.json may not ask for, as specdec's loop has no such step, and its value where it is off."""


def load_model(config: ModelConfig, *, offline: bool, tested: bool = True) -> AudioLM:
    """Loads one configured model, in the layout of the hub or as transformers saves it.

    Args:
        config: which model, and how.
        offline: never ask a hub.
        tested: run the self-test, or look up its result; see `models.selftest`.

    Raises:
        CheckpointError: not found, of another family, incomplete, in a format that is not loaded, or failing the
            self-test.
    """
    source = checkpoint_folder(config.source, config.label)
    device = resolve_device(config.device)
    common = _common(config, offline)
    with loading_errors(config.label, config.source, offline=offline):
        family, model_config = _identify(config, source, common)
        processor = _processor(config, source, family, model_config, common)
        _log.debug("loading %s as %s", source, family.name)
        loaded: Any = family.module_class().from_pretrained(
            source,
            dtype=resolve_dtype(config.dtype, device, _stored_dtype(model_config)),
            attn_implementation=_attention(config.attention, family, model_config),
            device_map=config.device_map or (None if device.type == "cpu" else {"": device}),
            quantization_config=quantization_config(config.quantization, device),
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # reported below, with the names
            output_loading_info=True,
            **common,
        )
    module, info = loaded
    require_complete(config.label, info, ignored=family.unused)
    module = module.eval().requires_grad_(False)
    family.prune(module)
    if config.compile is not None:
        module.get_decoder().compile(dynamic=True)
    model = AudioLM(module, processor, weights=weights_fingerprint(source, config.revision), compiled=config.compile)
    if tested:
        self_test(model, quantization=config.quantization)
    return model


def load_processor(config: ModelConfig, *, offline: bool) -> Processor:
    """Loads tokenizer, feature extractor and chat template alone, for a cloud that runs elsewhere.

    Raises:
        CheckpointError: they are not there, or do not fit together.
    """
    source = checkpoint_folder(config.source, config.label, weights=False)
    common = _common(config, offline)
    with loading_errors(config.label, config.source, offline=offline):
        family, model_config = _identify(config, source, common)
        return _processor(config, source, family, model_config, common)


def _common(config: ModelConfig, offline: bool) -> dict[str, Any]:
    return {
        "local_files_only": offline,
        "revision": config.revision or "main",
        "trust_remote_code": False,  # unset, transformers would ask on the terminal
    }


def _identify(config: ModelConfig, source: str, common: dict[str, Any]) -> tuple[Family, Any]:
    """The family of a checkpoint, and the configuration of the part of it that is loaded."""
    raw, _ = PreTrainedConfig.get_config_dict(source, **common)
    declared = str(raw.get("model_type"))
    family = family_of(declared) if config.family == "auto" else family_named(config.family)
    if config.family != "auto" and declared not in family.model_types:
        raise CheckpointError(
            f"{config.label} holds a model of type {declared!r}, but the family {family.name!r} loads "
            f"{sorted(family.model_types)}",
            hint="Leave `family` at auto, or point `model` at another checkpoint.",
        )
    require_parts(config.label, raw, family.parts_needed)
    require_packages(config.label, family.needs)
    family.refuse(config.label, raw)
    whole = AutoConfig.from_pretrained(source, **common)
    return family, getattr(whole, "thinker_config", whole)


def _processor(
    config: ModelConfig, source: str, family: Family, model_config: Any, common: dict[str, Any]
) -> Processor:
    parts = family.processor(source, **common)
    try:
        generation = GenerationConfig.from_pretrained(source, **common)
    except OSError:
        generation = GenerationConfig.from_model_config(model_config)
    for name, off in _GREEDY_ONLY.items():
        if getattr(generation, name, None) not in (None, off, [], False):
            raise CheckpointError(
                f"the generation_config.json of {config.label} asks for {name} {getattr(generation, name)!r}, "
                "which specdec does not apply",
                hint=f"Take {name} out of a copy of that file; the text then differs from the publisher's generate().",
            )
    return Processor(config.label, family, parts, model_config, generation)


def _attention(wanted: str, family: Family, model_config: Any) -> str | dict[str, str]:
    """The attention of every part of a model, where some of them have one kind only."""
    if not family.eager:
        return wanted
    return {"": wanted, **dict.fromkeys(model_config.sub_configs, wanted), **dict.fromkeys(family.eager, "eager")}


def _stored_dtype(config: Any) -> torch.dtype | None:
    dtype = getattr(config, "dtype", None)
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype, None)
    return dtype if isinstance(dtype, torch.dtype) else None
