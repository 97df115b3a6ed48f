"""Loads an `AudioLM` from a folder or a hub id, whole, or refuses it with the reason."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psutil
import torch
from huggingface_hub import is_offline_mode, snapshot_download
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, GenerationConfig, PreTrainedConfig
from transformers.quantizers.auto import AutoQuantizationConfig
from transformers.utils import GENERATION_CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from transformers.utils import logging as transformers_logging

from specdec_cli import interrupts
from specdec_cli.cache import user_folder
from specdec_cli.config import ModelConfig
from specdec_cli.config.schema import RuntimeConfig
from specdec_cli.errors import CheckpointError, SpecdecError, first_line
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.families import Family, family_of
from specdec_cli.models.guards import SMALL, refused, require_readable
from specdec_cli.models.int4 import PackedLinear, empty_packed
from specdec_cli.models.processor import Processor
from specdec_cli.models.selftest import self_test
from specdec_cli.types import Tell

_log = logging.getLogger(__name__)

LOCAL_ONLY: Final = {
    "local_files_only": True,
    "trust_remote_code": False,
}  # unset, it asks the user
TOKENIZERS: Final = ("tokenizer.json", "vocab.json", "tekken.json", "tokenizer.model")
"""Files of which a checkpoint has at least one, the usual one first."""
_PROCESSORS: Final = ("processor_config.json", "preprocessor_config.json")  # likewise
_TEMPLATES: Final = ("chat_template.jinja", "chat_template.json", "additional_chat_templates", "tekken.json")
_NOT_APPLIED: Final = {
    **dict.fromkeys(("num_beams", "encoder_repetition_penalty"), 1),
    **dict.fromkeys(("encoder_no_repeat_ngram_size", "min_length"), 0),
    **dict.fromkeys(("bad_words_ids", "sequence_bias", "forced_bos_token_id", "forced_eos_token_id")),
    **dict.fromkeys(("begin_suppress_tokens", "exponential_decay_length_penalty", "guidance_scale")),
    **dict.fromkeys(("penalty_alpha", "dola_layers", "watermarking_config")),
}
"""Settings of generation_config.json that the loop does not apply -> the value at which each is off, beside null."""
_DEQUANTISED: Final = ("fp8", "compressed-tensors")  # as they are loaded: kernels for FP8 would be fetched as code
_KEPT_QUANTISED: Final = ("awq", "gptq", "bitsandbytes")  # by transformers' own code, which needs a GPU for most
_STORED: Final = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
_SAMPLE: Final = 1024  # bytes of each tensor in a fingerprint
_OVERHEAD: Final = 1.1  # memory of a model over that of its weights: cache, activations, the library
_COMPUTED: Final = 1 << 24  # numbers that a model may have beyond twice those in its files: tables that it computes
_PACKED: Final = 16  # weights of two bits in 32


@dataclass(frozen=True, slots=True)
class Needs:
    """Memory of one model, and what would be downloaded of it, in bytes."""

    label: str
    parameters: int
    kind: str  # number format of the weights, with their quantisation
    device: str
    bytes: int  # with cache, activations and the library
    free: int  # available on the device now
    download: int

    def __str__(self) -> str:
        takes = f"{size(self.bytes)} of the {size(self.free)} free on {self.device}"
        return f"{self.label} · {self.parameters / 1e6:,.0f} million parameters in {self.kind} · {takes}"


def size(number: int) -> str:
    """Bytes in the unit that file managers show."""
    return f"{number / 1e9:.1f} GB" if number >= 1e8 else f"{number / 1e6:.1f} MB"


def load_model(config: ModelConfig, runtime: RuntimeConfig, tell: Tell | None = None) -> AudioLM:
    """Loads and tests one configured model; `tell` is called before weights are downloaded and steps are compiled.

    Raises CheckpointError if the checkpoint is missing, of another family or format, or incomplete, or if the model
    fails the self-test.
    """
    tell = tell or (lambda _: None)
    with _opened(config, offline=runtime.offline) as checkpoint:
        device = resolve_device(config.device)
        if checkpoint.lacks and not checkpoint.is_local and not runtime.offline:
            tell(f"downloading weights of {config.label}")
            if checkpoint.bars:
                transformers_logging.enable_progress_bar()
            names = [path.name for path in checkpoint.weights]
            interrupts.wait_for(lambda: snapshot(config, offline=False, names=names))
            transformers_logging.disable_progress_bar()
        checkpoint.require_weights()
        processor, weights = checkpoint.processor(), fingerprint(checkpoint.weights)
        module = _module(checkpoint, device, runtime.attention)
    compiled = runtime.compile == "on" and device.type == "cuda"
    if compiled:
        tell(f"compiling the steps of {config.label}; that takes minutes the first time")
        if (folder := user_folder("XDG_CACHE_HOME", ".cache")) is not None:
            # by default PyTorch keeps compiled code in a folder that all users share
            os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "compiled"))
    quantised = _quantisation(config)
    model = AudioLM(
        module, processor, weights=weights, graphs=runtime.graphs, compiled=compiled, quantization=quantised
    )
    if runtime.self_test:
        self_test(model)
    model.record_graphs()
    return model


def load_processor(config: ModelConfig, *, offline: bool) -> Processor:
    """Loads only tokenizer, feature extractor and chat template: for a remote cloud, and to compare vocabularies."""
    with _opened(config, offline=offline) as checkpoint:
        return checkpoint.processor()


def forecast(config: ModelConfig, *, offline: bool) -> Needs:
    """What a configured model would need. No weights are loaded; the small files of a hub checkpoint are downloaded.

    Raises CheckpointError if it is missing, or refused.
    """
    with _opened(config, offline=offline) as checkpoint:
        device, download = resolve_device(config.device), 0
        if checkpoint.lacks and not checkpoint.is_local and not offline:
            names = [path.name for path in checkpoint.weights]
            planned = snapshot(config, offline=False, names=names, dry_run=True)
            download = sum(file.file_size or 0 for file in planned if file.will_download)
        else:
            checkpoint.require_weights()
        dtype = _dtype(checkpoint, device)
        module = checkpoint.outline().to(dtype)
        parameters = sum(weight.numel() for weight in module.parameters())
        if config.quantization == "int4":
            empty_packed(module)
        packed = [part for part in module.modules() if isinstance(part, PackedLinear)]
        taken = sum(weight.nbytes for weight in (*module.parameters(), *(b for part in packed for b in part.buffers())))
        if checkpoint.quantised_by in _KEPT_QUANTISED:
            taken = download + sum(path.stat().st_size for path in checkpoint.weights if path.exists())
        free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
        kind = "/".join(filter(None, (_quantisation(config), str(dtype).removeprefix("torch."))))
        return Needs(config.label, parameters, kind, str(device), round(_OVERHEAD * taken), free, download)


def is_local(model: str) -> bool:
    """Whether `model` is meant as a folder rather than a hub id such as "owner/name"."""
    return Path(model).expanduser().exists() or model.startswith((".", "/", "~")) or model.count("/") != 1


def snapshot(config: ModelConfig, *, offline: bool, names: Sequence[str] = SMALL, **how: Any) -> Any:
    """Downloads files of a hub checkpoint; returns their folder, or what the hub answers to `how`.

    By default the small files: configuration, index, tokenizer, templates.
    """
    how |= {"revision": config.revision or "main", "local_files_only": offline, "allow_patterns": list(names)}
    return snapshot_download(config.source, **how)


@contextmanager
def checkpoint_errors(config: ModelConfig, *, offline: bool, setting: str = "model") -> Iterator[bool]:
    """Within the block transformers prints nothing, and every error of its or the hub's becomes a CheckpointError.

    The hint names the `setting` that may name a folder in place of a hub id. Yields whether bars were shown before.
    """
    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield bars
    except SpecdecError:
        raise
    except Exception as error:
        why, hint = f"{type(error).__name__}: {first_line(error)}", "Is it a whole checkpoint, as it was published?"
        if isinstance(error, ImportError):
            hint = "Install what it names. `specdec doctor` checks packages."
        elif not is_local(config.source) and isinstance(error, OSError | ValueError):
            hint = "Check the name, the network and your access"
            if offline or is_offline_mode():
                switch = "runtime.offline" if offline else "HF_HUB_OFFLINE"
                why, hint = f"{switch} forbids downloads, and the hub's cache lacks it", "Allow them"
            hint = f"{hint}, or download it and set `{setting}` to its folder."
        raise CheckpointError(f"{config.label} cannot be loaded: {why}", hint=hint) from error
    finally:
        if bars:
            transformers_logging.enable_progress_bar()
        transformers_logging.set_verbosity(verbosity)


@contextmanager
def _opened(config: ModelConfig, *, offline: bool) -> Iterator[_Checkpoint]:
    """A checkpoint in a folder or in the hub's cache, to be loaded within the block; errors as above.

    Raises CheckpointError if there is no such checkpoint, or if it is refused.
    """
    with checkpoint_errors(config, offline=offline) as bars:
        local = is_local(config.source)
        folder = Path(config.source).expanduser() if local else Path(snapshot(config, offline=offline))
        if not (folder / "config.json").is_file():
            says = f"there is no checkpoint {config.label}: it has no config.json"
            raise CheckpointError(says, hint="Give the folder of a checkpoint, or a hub id.")
        require_readable(folder, config.label)
        raw, _ = PreTrainedConfig.get_config_dict(str(folder), **LOCAL_ONLY)
        family = family_of(str(raw.get("model_type")))
        for why, hint in _refusals(config, raw, family):
            raise CheckpointError(f"{config.label} {why}", hint=hint)
        assert family is not None
        whole = AutoConfig.from_pretrained(str(folder), **LOCAL_ONLY)
        module_config, quantised = getattr(whole, "thinker_config", whole), _quantised(raw)
        method: str | None = quantised.get("quant_method")
        if method is not None:  # for `from_pretrained`: an Omni declares it beside its thinker
            dequantize = {"dequantize": True} if method in _DEQUANTISED else {}
            module_config.quantization_config = quantised | dequantize
        yield _Checkpoint(config, family, folder, module_config, method, offline, bars)


@dataclass(frozen=True, eq=False)
class _Checkpoint:
    """A checkpoint that specdec can load. All files but the weights are in its folder."""

    config: ModelConfig
    family: Family
    folder: Path
    module_config: Any  # of the part that speech needs: of an Omni the thinker's
    quantised_by: str | None  # method by which its publisher quantised it
    offline: bool
    bars: bool  # whether downloads show bars

    @property
    def is_local(self) -> bool:
        return is_local(self.config.source)

    @cached_property
    def weights(self) -> list[Path]:
        """The files that hold the weights that speech needs, present or missing, as transformers finds them.

        A whole file goes before an index beside it, which may be left from before the weights were saved again.
        """
        index = self.folder / SAFE_WEIGHTS_INDEX_NAME
        if (self.folder / SAFE_WEIGHTS_NAME).is_file() or not index.is_file():
            return [self.folder / SAFE_WEIGHTS_NAME]
        placed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files = sorted({file for name, file in placed.items() if not name.startswith(self.family.unused)})
        if not files or any(Path(file).name != file or not file.endswith(".safetensors") for file in files):
            raise ValueError(f"{index.name} names no safetensors files of the folder: {', '.join(files[:3])}")
        return [self.folder / file for file in files]

    @property
    def lacks(self) -> list[Path]:
        """The files of weights that are missing."""
        return [path for path in self.weights if not path.exists()]

    def require_weights(self) -> None:
        """Raises CheckpointError if files of weights are missing, damaged, or hold far less than config.json asks."""
        label, lacks = self.config.label, self.lacks
        if lacks and self.offline and not self.is_local:
            raise FileNotFoundError(lacks[0])
        if lacks:
            first, files = ", ".join(str(path) for path in lacks[:3]), len(self.weights)
            says = f"{label} lacks {len(lacks)} of {files} files of weights: {first}"
            raise CheckpointError(says, hint="Download it again, or save its weights as model.safetensors.")
        stored = 0
        for path in self.weights:
            with _tensors(path) as content:
                stored += sum(math.prod(content.get_slice(name).get_shape()) for name in content.offset_keys())
        outline = self.outline()
        numbers = sum(each.numel() for each in (*outline.parameters(), *outline.buffers()))
        if numbers > 2 * stored * (1 if self.quantised_by is None else _PACKED) + _COMPUTED:
            says = f"its config.json makes a model of {numbers:,} numbers, but the files of weights hold {stored:,}"
            raise refused(label, says)

    def outline(self) -> Any:
        """The module on the meta device: names and shapes without weights."""
        with torch.device("meta"):
            return self.family.module_class(self.module_config)

    def processor(self) -> Processor:
        """Tokenizer, feature extractor and chat template. Raises CheckpointError for settings that are not applied."""
        label, source = self.config.label, str(self.folder)
        for names in (TOKENIZERS, _PROCESSORS):
            if not any((self.folder / name).is_file() for name in names):
                raise CheckpointError(f"{label} has no {names[0]}", hint=f"Copy its {' or '.join(names)} beside it.")
        parts = self.family.processor(source, **LOCAL_ONLY)
        self._choose_template(parts)
        if (self.folder / GENERATION_CONFIG_NAME).is_file():
            generation = GenerationConfig.from_pretrained(source, **LOCAL_ONLY)
        else:
            generation = GenerationConfig.from_model_config(self.module_config)
        for name, off in _NOT_APPLIED.items():
            if (value := getattr(generation, name, None)) not in (None, off, [], False):
                says = f"the generation_config.json of {label} sets {name} to {value!r}, which specdec does not apply"
                raise CheckpointError(says, hint=f"Take {name} out of a copy of that file.")
        processor = Processor(label, self.family, parts, self.module_config, generation)
        if processor.word_ids.issuperset(processor.eos_ids):
            ends = " and ".join(repr(processor.token_text(id_)) for id_ in processor.eos_ids)
            _log.warning("%s ends a text at %s: is its generation_config.json another model's?", label, ends)
        return processor

    def _choose_template(self, parts: Any) -> None:
        """Lets the tokenizer's chat template serve a processor without one; some classes bring a default."""
        if any((self.folder / name).exists() for name in _TEMPLATES):
            return
        if template := getattr(parts.tokenizer, "chat_template", None):
            parts.chat_template = template
        elif parts.chat_template is None:
            hint = "Copy the chat_template.jinja of its instruct variant beside it."
            raise CheckpointError(f"{self.config.label} has no chat template", hint=hint)
        elif parts.chat_template == getattr(parts, "default_chat_template", None):
            _log.warning("%s has no chat template: the default of its class is used", self.config.label)


def _refusals(config: ModelConfig, raw: Mapping[str, Any], family: Family | None) -> Iterator[tuple[str, str]]:
    """Yields reasons to refuse a checkpoint by its config.json, before weights are read, each with a hint."""
    kind = str(raw.get("model_type"))
    if family is None:
        hint = "Use a model of one of the families in docs/families.md, or a vLLM server (cloud.model)."
        yield f"is of type {kind!r}, which specdec does not load", hint
    if (method := _quantised(raw).get("quant_method")) is not None:
        holds = f"holds weights that its publisher quantised ({method})"
        if method not in (*_DEQUANTISED, *_KEPT_QUANTISED):
            yield f"{holds}, which specdec does not load", "Use the original checkpoint, with quantization: int4."
        if config.quantization is not None:
            yield f"{holds}, and quantization is set", "Leave quantization out, or use the original checkpoint."
    if kind.startswith("gemma4") and not raw.get("audio_config"):
        yield "has no audio encoder (audio_config is null)", "Use google/gemma-4-E2B-it or google/gemma-4-E4B-it."
    if raw.get("has_lora_adapter"):  # `generate()` switches it on, a forward does not
        hint = "Use a Granite Speech 4, whose adapter is merged into the weights (has_lora_adapter: false)."
        yield "has a LoRA adapter for audio, which specdec does not load", hint
    for package in family.needs if family else ():
        if find_spec(package.replace("-", "_")) is None:
            yield f"needs the package {package}, which is not installed", f"Install it with: pip install {package}"


def _quantised(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The publisher's `quantization_config`, at the top of config.json or in a section; empty: not quantised."""
    sections = (raw, *(part for part in raw.values() if isinstance(part, Mapping)))
    return next((found for each in sections if isinstance(found := each.get("quantization_config"), dict)), {})


@contextmanager
def _tensors(path: Path) -> Iterator[Any]:
    """A file of weights, opened. Raises ValueError, which names the file, if it is damaged or cut off."""
    try:
        content = safe_open(path, framework="pt")
    except SafetensorError as error:
        raise ValueError(f"{path.name} is damaged or cut off: {error}") from error
    with content:
        yield content


def _module(checkpoint: _Checkpoint, device: torch.device, kernel: str) -> Any:
    """The module in evaluation mode. Raises CheckpointError if weights are left random, unexpected or misshapen."""
    config, family, dtype = checkpoint.config, checkpoint.family, _dtype(checkpoint, device)
    attention: Any = kernel
    if family.eager:  # of every part by its name
        parts = dict.fromkeys(("", *checkpoint.module_config.sub_configs), kernel)
        attention = parts | dict.fromkeys(family.eager, "eager")
    with ExitStack() as stack:
        files = [stack.enter_context(_tensors(path)) for path in checkpoint.weights]
        named = ((name, file) for file in files for name in file.offset_keys())
        module, info = family.module_class.from_pretrained(
            None,
            config=checkpoint.module_config,
            # a weight is read when it is sliced
            state_dict={name: file.get_slice(name) for name, file in named if not name.startswith(family.unused)},
            quantization_config=_quantisation_config(config, device),
            dtype=dtype,
            attn_implementation=attention,
            device_map=config.device if config.spreads else None if device.type == "cpu" else {"": device},
            ignore_mismatched_sizes=True,  # reported below, with the names
            output_loading_info=True,
            **LOCAL_ONLY,
        )
    misshapen = [key for key, *_ in info["mismatched_keys"]]
    faults = {"lacks": info["missing_keys"], "has unexpected": info["unexpected_keys"], "has misshapen": misshapen}
    for what, keys in faults.items():  # transformers itself only warns
        if keys:
            raise CheckpointError(
                f"{config.label} {what} weights ({len(keys)}): {', '.join(sorted(keys)[:5])}",
                hint="The config.json and the weights do not belong together: download the checkpoint again.",
            )
    return module.eval().requires_grad_(False)


def resolve_device(name: str) -> torch.device:
    """The device called `name`; "auto" means cuda, then mps, then cpu, and of a model that is spread the first GPU."""
    if name in ("auto", "balanced", "sequential"):
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    return torch.empty(0, device=name).device


def _dtype(checkpoint: _Checkpoint, device: torch.device) -> torch.dtype:
    """The number format of the weights; "auto" means the narrowest of those that are declared and stored.

    Some checkpoints declare none, or float32 for weights in bfloat16. On a CPU "auto" means float32, never float16.
    """
    if checkpoint.config.dtype != "auto":
        named: torch.dtype = getattr(torch, checkpoint.config.dtype)
        return named
    declared = checkpoint.module_config
    text = getattr(declared.get_text_config(decoder=True), "dtype", None)
    given = declared.dtype, text if checkpoint.lacks else _stored_dtype(checkpoint.weights[0])
    dtype = min(filter(None, given), key=lambda each: each.itemsize, default=torch.float32)
    return torch.float32 if device.type == "cpu" and dtype == torch.float16 else dtype


def _stored_dtype(file: Path) -> torch.dtype | None:
    """The number format of the largest stored weight; None if it is neither float32, bfloat16 nor float16."""
    with _tensors(file) as content:
        slices = [content.get_slice(name) for name in content.offset_keys()]
    largest = max(slices, key=lambda each: math.prod(each.get_shape()))
    return _STORED.get(largest.get_dtype())


def _quantisation(config: ModelConfig) -> str | None:
    """What quantises a model when it is loaded: int4, or the method of transformers' own configuration."""
    given = config.quantization
    return given if given is None or isinstance(given, str) else str(given.get("quant_method"))


def _quantisation_config(config: ModelConfig, device: torch.device) -> Any:
    """The `quantization_config` of `from_pretrained`. Raises CheckpointError for int4 on another device than a CPU."""
    if isinstance(config.quantization, dict):
        return AutoQuantizationConfig.from_dict(dict(config.quantization))
    if config.quantization is not None and device.type != "cpu":
        own = "quantization: {quant_method: bitsandbytes, load_in_4bit: true}"
        hint = f"Give the configuration of one of transformers' own quantisers, as in {own}."
        raise CheckpointError(f"int4 packs weights for a CPU, and {config.label} is loaded on {device}", hint=hint)
    if config.quantization is None:
        return None
    from specdec_cli.models.quantizer import Int4Config

    return Int4Config()


def fingerprint(files: Sequence[Path]) -> str:
    """A hash that identifies the weights in safetensors files, for transcripts.

    A kilobyte from the middle of each tensor is read: a few megabytes identify gigabytes, since training moves all of
    a tensor's numbers. The hash proves nothing: weights in which a few rows were edited may have the same. The order of
    the files counts; their names do not.
    """
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            header = content.read(int.from_bytes(content.read(8), "little"))  # JSON, before the tensors end to end
            digest.update(header)
            begin = content.tell()
            entries = (entry for name, entry in json.loads(header).items() if name != "__metadata__")
            for start, end in sorted(entry["data_offsets"] for entry in entries):
                content.seek(begin + max(start, (start + end - _SAMPLE) // 2))
                digest.update(content.read(min(_SAMPLE, end - start)))
    return f"sha256:{digest.hexdigest()[:32]}"
