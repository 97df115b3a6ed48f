"""The files of a checkpoint: found, refused in words where they are of no use here, downloaded, and fingerprinted."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Final

import torch
import transformers
from safetensors import SafetensorError, safe_open
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig
from transformers.utils import logging

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError, SpecdecError, first_line
from specdec_cli.models.download import INDEX, WEIGHTS, Watch, describe, fetch, not_downloaded, shards
from specdec_cli.models.families import Family, family_named, family_of

HERE: Final = {
    "local_files_only": True,
    "trust_remote_code": False,  # unset, there would be a question on the terminal
}
_TOKENIZERS: Final = ("tokenizer.json", "vocab.json", "tekken.json")
_NAMED: Final = 5  # weights named in an error, before "and n more"
_SAMPLE: Final = 1024  # bytes of each tensor in a fingerprint
_STORED: Final = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
_QUANTIZED_NAME: Final = re.compile(r"-(AWQ|GPTQ|FP8|bnb|int4|int8)\b.*", re.IGNORECASE)
_RECURRENT: Final = ("mamba", "linear_attention", "recurrent", "ssm")
_FAMILIES: Final = "Use an audio language model of one of the families that `specdec doctor` lists."
_GEMMA: Final = "Use google/gemma-4-E2B-it, google/gemma-4-E4B-it or google/gemma-4-12B-it."


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A checkpoint that is of use here, of which all but the weights is in a folder."""

    config: ModelConfig
    family: Family
    folder: Path
    module_config: Any  # of the part that speech needs: of an Omni the thinker's
    offline: bool

    @cached_property
    def weights(self) -> list[Path]:
        """The files with the weights that speech needs, whether they are there or not."""
        return [self.folder / name for name in shards(self.folder, self.family.unused)]

    @property
    def complete(self) -> bool:
        """Whether all of them are there."""
        return all(path.is_file() for path in self.weights)

    @property
    def downloads(self) -> bool:
        """Whether files of weights are to be downloaded."""
        return not self.complete and not is_local(self.config.source)

    def fetch(self, watch: Watch | None) -> None:
        """Downloads the weights that speech needs, and reads their headers.

        Raises CheckpointError if there are none, one is damaged, or the disk has no room for it.
        """
        config, files = self.config, self.weights
        if not is_local(config.source):
            names = [path.name for path in files]
            fetch(config.source, config.revision, self.folder, names, offline=self.offline, watch=watch)
        _require_one_of(config, self.folder, (WEIGHTS, INDEX))
        for path in files:
            try:
                with safe_open(path, framework="pt"):
                    pass
            except SafetensorError as error:
                says = f"{path.name} of {config.label} is damaged or cut short: {first_line(error)}"
                raise CheckpointError(says, hint="Download it again.") from error

    @contextmanager
    def loadable(self) -> Iterator[Path]:
        """A folder for `from_pretrained`: without the files of weights that were not downloaded, since it opens all."""
        if len(self.weights) == len(shards(self.folder, ())):
            yield self.folder
            return
        with tempfile.TemporaryDirectory(prefix="specdec-") as made:
            view = Path(made)
            for path in (*self.folder.glob("*.json"), *self.weights):
                (view / path.name).symlink_to(path.resolve())
            index = json.loads((self.folder / INDEX).read_text(encoding="utf-8"))
            placed = {name: file for name, file in index["weight_map"].items() if not self._is_unused(name)}
            (view / INDEX).unlink()
            (view / INDEX).write_text(json.dumps({**index, "weight_map": placed}), encoding="utf-8")
            yield view

    def require_complete(self, info: Mapping[str, Any]) -> None:
        """Refuses a load that left weights random, as transformers does with a warning, dropped or misshapen."""
        misshapen = [key for key, *_ in info.get("mismatched_keys") or ()]
        faults = {"lacks": info["missing_keys"], "has unexpected": info["unexpected_keys"], "has misshapen": misshapen}
        for what, found in faults.items():
            if keys := sorted(key for key in found if not self._is_unused(key)):
                named = ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
                raise CheckpointError(
                    f"{self.config.label} {what} weights: {named}",
                    hint="The config.json and the weights do not belong together: download the checkpoint again.",
                )

    def _is_unused(self, parameter: str) -> bool:
        return parameter.startswith(self.family.unused)


def is_local(model: str) -> bool:
    """Whether `model` is meant as a folder rather than a hub id such as "owner/name"."""
    return Path(model).expanduser().exists() or model.startswith((".", "/", "~")) or model.count("/") != 1


@contextmanager
def opened(config: ModelConfig, *, offline: bool) -> Iterator[Checkpoint]:
    """A checkpoint to be loaded within the block, in a folder or in the hub's cache.

    What transformers, safetensors and the hub raise becomes a CheckpointError, and they are silent. Raises it as well
    where there is no such checkpoint, it is of another family than configured, or of no use here.
    """
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield _found(config, offline=offline)
    except SpecdecError:
        raise
    except Exception as error:
        raise _refusal(config, error, offline=offline) from error
    finally:
        if bars:
            logging.enable_progress_bar()
        logging.set_verbosity(verbosity)


def _found(config: ModelConfig, *, offline: bool) -> Checkpoint:
    local = is_local(config.source)
    folder = Path(config.source).expanduser() if local else describe(config.source, config.revision, offline=offline)
    if not folder.is_dir():
        says = f"there is no folder {config.label}"
        raise CheckpointError(says, hint="Give the folder of a checkpoint, or a hub id.")
    _require_one_of(config, folder, ("config.json",))
    _require_one_of(config, folder, _TOKENIZERS)
    raw, _ = PreTrainedConfig.get_config_dict(str(folder), **HERE)
    declared = str(raw.get("model_type"))
    family = family_of(declared) if config.family == "auto" else family_named(config.family)
    if config.family != "auto" and declared not in family.model_types:
        raise CheckpointError(
            f"{config.label} holds a model of type {declared!r}, but the family {family.name!r} loads "
            f"{sorted(family.model_types)}",
            hint="Leave `family` at auto, or point `model` at another checkpoint.",
        )
    if reason := _of_no_use(config.label, raw):
        why, hint = reason
        raise CheckpointError(f"{config.label} {why}", hint=hint)
    if absent := [package for package in family.needs if find_spec(package.replace("-", "_")) is None]:
        says = f"{config.label} needs the package {absent[0]}, which is not installed"
        raise CheckpointError(says, hint=f"Install it with: pip install {' '.join(absent)}")
    whole = AutoConfig.from_pretrained(str(folder), **HERE)
    return Checkpoint(config, family, folder, getattr(whole, "thinker_config", whole), offline)


def _require_one_of(config: ModelConfig, folder: Path, names: Sequence[str]) -> None:
    if not any((folder / name).is_file() for name in names):
        raise CheckpointError(
            f"{config.label} has no {' and no '.join(names)}",
            hint="Give the folder of a whole checkpoint, with weights as safetensors: pickles can run code.",
        )


def _of_no_use(name: str, raw: Mapping[str, Any]) -> tuple[str, str] | None:
    """Why a checkpoint with this config.json cannot be loaded, and what to do instead; None: nothing speaks against it.

    So it is refused before a weight is downloaded or read.
    """
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


def _refusal(config: ModelConfig, error: Exception, *, offline: bool) -> CheckpointError:
    """A sentence about an error of the libraries: OSError, ValueError, RuntimeError, KeyError, SafetensorError..."""
    hint = "A file of the checkpoint may be damaged: download it again. `specdec doctor` checks the packages."
    if isinstance(error, ImportError):
        hint = "Install the package, or choose another attention or quantization; `specdec doctor` checks packages."
    elif not is_local(config.source) and isinstance(error, OSError):
        return not_downloaded(config.label, error, "model", offline=offline)
    return CheckpointError(f"{config.label} cannot be loaded: {type(error).__name__}: {first_line(error)}", hint=hint)


def stored_dtype(files: Sequence[Path]) -> torch.dtype | None:
    """The number format of most of the stored weights; None: neither float32, bfloat16 nor float16."""
    sizes: Counter[str] = Counter()
    for file in files:
        with file.open("rb") as content:
            for entry in _entries(_header(content)):
                start, end = entry["data_offsets"]
                sizes[entry["dtype"]] += end - start
    return _STORED.get(max(sizes, key=lambda name: sizes[name], default=""))


def fingerprint(files: Sequence[Path]) -> str:
    """A hash of the weights in safetensors files: another one where a tensor was added, renamed or trained.

    Of each tensor a kilobyte from its middle is read: gigabytes are distinguished by a few megabytes, and training
    moves all of a tensor's numbers. The order of the files counts, and their names do not.
    """
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            header = _header(content)
            digest.update(header)
            begin = content.tell()
            for start, end in sorted(entry["data_offsets"] for entry in _entries(header)):
                content.seek(begin + max(start, (start + end - _SAMPLE) // 2))
                digest.update(content.read(min(_SAMPLE, end - start)))
    return f"sha256:{digest.hexdigest()[:32]}"


def _header(content: BinaryIO) -> bytes:
    """The safetensors format: the length of the header, the header as JSON, then the tensors end to end."""
    return content.read(int.from_bytes(content.read(8), "little"))


def _entries(header: bytes) -> list[Any]:
    return [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
