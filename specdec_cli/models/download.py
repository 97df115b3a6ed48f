"""Downloads a hub checkpoint's files, and reports what makes loading take long: downloads and compilations."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from huggingface_hub import constants, is_offline_mode, snapshot_download

from specdec_cli.config import ModelConfig
from specdec_cli.errors import CheckpointError, first_line

INDEX: Final = "model.safetensors.index.json"
WEIGHTS: Final = "model.safetensors"
_SMALL: Final = ("*.json", "*.jinja", "*.txt", "*.model")  # never pickles, code, or other formats
_KEPT_FREE: Final = 1 << 30  # bytes of the disk that stay free
_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Download:
    """The weights of a checkpoint that speech needs and the hub's cache lacks."""

    name: str
    total: int  # bytes
    cache: Path
    free: int  # bytes on its disk

    @property
    def fits(self) -> bool:
        """Whether the disk has room for it."""
        return self.total + _KEPT_FREE <= self.free

    def so_far(self, done: int) -> str:
        """How much of it is done, in words."""
        return f"{size(done)} of {size(self.total)}"

    def __str__(self) -> str:
        return f"{self.name}: {size(self.total)} of weights to download; {size(self.free)} free in {self.cache}"


def size(number: int) -> str:
    """Bytes in the unit that file managers show."""
    return f"{number / 1e9:.1f} GB" if number >= 1e8 else f"{number / 1e6:.1f} MB"


@dataclass(frozen=True, slots=True)
class Compilation:
    """The compiled steps of a model that is being loaded."""

    label: str
    total: int  # steps, one for each number of clips and room

    def __str__(self) -> str:
        return f"compiling {self.total} steps of {self.label}; that takes minutes the first time"

    def so_far(self, done: int) -> str:
        """How much of it is done, in words."""
        return f"{done} of {self.total} steps"


LoadWatch: TypeAlias = Callable[[Download | Compilation, int], None]
"""Called with what takes long and how much of it is done, in bytes or steps: at its start, and as it goes on."""


def snapshot(config: ModelConfig, *, offline: bool, names: Sequence[str] = _SMALL, **how: Any) -> Any:
    """Downloads files of a hub checkpoint; returns their folder, or what the hub answers to `how`.

    By default the small files: configuration, index, tokenizer, templates.
    """
    how |= {"revision": config.revision or "main", "local_files_only": offline, "allow_patterns": list(names)}
    return snapshot_download(config.source, **how)


def not_downloaded(config: ModelConfig, error: Exception, setting: str, *, offline: bool) -> CheckpointError:
    """The error of a hub checkpoint that cannot be downloaded. Its hint: `setting` may name a folder instead."""
    why, hint = f"{type(error).__name__}: {first_line(error)}", "Check the name, the network and your access"
    if offline or is_offline_mode():
        switch = "runtime.offline" if offline else "HF_HUB_OFFLINE"
        why, hint = f"{switch} forbids downloads, and the hub's cache lacks it", "Allow them (runtime.offline: false)"
    hint = f"{hint}, or download it and set `{setting}` to its folder."
    return CheckpointError(f"{config.label} cannot be loaded: {why}", hint=hint)


def shards(folder: Path, unused: Iterable[str]) -> list[str]:
    """The files of a checkpoint that hold weights without an `unused` prefix, as transformers finds them.

    A whole file goes before an index beside it, which may be left from before the weights were saved again. Raises
    ValueError if the index is none, or names files that are no safetensors in the folder.
    """
    if (folder / WEIGHTS).is_file() or not (folder / INDEX).is_file():
        return [WEIGHTS]
    placed = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
    files = sorted({file for name, file in placed.items() if not name.startswith(tuple(unused))})
    for file in files:
        if Path(file).is_absolute() or ".." in Path(file).parts or not file.endswith(".safetensors"):
            raise ValueError(f"{INDEX} names {file!r}, which is no safetensors file of the folder")
    if not files:
        raise ValueError(f"{INDEX} names no files of weights")
    return files


def plan(config: ModelConfig, weights: Sequence[Path]) -> Download:
    """What `fetch` would download. Asks the hub for sizes."""
    found = snapshot(config, offline=False, names=[path.name for path in weights], dry_run=True)
    cache = Path(constants.HF_HUB_CACHE)
    disk = next(path for path in (cache, *cache.parents) if path.exists())
    missing = sum(file.file_size or 0 for file in found if file.will_download)
    return Download(config.source, missing, cache, shutil.disk_usage(disk).free)


def fetch(config: ModelConfig, weights: Sequence[Path], watch: LoadWatch | None) -> None:
    """Downloads the files of weights that are missing. Raises CheckpointError if the disk has no room for them.

    `watch` is told how far the hub's cache has grown; the hub's own bars would be drawn across the display.
    """
    download, blobs, done = plan(config, weights), weights[0].parents[2] / "blobs", threading.Event()
    if not download.fits:
        raise CheckpointError(
            f"there is no room for {download}",
            hint="Free some space, or set HF_HUB_CACHE to a folder on a larger disk.",
        )
    watch, before = watch or (lambda *_: None), _bytes_in(blobs)

    def report() -> None:
        while not done.wait(_POLL_S):
            with suppress(OSError):  # a file that was finished has another name now
                watch(download, min(_bytes_in(blobs) - before, download.total))

    watch(download, 0)
    thread = threading.Thread(target=report, name="specdec download", daemon=True)
    thread.start()
    try:
        snapshot(config, offline=False, names=[path.name for path in weights])
    finally:
        done.set()
        thread.join()


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*"))
