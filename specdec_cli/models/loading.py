"""From a folder or a hub id to an `AudioLM`, or a refusal: nothing missing, nothing unexpected, nothing guessed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

import torch
from transformers import GenerationConfig
from transformers.utils import GENERATION_CONFIG_NAME

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError, ConfigError, first_line
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.checkpoint import HERE, Checkpoint, fingerprint, opened, stored_dtype
from specdec_cli.models.download import Download, Watch, plan, size
from specdec_cli.models.families import Family, prune
from specdec_cli.models.needs import Needs, needs, outline
from specdec_cli.models.packed import BITS
from specdec_cli.models.packing import PackedConfig, free_heap, is_whole, keep_packed, packed_folder
from specdec_cli.models.processor import Processor
from specdec_cli.models.selftest import self_test

_log = logging.getLogger(__name__)

_DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_GREEDY_ONLY: Final = {
    "num_beams": 1,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    **dict.fromkeys(("bad_words_ids", "sequence_bias", "forced_bos_token_id", "forced_eos_token_id")),
    **dict.fromkeys(("begin_suppress_tokens", "exponential_decay_length_penalty", "guidance_scale")),
    **dict.fromkeys(("penalty_alpha", "dola_layers", "watermarking_config")),
}
"""Settings of generation_config.json that specdec's loop does not apply, and the value at which each is off."""


def load_model(config: ModelConfig, *, offline: bool, tested: bool = True, watch: Watch | None = None) -> AudioLM:
    """Loads and tests one configured model; `watch` is called while its weights are downloaded.

    Raises CheckpointError: not found, of another family or format, incomplete, or failing the self-test.
    """
    device = resolve_device(config.device)
    with opened(config, offline=offline) as checkpoint:
        if checkpoint.downloads:
            _require_memory(needs(checkpoint, device, _dtype(checkpoint, device)))
        checkpoint.fetch(watch)
        processor = _processor(checkpoint)
        weights = fingerprint(checkpoint.weights)
        module = _module(checkpoint, device, weights)
    how = {"quantization": config.quantization, "encoder_dtype": config.encoder_dtype}
    model = AudioLM(module, processor, weights=weights, graphs=config.graphs, **how)
    if tested:
        self_test(model, checkpoint.folder)
    return model


def forecast(config: ModelConfig, *, offline: bool) -> tuple[Needs, Download | None]:
    """What a configured model would take of memory, and what it would download; nothing is loaded.

    Raises CheckpointError: not found, or refused by its configuration. Small files of a hub checkpoint are downloaded.
    """
    device = resolve_device(config.device)
    with opened(config, offline=offline) as checkpoint:
        download = None
        if checkpoint.downloads:
            names = [path.name for path in checkpoint.weights]
            download = plan(config.source, config.revision, checkpoint.folder, names)
        return needs(checkpoint, device, _dtype(checkpoint, device)), download


def load_processor(config: ModelConfig, *, offline: bool) -> Processor:
    """Loads only tokenizer, feature extractor and chat template, for a cloud that runs elsewhere."""
    with opened(config, offline=offline) as checkpoint:
        return _processor(checkpoint)


def _require_memory(found: Needs) -> None:
    """Raises CheckpointError if a model can never run on its device, so that nothing is downloaded in vain."""
    if found.bytes > found.total and found.config.device_map is None:
        raise CheckpointError(
            f"{found.config.label} was not downloaded: it would take {size(found.bytes)} of memory, and {found.device} "
            f"has {size(found.total)} in all",
            hint=f"Instead: {found.advice(found.total)}.",
        )


def _module(checkpoint: Checkpoint, device: torch.device, weights: str) -> Any:
    """The module in evaluation mode; one that is packed for a CPU out of the cache, if it can be kept there."""
    config, dtype, kept = checkpoint.config, _dtype(checkpoint, device), None
    if config.quantization is not None and device.type == "cpu":
        kept = packed_folder(weights, BITS[config.quantization], dtype)
    if kept is not None and is_whole(kept):
        return _build(checkpoint, device, dtype, kept, packed=True)
    with checkpoint.loadable() as source:
        module = _build(checkpoint, device, dtype, source)
    if kept is not None and keep_packed(module, kept):
        del module  # and map the files, as a later start does
        free_heap()
        module = _build(checkpoint, device, dtype, kept, packed=True)
    return module


def _build(
    checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype, source: Path, *, packed: bool = False
) -> Any:
    """The module of a folder; `packed`: the weights are already packed, by its config.json."""
    config, family, module_config = checkpoint.config, checkpoint.family, checkpoint.module_config
    attention: Any = config.attention
    if family.eager:  # of every part by its name
        parts = dict.fromkeys(("", *module_config.sub_configs), config.attention)
        attention = parts | dict.fromkeys(family.eager, "eager")
    quantization = None if packed else quantization_config(config.quantization, device, family, module_config)
    _log.debug("loading %s as %s", source, family.name)
    module, info = family.module_class().from_pretrained(
        str(source),
        dtype=dtype,
        attn_implementation=attention,
        device_map=config.device_map or (None if device.type == "cpu" else {"": device}),
        quantization_config=quantization,
        use_safetensors=True,
        ignore_mismatched_sizes=True,  # reported below, with the names
        output_loading_info=True,
        **HERE,
    )
    checkpoint.require_complete(info)
    prune(module, family.unused)
    return module.eval().requires_grad_(False)


def _processor(checkpoint: Checkpoint) -> Processor:
    label, source = checkpoint.config.label, str(checkpoint.folder)
    parts = checkpoint.family.processor(source, **HERE)
    if (checkpoint.folder / GENERATION_CONFIG_NAME).is_file():
        generation = GenerationConfig.from_pretrained(source, **HERE)
    else:
        generation = GenerationConfig.from_model_config(checkpoint.module_config)
    for name, off in _GREEDY_ONLY.items():
        if getattr(generation, name, None) not in (None, off, [], False):
            raise CheckpointError(
                f"the generation_config.json of {label} sets {name} to {getattr(generation, name)!r}, "
                "which specdec does not apply",
                hint=f"Take {name} out of a copy of that file; the text then differs from the publisher's generate().",
            )
    return Processor(label, checkpoint.family, parts, checkpoint.module_config, generation)


def _dtype(checkpoint: Checkpoint, device: torch.device) -> torch.dtype:
    """The number format of the weights: before they are downloaded, as far as the configuration tells."""
    declared = checkpoint.module_config
    if not checkpoint.complete:
        stored = getattr(declared.get_text_config(decoder=True), "dtype", None)
    else:
        stored = stored_dtype(checkpoint.weights)
    return resolve_dtype(checkpoint.config.dtype, device, declared.dtype, stored)


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
    return device


def resolve_dtype(
    name: str, device: torch.device, declared: torch.dtype | None, stored: torch.dtype | None = None
) -> torch.dtype:
    """The dtype called `name`; "auto" means the declared one, or that of the `stored` weights where it is narrower.

    Some checkpoints declare none, or float32 for weights in bfloat16. On a CPU, auto is float32 instead of float16.
    """
    if name != "auto":
        return _DTYPES[name]
    given = [dtype for dtype in (declared, stored) if dtype is not None]
    dtype = min(given, key=lambda each: each.itemsize, default=torch.float32)
    return torch.float32 if device.type == "cpu" and dtype == torch.float16 else dtype


def quantization_config(name: str | None, device: torch.device, family: Family, model_config: Any) -> Any | None:
    """The `quantization_config` of `from_pretrained` for "int8" or "int4": of the decoder and the output layer.

    On a CPU both are specdec's own (`models.packing`); elsewhere torchao's and, on CUDA, bitsandbytes' nf4, which leave
    an output layer whole that shares its weight with the embedding.
    """
    if name is None:
        return None
    if device.type == "cpu":
        return PackedConfig(BITS[name], list(family.unused))
    if name == "int8":
        from torchao.quantization import Int8WeightOnlyConfig
        from transformers import TorchAoConfig

        return TorchAoConfig(Int8WeightOnlyConfig(), modules_to_not_convert=kept_whole(family, model_config))
    if device.type != "cuda":
        raise CheckpointError(
            f"quantization 'int4' runs on CUDA and on CPUs, and the device is {device}",
            hint="Use quantization: int8, or device: cpu.",
        )
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
        llm_int8_skip_modules=kept_whole(family, model_config),
    )


def kept_whole(family: Family, model_config: Any) -> list[str]:
    """The parts of a module that are not quantised, each by its path: all but the decoder and the output layer."""
    module = outline(family, model_config)
    output = module.get_output_embeddings()
    inside = {id(part) for part in module.get_decoder().modules()}
    if output.weight is not module.get_input_embeddings().weight:
        inside.add(id(output))
    names: list[str] = []
    for name, part in module.named_modules():
        covered = any(name.startswith(f"{each}.") for each in names)
        if name and not covered and not any(id(each) in inside for each in part.modules()):
            names.append(name)
    return names
