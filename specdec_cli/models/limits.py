"""Limits of a checkpoint's files: their kind, their size and the numbers in them.

Nobody vouches for a checkpoint. A pipe or a device in place of a file never ends. A number that is too large fills the
memory before a weight is found missing. The limits lie far above what published checkpoints hold.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Final

import torch
from safetensors import safe_open
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook

from specdec_cli.errors import CheckpointError
from specdec_cli.regular_files import open_regular

_READ: Final = (".json", ".jinja", ".txt", ".model")  # endings of the files that are read beside the weights
_MOST_BYTES: Final = 128 << 20  # of each; the largest are tables of tokenizers
_MOST_OF_HEADER: Final = 16 << 20
_MOST_MODULES: Final = 4_000
_COMPUTED: Final = 1 << 24  # numbers that a model may have beyond twice those in its files: tables that it computes
_PACKED: Final = 16  # weights of two bits in 32
_NUMBERS: Final = {  # part of a key -> greatest whole number
    "layers|depth|blocks": 256,
    "experts|labels|heads": 4096,
    "mel|feature_size|n_fft|fft_length|win_length|frame_length|hop_length": 8192,
    "chunk_length|max_audio_len|seconds": 7200,
    "sampl(?:e|ing)_rate": 192_000,
    "vocab": 4_000_000,
}
_WITH_NUMBERS: Final = ("config.json", "preprocessor_config.json", "processor_config.json")


def require_readable(folder: Path, label: str) -> None:
    """Raises CheckpointError for a file that is not regular, is too large, or holds too great a number."""
    for path in sorted((*folder.glob("*"), *folder.glob("additional_chat_templates/*"))):
        if path.suffix in _READ and path.exists():
            status = path.stat()
            if S_ISDIR(status.st_mode):
                continue
            if not S_ISREG(status.st_mode):
                raise _refused(label, f"{path.name} is no regular file")
            if status.st_size > _MOST_BYTES:
                held, limit = (f"{size / 1e6:,.0f} MB" for size in (status.st_size, _MOST_BYTES))
                raise _refused(label, f"{path.name} holds {held}, and at most {limit} are read")
    for name in _WITH_NUMBERS:
        if (folder / name).is_file():
            for key, value in _numbers(_content(folder / name)):
                largest = min((limit for part, limit in _NUMBERS.items() if re.search(part, key)), default=value)
                if value > largest and not key.endswith(("_id", "_index")):
                    raise _refused(label, f"{name} sets {key} to {value:,}, and at most {largest:,} is loaded")


def _content(path: Path) -> Any:
    """The content of a JSON file; None if it is no JSON, which transformers reports."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


def _numbers(content: Any, key: str = "") -> Iterator[tuple[str, int]]:
    """All whole numbers, with their keys."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from _numbers(value, name)
    elif isinstance(content, list):
        for value in content:
            yield from _numbers(value, key)
    elif isinstance(content, int | float) and content == content // 1:
        yield key, int(content)


def require_headers(files: list[Path], label: str) -> None:
    """Raises CheckpointError for a file of weights that is not regular, or has too long a header."""
    for path in files:
        with open_regular(path) as content:
            header = int.from_bytes(content.read(8), "little")
        if _MOST_OF_HEADER < header <= path.stat().st_size:
            takes, most = (f"{size / 1e6:,.0f} MB" for size in (header, _MOST_OF_HEADER))
            raise _refused(label, f"the header of {path.name} takes {takes}, and at most {most} are read")


def _stored(files: list[Path]) -> int:
    total = 0
    for path in files:
        with safe_open(path, framework="pt") as content:
            total += sum(math.prod(content.get_slice(name).get_shape()) for name in content.offset_keys())
    return total


def outline(module_class: Any, config: Any, label: str) -> Any:
    """The module of a configuration on the meta device: names and shapes without weights.

    Raises CheckpointError if it has more parts than any model that can be loaded.
    """
    parts = 0

    def count(*_: Any) -> None:
        nonlocal parts
        parts += 1
        if parts > _MOST_MODULES:
            raise CheckpointError(
                f"the config.json of {label} makes more than {_MOST_MODULES:,} modules",
                hint="Is its config.json the one that was published?",
            )

    hook = register_module_module_registration_hook(count)
    try:
        with torch.device("meta"):
            return module_class(config)
    finally:
        hook.remove()


def require_held(module: nn.Module, files: list[Path], label: str, *, packed: bool) -> None:
    """Raises CheckpointError if a module (an outline) is far larger than what its files of weights hold.

    `packed`: a stored number may hold several weights, as in AWQ and GPTQ.
    """
    numbers = sum(each.numel() for each in (*module.parameters(), *module.buffers()))
    if numbers > 2 * (held := _stored(files) * (_PACKED if packed else 1)) + _COMPUTED:
        says = f"config.json makes a model of {numbers:,} numbers, but the files of weights hold {held:,}"
        raise _refused(label, says)


def _refused(label: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"{label} cannot be loaded: {why}", hint="Download the checkpoint again, as it was published."
    )
