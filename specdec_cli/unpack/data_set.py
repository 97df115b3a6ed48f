"""Which files a data set is made of, and to which split each belongs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specdec_cli.errors import ConfigError
from specdec_cli.format import count

PARQUET: Final = (".parquet",)
ARROW: Final = (".arrow", ".feather")
TARS: Final = (".tar", ".tar.gz", ".tgz")
_ENDINGS: Final = (*PARQUET, *ARROW, *TARS)
_PART: Final = re.compile(r"(.*?)[-_.]?\d+(?:-of-\d+)?(?:-[0-9a-f]{16})?")  # train-00000-of-00002, shard_000012
_NAMELESS: Final = ("", "data", "part", "shard", "shards", "dataset")
_LISTS: Final = ("metadata.csv", "metadata.jsonl", "metadata.parquet")  # of AudioFolder, whose recordings are files


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a data set; `label` is its path within the data set."""

    path: Path
    label: str
    split: str  # "train", or "ihm/train" of a subset

    def ends_in(self, endings: Sequence[str]) -> bool:
        """Whether it is a file of this kind."""
        return self.path.name.lower().endswith(tuple(endings))


@dataclass(frozen=True, slots=True)
class DataSet:
    """The files of a data set, or of one split of it, in order."""

    root: Path
    split: str | None
    shards: tuple[Shard, ...]

    @property
    def splits(self) -> list[str]:
        """The names of the splits that it has."""
        return list(dict.fromkeys(shard.split for shard in self.shards))

    @property
    def label(self) -> str:
        """What identifies it when a run is resumed: "emotions:train, 2 files, 1,203,411 bytes"."""
        name = self.root.name if len(self.shards) > 1 else self.shards[0].label
        split = f":{self.split}" if self.split else ""
        size = sum(shard.path.stat().st_size for shard in self.shards)
        return f"{name}{split}, {count(len(self.shards), 'file')}, {size:,} bytes"

    @classmethod
    def find(cls, named: str) -> DataSet:
        """The data set that a file or folder is; a split is named behind a colon, as in `emotions:train`.

        Raises:
            ConfigError: there is none, or it has no such split.
        """
        path, split = Path(named), None
        if not os.path.lexists(path) and ":" in named:
            before, _, split = named.rpartition(":")
            path = Path(before)
        if not path.exists():
            hub = f"hf download {path} --repo-type dataset --local-dir {path.name}"
            hint = f"A data set of the hub is downloaded first: {hub}" if _like_hub(path) else "Check the spelling."
            raise ConfigError(f"There is no data set {path}.", hint=hint)
        root = path if path.is_dir() else path.parent
        files = sorted(file for file in path.rglob("*") if _holds_rows(file, root)) if path.is_dir() else [path]
        found = tuple(Shard(file, str(file.relative_to(root)), _split_of(file.relative_to(root))) for file in files)
        if not found or not found[0].ends_in(_ENDINGS):
            raise _no_data_set(path)
        chosen = tuple(shard for shard in found if split in (None, shard.split, shard.split.rpartition("/")[2]))
        if not chosen:
            hint = f"Splits: {', '.join(cls(root, None, found).splits)}."
            raise ConfigError(f"{path} has no split {split!r}.", hint=hint)
        return cls(root.resolve(), split, chosen)


def _holds_rows(file: Path, root: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(root).parts)
    cached = file.name.startswith("cache-")  # what `datasets` keeps beside a data set that it was saved from
    return file.name.lower().endswith(_ENDINGS) and not hidden and not cached and file.is_file()


def _split_of(file: Path) -> str:
    """The split by a file's name, or by its folder if the name is a mere number; behind the folder of a subset."""
    stem = file.name[: -len(next((end for end in _ENDINGS if file.name.lower().endswith(end)), file.suffix)) or None]
    part = _PART.fullmatch(stem)
    name = part[1] if part else stem
    folders = [folder for folder in file.parts[:-1] if folder not in _NAMELESS]
    if name.lower() in _NAMELESS:
        name = folders.pop() if folders else "all"
    return "/".join([*folders, name] if name not in folders[-1:] else folders)


def _like_hub(path: Path) -> bool:
    return len(path.parts) == 2 and not path.is_absolute() and not path.parts[0].startswith((".", "~"))


def _no_data_set(path: Path) -> ConfigError:
    listed = next((name for name in _LISTS if (path / name).is_file()), None) if path.is_dir() else None
    hint = f"It takes {', '.join(_ENDINGS)}, or a folder of them."
    if listed is not None:
        hint = f"Its recordings are files already: specdec batch --manifest {path / listed}"
    return ConfigError(f"{path} is no data set to unpack.", hint=hint)
