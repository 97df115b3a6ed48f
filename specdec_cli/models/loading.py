"""Loads an `AudioLM` from a folder or a hub id, whole, or refuses it with the reason."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import dataclass
from typing import Any, Final

import psutil
import torch
from transformers import GenerationConfig
from transformers.utils import CONFIG_NAME, GENERATION_CONFIG_NAME

from specdec_cli.cache import user_folder
from specdec_cli.config import ModelConfig
from specdec_cli.config.schema import RuntimeConfig
from specdec_cli.errors import CheckpointError, first_line
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.checkpoint import LOCAL_ONLY, Checkpoint, fingerprint, open_checkpoint, stored_dtype
from specdec_cli.models.download import Compilation, Download, LoadWatch, fetch, plan, size
from specdec_cli.models.limits import outline, require_held
from specdec_cli.models.packed import BITS, PackedLinear, empty_packed, require_product
from specdec_cli.models.processor import Processor
from specdec_cli.models.quantizer import PackedConfig, keep_packed, packed_folder
from specdec_cli.models.selftest import self_test

_log = logging.getLogger(__name__)

_NOT_APPLIED: Final = {
    **dict.fromkeys(("num_beams", "encoder_repetition_penalty"), 1),
    **dict.fromkeys(("encoder_no_repeat_ngram_size", "min_length"), 0),
    **dict.fromkeys(("bad_words_ids", "sequence_bias", "forced_bos_token_id", "forced_eos_token_id")),
    **dict.fromkeys(("begin_suppress_tokens", "exponential_decay_length_penalty", "guidance_scale")),
    **dict.fromkeys(("penalty_alpha", "dola_layers", "watermarking_config")),
}
"""Settings of generation_config.json that the loop does not apply -> the value at which each is off, beside null."""
_OVERHEAD: Final = 1.1
"""Memory of a model over that of its weights: cache, activations and the library take about a tenth."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Memory of one model, in bytes."""

    config: ModelConfig
    parameters: int
    dtype: str  # of the weights that are not quantised
    device: str
    bytes: int  # with cache, activations and the library
    free: int  # available on the device now

    @property
    def fits(self) -> bool:
        """Whether the device has room for it now; a `device_map` spreads it over all devices."""
        return self.bytes <= self.free or self.config.device_map is not None

    def __str__(self) -> str:
        kind = "/".join(filter(None, (self.config.quantization, self.dtype)))
        takes = f"{size(self.bytes)} of the {size(self.free)} free on {self.device}"
        return f"{self.config.label} · {self.parameters / 1e6:,.0f} million parameters in {kind} · {takes}"


def load_model(config: ModelConfig, runtime: RuntimeConfig, watch: LoadWatch | None = None) -> AudioLM:
    """Loads and tests one configured model; `watch` is called while weights are downloaded or steps are compiled.

    Raises CheckpointError if the checkpoint is missing, of another family or format, or incomplete, or if the model
    fails the self-test.
    """
    offline = runtime.offline
    with open_checkpoint(config, offline=offline) as checkpoint:
        device = resolve_device(config.device)
        if checkpoint.downloads:
            fetch(config, checkpoint.weights, watch)
        checkpoint.require_weights()
        made = outline(checkpoint.family.module_class, checkpoint.module_config, config.label)
        require_held(made, checkpoint.weights, config.label, packed=checkpoint.quantised_by is not None)
        processor = _processor(checkpoint)
        weights = fingerprint(checkpoint.weights)
        module = _module(checkpoint, device)
    how = {"quantization": config.quantization, "encoder_dtype": config.encoder_dtype}
    compiled = runtime.compile == "on" and device.type == "cuda"
    if compiled:
        _keep_compiled()
    model = AudioLM(module, processor, weights=weights, graphs=config.graphs, compiled=compiled, **how)
    if model.slots is not None and watch is not None:
        model.slots.watch = lambda done, steps: watch(Compilation(config.label, steps), done)
    if runtime.self_test:
        self_test(model)
    model.record_graphs()
    return model


def _keep_compiled() -> None:
    """Makes PyTorch keep compiled code in the user's cache. By default it uses a folder that all users share."""
    if (folder := user_folder("XDG_CACHE_HOME", ".cache")) is not None:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "compiled"))


def forecast(config: ModelConfig, *, offline: bool) -> tuple[Needs, Download | None]:
    """The memory that a configured model would take, and its download. No weights are loaded.

    The small files of a hub checkpoint are downloaded. Raises CheckpointError if it is missing, or refused.
    """
    with open_checkpoint(config, offline=offline) as checkpoint:
        device = resolve_device(config.device)
        download = plan(config, checkpoint.weights) if checkpoint.downloads else None
        if download is None:
            checkpoint.require_weights()
        dtype = _dtype(checkpoint, device)
        module = outline(checkpoint.family.module_class, checkpoint.module_config, config.label).to(dtype)
        parameters = sum(weight.numel() for weight in module.parameters())
        if config.quantization is not None:
            empty_packed(module, BITS[config.quantization])
        packed = [part for part in module.modules() if isinstance(part, PackedLinear)]
        weights = (*module.parameters(), *(weight for part in packed for weight in part.buffers()))
        taken = round(_OVERHEAD * sum(weight.nbytes for weight in weights))
        if checkpoint.quantised_by in ("awq", "gptq"):  # such weights stay as they are stored
            stored = (path.stat().st_size for path in checkpoint.weights if path.exists())
            taken = round(_OVERHEAD * (sum(stored) + (download.total if download else 0)))
        free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
        return Needs(config, parameters, str(dtype).removeprefix("torch."), str(device), taken, free), download


def load_processor(config: ModelConfig, *, offline: bool) -> Processor:
    """Loads only tokenizer, feature extractor and chat template, for a remote cloud."""
    with open_checkpoint(config, offline=offline) as checkpoint:
        return _processor(checkpoint)


def _module(checkpoint: Checkpoint, device: torch.device) -> Any:
    """The module in evaluation mode, on a CPU from its packed weights in the user's cache, if they are there."""
    config, dtype, kept = checkpoint.config, _dtype(checkpoint, device), None
    if config.quantization is not None and device.type == "cpu":
        kept = packed_folder(checkpoint.weights, checkpoint.module_config, BITS[config.quantization], dtype)
    if kept is not None and kept.is_dir():
        try:
            (kept / CONFIG_NAME).stat()  # without it, a model of default size would be built
            return _build(checkpoint, device, dtype, str(kept))
        except Exception as error:  # damaged files may raise anything
            _log.warning("the packed weights in %s are damaged, and are made again: %s", kept, first_line(error))
            shutil.rmtree(kept, ignore_errors=True)
    quantization = quantization_config(config.quantization, device, dtype)
    with checkpoint.tensors() as tensors:
        how = {"config": checkpoint.module_config, "state_dict": tensors, "quantization_config": quantization}
        module = _build(checkpoint, device, dtype, None, **how)
    if kept is not None:
        keep_packed(module, kept)
    return module


def _build(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype, source: str | None, **how: Any) -> Any:
    """The module by `from_pretrained`: of `source`, a folder with packed weights, or of the arguments in `how`."""
    config, family = checkpoint.config, checkpoint.family
    attention: Any = config.attention
    if family.eager:  # of every part by its name
        parts = dict.fromkeys(("", *checkpoint.module_config.sub_configs), config.attention)
        attention = parts | dict.fromkeys(family.eager, "eager")
    module, info = family.module_class.from_pretrained(
        source,
        dtype=dtype,
        attn_implementation=attention,
        device_map=config.device_map or (None if device.type == "cpu" else {"": device}),
        ignore_mismatched_sizes=True,  # reported below, with the names
        output_loading_info=True,
        **how,
        **LOCAL_ONLY,
    )
    checkpoint.require_complete(info)
    return module.eval().requires_grad_(False)


def _processor(checkpoint: Checkpoint) -> Processor:
    label, source = checkpoint.config.label, str(checkpoint.folder)
    parts = checkpoint.family.processor(source, **LOCAL_ONLY)
    if (checkpoint.folder / GENERATION_CONFIG_NAME).is_file():
        generation = GenerationConfig.from_pretrained(source, **LOCAL_ONLY)
    else:
        generation = GenerationConfig.from_model_config(checkpoint.module_config)
    for name, off in _NOT_APPLIED.items():
        if (value := getattr(generation, name, None)) not in (None, off, [], False):
            says = f"the generation_config.json of {label} sets {name} to {value!r}, which specdec does not apply"
            raise CheckpointError(says, hint=f"Take {name} out of a copy of that file.")
    return Processor(label, checkpoint.family, parts, checkpoint.module_config, generation)


def resolve_device(name: str) -> torch.device:
    """The device called `name`; "auto" means cuda, then mps, then cpu."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    return torch.empty(0, device=name).device


def _dtype(checkpoint: Checkpoint, device: torch.device) -> torch.dtype:
    """The number format of the weights; "auto" means the narrowest of those that are declared and stored.

    Some checkpoints declare none, or float32 for weights in bfloat16. On a CPU "auto" means float32, never float16.
    """
    if checkpoint.config.dtype != "auto":
        named: torch.dtype = getattr(torch, checkpoint.config.dtype)
        return named
    declared = checkpoint.module_config
    text = getattr(declared.get_text_config(decoder=True), "dtype", None)
    given = declared.dtype, text if checkpoint.downloads else stored_dtype(checkpoint.weights)
    dtype = min(filter(None, given), key=lambda each: each.itemsize, default=torch.float32)
    return torch.float32 if device.type == "cpu" and dtype == torch.float16 else dtype


def quantization_config(name: str | None, device: torch.device, dtype: torch.dtype) -> PackedConfig | None:
    """The `quantization_config` of `from_pretrained` for "int8", "int4" or None: decoder and output layer are packed.

    Raises CheckpointError if the device has no products with such weights.
    """
    if name is None:
        return None
    bits = BITS[name]
    if device.type != "cpu":
        if device.type != "cuda" or (bits == 4 and dtype != torch.bfloat16):
            says = f"{name} weights need a CPU or an NVIDIA GPU, and there bfloat16; not {dtype} on {device}"
            raise CheckpointError(says.replace("torch.", ""), hint="Use dtype: bfloat16, or quantization: null.")
        require_product(device, bits)
    return PackedConfig(bits, device.type)
