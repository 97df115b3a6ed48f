"""Finds, checks and fingerprints a checkpoint's files, and refuses one that specdec cannot use, with the reason."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open
from transformers import AutoConfig, PreTrainedConfig
from transformers.utils import logging

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError, SpecdecError, first_line
from specdec_cli.models.download import not_downloaded, shards, snapshot
from specdec_cli.models.families import Family, family_of
from specdec_cli.models.limits import require_headers, require_readable

LOCAL_ONLY: Final = {
    "local_files_only": True,
    "trust_remote_code": False,  # unset, there would be a question on the terminal
}
_OTHER_WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack")
_SAMPLE: Final = 1024  # bytes of each tensor in a fingerprint
_NAMED: Final = "transformers_weights"  # in a config.json: a file in place of model.safetensors
_WHY_NOT: Final = {
    **dict.fromkeys(
        ("phi4_multimodal", "phi4mm"),
        ": its LoRA adapter for sound is no part of its weights, and its rotary embedding (LongRoPE) changes with the "
        "length of the text, so that no cache can be rolled back exactly",
    ),
    "nemotron_h_omni": ": the state of its recurrent layers (Mamba) cannot be rolled back",
    "moss_audio": ": transformers has no class for it (vLLM has: --config moss-audio-vllm-pair)",
}
"""`model_type` that people ask for -> why it is refused."""
_QUANTISERS: Final = {
    "fp8": (),
    "compressed-tensors": ("compressed-tensors",),
    "awq": ("gptqmodel",),
    "gptq": ("gptqmodel", "optimum"),
}
"""Method by which publishers quantise -> packages that transformers needs for it, by their names on PyPI."""
_DEQUANTISED: Final = ("fp8", "compressed-tensors")  # as they are loaded: kernels for FP8 would be fetched as code
_STORED: Final = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A checkpoint that specdec can load. All files but the weights are in its folder."""

    config: ModelConfig
    family: Family
    folder: Path
    module_config: Any  # of the part that speech needs: of an Omni the thinker's
    offline: bool
    quantised_by: str | None = None  # method by which its publisher quantised it

    @cached_property
    def weights(self) -> list[Path]:
        """The files that hold the weights that speech needs, present or missing."""
        return [self.folder / name for name in shards(self.folder, self.family.unused)]

    @property
    def missing(self) -> list[Path]:
        """The files with weights that are not there."""
        return [path for path in self.weights if not path.exists()]

    @property
    def downloads(self) -> bool:
        """Whether files of weights are to be downloaded."""
        return bool(self.missing) and not self.offline and not is_local(self.config.source)

    def require_weights(self) -> None:
        """Raises CheckpointError if files of weights are missing or cannot be read."""
        if missing := self.missing:
            if self.offline and not is_local(self.config.source):
                raise not_downloaded(self.config, FileNotFoundError(missing[0]), "model", offline=True)
            found = {path for path in self.folder.glob("*") if path.suffix in _OTHER_WEIGHTS}
            others = sorted(path.name for path in found.difference(self.weights))
            first = ", ".join(str(path) for path in missing[:3])
            beside = f"; there are {', '.join(others[:3])}, which specdec does not load" if others else ""
            says = f"{self.config.label} lacks {len(missing)} of {len(self.weights)} files of weights: {first}{beside}"
            raise CheckpointError(says, hint="Download the checkpoint again, or save it as model.safetensors.")
        require_headers(self.weights, self.config.label)

    @contextmanager
    def tensors(self) -> Iterator[dict[str, Any]]:
        """The weights that speech needs, by name. A weight is read when it is sliced."""
        with ExitStack() as stack:
            files = [stack.enter_context(safe_open(path, framework="pt")) for path in self.weights]
            named = ((name, file) for file in files for name in file.offset_keys())
            yield {name: file.get_slice(name) for name, file in named if not name.startswith(self.family.unused)}

    def require_complete(self, info: Mapping[str, Any]) -> None:
        """Raises CheckpointError if a load left weights random, or found some unexpected or misshapen.

        `info` is transformers' report on the load; transformers itself only warns.
        """
        misshapen = [key for key, *_ in info["mismatched_keys"]]
        faults = {"lacks": info["missing_keys"], "has unexpected": info["unexpected_keys"], "has misshapen": misshapen}
        for what, keys in faults.items():
            if keys:
                raise CheckpointError(
                    f"{self.config.label} {what} weights ({len(keys)}): {', '.join(sorted(keys)[:5])}",
                    hint="The config.json and the weights do not belong together: download the checkpoint again.",
                )


def is_local(model: str) -> bool:
    """Whether `model` is meant as a folder rather than a hub id such as "owner/name"."""
    return Path(model).expanduser().exists() or model.startswith((".", "/", "~")) or model.count("/") != 1


@contextmanager
def open_checkpoint(config: ModelConfig, *, offline: bool) -> Iterator[Checkpoint]:
    """Opens a checkpoint in a folder or in the hub's cache; it is to be loaded within the block.

    Within the block transformers and the hub print nothing, and every error of theirs becomes a CheckpointError. Raises
    CheckpointError if there is no such checkpoint, if it is of another family than configured, or if it is refused.
    """
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield _found(config, offline=offline)
    except SpecdecError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and not is_local(config.source):
            raise not_downloaded(config, error, "model", offline=offline) from error
        raise CheckpointError(
            f"{config.label} cannot be loaded: {type(error).__name__}: {first_line(error)}",
            hint="Is it a whole checkpoint, with weights as safetensors? `specdec doctor` checks packages.",
        ) from error
    finally:
        if bars:
            logging.enable_progress_bar()
        logging.set_verbosity(verbosity)


def _found(config: ModelConfig, *, offline: bool) -> Checkpoint:
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
    module_config, quantised = getattr(whole, "thinker_config", whole), _quantised(raw) or {}
    method: str | None = quantised.get("quant_method")
    if method is not None:  # for `from_pretrained`: an Omni declares it beside its thinker
        module_config.quantization_config = quantised | ({"dequantize": True} if method in _DEQUANTISED else {})
    return Checkpoint(config, family, folder, module_config, offline, method)


def _refusals(config: ModelConfig, raw: Mapping[str, Any], family: Family | None) -> Iterator[tuple[str, str]]:
    """Yields reasons to refuse a checkpoint by its config.json, before weights are read, each with a hint."""
    kind, sections = str(raw.get("model_type")), (raw, *(part for part in raw.values() if isinstance(part, Mapping)))
    if family is None or config.family not in ("auto", family.name):
        loads = "specdec" if family is None else f"the family {config.family!r}"
        hint = "Use a model of one of the families that `specdec doctor` lists, or a vLLM server (cloud.model)."
        yield f"is of type {kind!r}, which {loads} does not load{_WHY_NOT.get(kind, '')}", hint
    if (quantised := _quantised(raw)) is not None:
        yield from _refusals_of_quantised(config, str(quantised.get("quant_method")))
    if kind.startswith("gemma4") and not raw.get("audio_config"):
        yield "has no audio encoder (audio_config is null)", "Use google/gemma-4-E2B-it or google/gemma-4-E4B-it."
    if named := next((section[_NAMED] for section in sections if section.get(_NAMED)), None):
        hint = "Save its weights as model.safetensors, and take that line out of a copy of its config.json."
        yield f"names its file of weights itself ({_NAMED}: {named}), which specdec does not follow", hint
    if raw.get("has_lora_adapter"):  # `generate()` switches it on, a forward does not
        hint = "Use a Granite Speech 4, whose adapter is merged into the weights (has_lora_adapter: false)."
        yield "has a LoRA adapter for audio, which specdec does not load", hint
    for package in family.needs if family else ():
        if find_spec(package.replace("-", "_")) is None:
            yield f"needs the package {package}, which is not installed", f"Install it with: pip install {package}"


def _quantised(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """The publisher's `quantization_config`, at the top of config.json or in a section; None: not quantised."""
    sections = (raw, *(part for part in raw.values() if isinstance(part, Mapping)))
    found = next((found for each in sections if isinstance(found := each.get("quantization_config"), dict)), None)
    return found or None


def _refusals_of_quantised(config: ModelConfig, method: str) -> Iterator[tuple[str, str]]:
    holds = f"holds weights that its publisher quantised ({method})"
    original = "Use the original checkpoint with quantization: int4, which packs it when it is loaded."
    lacks = [package for package in _QUANTISERS.get(method, ()) if find_spec(package.replace("-", "_")) is None]
    if method not in _QUANTISERS:
        yield f"{holds}, which specdec does not load", original
    elif method not in _DEQUANTISED and (config.device == "cpu" or not torch.cuda.is_available()):
        yield f"{holds}, which only a GPU runs", original
    elif lacks:
        hint = f"Install with: pip install {' '.join(lacks)}. Or use the original checkpoint with quantization: int4."
        yield f"{holds}, which needs {' and '.join(lacks)}", hint
    elif config.quantization is not None:
        yield f"{holds}, and quantization is {config.quantization}", f"Leave quantization out. {original}"


def stored_dtype(files: Sequence[Path]) -> torch.dtype | None:
    """The number format of the largest stored weight; None if it is neither float32, bfloat16 nor float16."""
    with safe_open(files[0], framework="pt") as content:
        slices = [content.get_slice(name) for name in content.offset_keys()]
    largest = max(slices, key=lambda each: math.prod(each.get_shape()))
    return _STORED.get(largest.get_dtype())


def fingerprint(files: Sequence[Path]) -> str:
    """A hash that identifies the weights in safetensors files, for transcripts and files of gates.

    A kilobyte from the middle of each tensor is read: a few megabytes tell gigabytes apart, since training moves all of
    a tensor's numbers. The hash proves nothing: weights in which a few rows were edited may have the same. The order of
    the files counts; their names do not.
    """
    digest = hashlib.sha256()
    for file in files:
        with safe_open(file, framework="pt"), file.open("rb") as content:  # the former finds damaged files
            header = content.read(int.from_bytes(content.read(8), "little"))  # JSON, before the tensors end to end
            digest.update(header)
            begin = content.tell()
            entries = (entry for name, entry in json.loads(header).items() if name != "__metadata__")
            for start, end in sorted(entry["data_offsets"] for entry in entries):
                content.seek(begin + max(start, (start + end - _SAMPLE) // 2))
                digest.update(content.read(min(_SAMPLE, end - start)))
    return f"sha256:{digest.hexdigest()[:32]}"
