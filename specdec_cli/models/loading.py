"""From a folder or a hub id to an `AudioLM`, or a refusal: nothing missing, nothing unexpected, nothing guessed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, GenerationConfig, PreTrainedConfig
from transformers.utils import GENERATION_CONFIG_NAME

from specdec_cli.config.schema import ModelConfig
from specdec_cli.errors import CheckpointError, ConfigError, first_line
from specdec_cli.imports import deferring
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.checkpoint import checkpoint_folder, fingerprint, loading_errors, require_complete, weight_files
from specdec_cli.models.families import family_named, family_of, prune
from specdec_cli.models.packed import BITS
from specdec_cli.models.packing import PackedConfig, free_heap, keep_packed, packed_folder
from specdec_cli.models.processor import Processor
from specdec_cli.models.selftest import self_test

_log = logging.getLogger(__name__)

_MOST_COMPILED: Final = 64  # forms of one function
_DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_HERE: Final = {"local_files_only": True, "trust_remote_code": False}  # unset, it would ask on the terminal
_GREEDY_ONLY: Final = {
    "num_beams": 1,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    **dict.fromkeys(("bad_words_ids", "sequence_bias", "forced_bos_token_id", "forced_eos_token_id")),
    **dict.fromkeys(("begin_suppress_tokens", "exponential_decay_length_penalty", "guidance_scale")),
    **dict.fromkeys(("penalty_alpha", "dola_layers", "watermarking_config")),
}
"""What a generation_config.json may not ask for, as specdec's loop has no such step, and its value where it is off."""


def load_model(config: ModelConfig, *, offline: bool, tested: bool = True) -> AudioLM:
    """Loads and tests one configured model.

    Raises CheckpointError: not found, of another family or format, incomplete, or failing the self-test.
    """
    device = resolve_device(config.device)
    with loading_errors(config, offline=offline), deferring():  # some modules are imported when they are first used
        folder = checkpoint_folder(config, offline=offline)
        processor = _front_end(config, str(folder))
        family, model_config = processor.family, processor.config
        weights = fingerprint(weight_files(config.label, folder))
        dtype = resolve_dtype(config.dtype, device, model_config.dtype)
        quantization = quantization_config(config.quantization, device, family.unused)
        packed = None
        if isinstance(quantization, PackedConfig):
            packed = packed_folder(weights, quantization.bits, dtype)
            quantization = None if packed.is_dir() else quantization  # as its own config.json says
        attention: Any = config.attention
        if family.eager:  # of every part by its name
            parts = dict.fromkeys(("", *model_config.sub_configs), config.attention)
            attention = parts | dict.fromkeys(family.eager, "eager")
        _log.debug("loading %s as %s", folder, family.name)
        loaded: Any = family.module_class().from_pretrained(
            str(folder if packed is None or quantization else packed),
            dtype=dtype,
            attn_implementation=attention,
            device_map=config.device_map or (None if device.type == "cpu" else {"": device}),
            quantization_config=quantization,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # reported below, with the names
            output_loading_info=True,
            **_HERE,
        )
    module, info = loaded
    require_complete(config.label, info, ignored=family.unused)
    module = module.eval().requires_grad_(False)
    prune(module, family.unused)
    if packed is not None and quantization is not None and keep_packed(module, packed):
        del loaded, module  # and map the files, as a later start does
        free_heap()
        return load_model(config, offline=offline, tested=tested)
    if config.compile is not None:
        from torch._dynamo import config as compiler

        # By default eight forms of one function are compiled; edge and cloud share theirs, and each takes about seven.
        compiler.recompile_limit = max(compiler.recompile_limit, _MOST_COMPILED)
        module.get_decoder().compile(dynamic=True)
    how = {"compiled": config.compile, "quantization": config.quantization, "encoder_dtype": config.encoder_dtype}
    model = AudioLM(module, processor, weights=weights, **how)
    if tested:
        self_test(model, folder)
    return model


def load_processor(config: ModelConfig, *, offline: bool) -> Processor:
    """Loads tokenizer, feature extractor and chat template alone, for a cloud that runs elsewhere."""
    with loading_errors(config, offline=offline):
        folder = checkpoint_folder(config, offline=offline, weights=False)
        return _front_end(config, str(folder))


def _front_end(config: ModelConfig, source: str) -> Processor:
    raw, _ = PreTrainedConfig.get_config_dict(source, **_HERE)
    declared = str(raw.get("model_type"))
    family = family_of(declared) if config.family == "auto" else family_named(config.family)
    if config.family != "auto" and declared not in family.model_types:
        raise CheckpointError(
            f"{config.label} holds a model of type {declared!r}, but the family {family.name!r} loads "
            f"{sorted(family.model_types)}",
            hint="Leave `family` at auto, or point `model` at another checkpoint.",
        )
    if absent := [package for package in family.needs if find_spec(package.replace("-", "_")) is None]:
        says = f"{config.label} needs the package {absent[0]}, which is not installed"
        raise CheckpointError(says, hint=f"Install it with: pip install {' '.join(absent)}")
    if raw.get("has_lora_adapter"):  # Granite's: `generate()` switches it on and off, which a forward does not
        raise CheckpointError(
            f"{config.label} has a LoRA adapter for audio, which specdec does not load",
            hint="Use a checkpoint whose adapter is merged into the weights (has_lora_adapter: false).",
        )
    whole = AutoConfig.from_pretrained(source, **_HERE)
    model_config = getattr(whole, "thinker_config", whole)
    parts = family.processor(source, **_HERE)
    if (Path(source) / GENERATION_CONFIG_NAME).is_file():
        generation = GenerationConfig.from_pretrained(source, **_HERE)
    else:
        generation = GenerationConfig.from_model_config(model_config)
    for name, off in _GREEDY_ONLY.items():
        if getattr(generation, name, None) not in (None, off, [], False):
            raise CheckpointError(
                f"the generation_config.json of {config.label} asks for {name} {getattr(generation, name)!r}, "
                "which specdec does not apply",
                hint=f"Take {name} out of a copy of that file; the text then differs from the publisher's generate().",
            )
    return Processor(config.label, family, parts, model_config, generation)


def resolve_device(name: str) -> torch.device:
    """The device called `name`; "auto" means cuda, then mps, then cpu. Raises ConfigError if there is no such one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(name)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # as each backend likes
        says = first_line(error).partition(". ")[0]  # a page follows
        hint = "Use device: auto, which takes what the machine has."
        raise ConfigError(f"device {name!r} cannot be used: {says}", hint=hint) from error
    if device.type == "cuda":  # convolutions would round float32 to ten bits, which products do not
        torch.backends.cudnn.allow_tf32 = False
    return device


def resolve_dtype(name: str, device: torch.device, stored: torch.dtype | None) -> torch.dtype:
    """The dtype called `name`; "auto" means the one that the checkpoint declares, but float32 for float16 on a CPU."""
    if name != "auto":
        return _DTYPES[name]
    if stored is None or (device.type == "cpu" and stored == torch.float16):
        return torch.float32
    return stored


def quantization_config(name: str | None, device: torch.device, unused: Sequence[str] = ()) -> Any | None:
    """The `quantization_config` of `from_pretrained` for "int8" or "int4", without parameters of `unused` prefixes.

    On a CPU both are specdec's own (`models.packing`); elsewhere torchao's and, on CUDA, bitsandbytes' nf4.
    """
    if name is None:
        return None
    if device.type == "cpu":
        return PackedConfig(BITS[name], list(unused))
    if name == "int8":
        from torchao.quantization import Int8WeightOnlyConfig
        from transformers import TorchAoConfig

        return TorchAoConfig(Int8WeightOnlyConfig())
    if device.type != "cuda":
        raise CheckpointError(
            f"quantization 'int4' runs on CUDA and on CPUs, and the device is {device}",
            hint="Use quantization: int8, or device: cpu.",
        )
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
