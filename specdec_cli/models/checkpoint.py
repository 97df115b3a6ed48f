"""The files of a checkpoint, its errors in words, and a fingerprint of its weights."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import torch
from safetensors import SafetensorError, safe_open
from transformers.utils import logging

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError, SpecdecError, first_line
from specdec_cli.models.download import INDEX, WEIGHTS, Watch, describe, fetch, not_downloaded, shards

_TOKENIZERS: Final = ("tokenizer.json", "vocab.json", "tekken.json")
_NAMED: Final = 5  # weights named in an error, before "and n more"
_SAMPLE: Final = 1024  # bytes of each tensor in a fingerprint
_STORED: Final = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def is_local(model: str) -> bool:
    """Whether `model` is meant as a folder rather than a hub id such as "owner/name"."""
    return Path(model).expanduser().exists() or model.startswith((".", "/", "~")) or model.count("/") != 1


def checkpoint_folder(config: ModelConfig, *, offline: bool) -> Path:
    """The folder of a checkpoint, as configured or out of the hub's cache, which then holds all but its weights.

    Raises CheckpointError if there is no such folder, or it lacks a file that every checkpoint has.
    """
    local = is_local(config.source)
    folder = Path(config.source).expanduser() if local else describe(config.source, config.revision, offline=offline)
    if not folder.is_dir():
        raise CheckpointError(
            f"there is no folder {config.label}", hint="Give the folder of a checkpoint, or a hub id."
        )
    _require_one_of(config, folder, ("config.json",))
    _require_one_of(config, folder, _TOKENIZERS)
    return folder


def checkpoint_weights(
    config: ModelConfig, folder: Path, unused: Sequence[str], *, offline: bool, watch: Watch | None = None
) -> list[Path]:
    """The files with the weights that speech needs, without `unused` prefixes, once those of the hub are downloaded.

    Raises CheckpointError if there are none, one is damaged, or the disk has no room for it.
    """
    names = shards(folder, unused)
    if not is_local(config.source):
        fetch(config.source, config.revision, folder, names, offline=offline, watch=watch)
    _require_one_of(config, folder, (WEIGHTS, INDEX))
    for name in names:
        try:
            with safe_open(folder / name, framework="pt"):  # reads the header only
                pass
        except SafetensorError as error:
            says = f"{name} of {config.label} is damaged or cut short: {first_line(error)}"
            raise CheckpointError(says, hint="Download it again.") from error
    return [folder / name for name in names]


def _require_one_of(config: ModelConfig, folder: Path, names: Sequence[str]) -> None:
    if not any((folder / name).is_file() for name in names):
        raise CheckpointError(
            f"{config.label} has no {' and no '.join(names)}",
            hint="Give the folder of a whole checkpoint, with weights as safetensors: pickles can run code.",
        )


@contextmanager
def loadable_folder(folder: Path, files: Sequence[Path], unused: Sequence[str]) -> Iterator[Path]:
    """A folder for `from_pretrained`: without the files of weights that were not downloaded, since it opens all."""
    if len(files) == len(shards(folder, ())):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="specdec-") as made:
        view = Path(made)
        for path in (*folder.glob("*.json"), *files):
            (view / path.name).symlink_to(path.resolve())
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        placed = {name: file for name, file in index["weight_map"].items() if not name.startswith(tuple(unused))}
        (view / INDEX).unlink()
        (view / INDEX).write_text(json.dumps({**index, "weight_map": placed}), encoding="utf-8")
        yield view


def require_complete(name: str, info: Mapping[str, Any], *, ignored: tuple[str, ...]) -> None:
    """Refuses a load that left weights random, as transformers does with a warning, dropped or misshapen.

    Parameters with one of the `ignored` prefixes are not used, and may be missing or of any shape.
    """
    misshapen = [key for key, *_ in info.get("mismatched_keys") or ()]
    faults = {"lacks": info["missing_keys"], "has unexpected": info["unexpected_keys"], "has misshapen": misshapen}
    for what, found in faults.items():
        if keys := sorted(key for key in found if not key.startswith(ignored)):
            named = ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
            raise CheckpointError(
                f"{name} {what} weights: {named}",
                hint="The config.json and the weights do not belong together: download the checkpoint again.",
            )


@contextmanager
def loading_errors(config: ModelConfig, *, offline: bool) -> Iterator[None]:
    """Turns what transformers, safetensors and the hub raise while loading into a CheckpointError; silences them."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except SpecdecError:
        raise
    except Exception as error:
        raise _refusal(config, error, offline=offline) from error
    finally:
        if bars:
            logging.enable_progress_bar()
        logging.set_verbosity(verbosity)


def _refusal(config: ModelConfig, error: Exception, *, offline: bool) -> CheckpointError:
    """A sentence about an error of the libraries: OSError, ValueError, RuntimeError, KeyError, SafetensorError..."""
    says = f"cannot be loaded: {type(error).__name__}: {first_line(error)}"
    hint = "A file of the checkpoint may be damaged: download it again. `specdec doctor` checks the packages."
    if isinstance(error, ImportError):
        hint = "Install the package, or choose another attention or quantization; `specdec doctor` checks packages."
    elif not is_local(config.source) and isinstance(error, OSError):
        return not_downloaded(config.label, error, "model", offline=offline)
    return CheckpointError(f"{config.label} {says}", hint=hint)


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
