"""Finds the rows of a table about a recording: by its path as far as the table gives one, then by its name."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, Generic, TypeVar

from specdec_cli.errors import ReferencesError

_Item = TypeVar("_Item")

SOUND_ENDINGS: Final = (
    r"3gp|aac|ac3|aif[cf]?|amr|au|avi|bwf|caf|flac|m4[abv]|mk[av]|mov|mp[1234]|mpe?ga?|nist|og[agv]|opus|rf64|snd|sp[hx]"
    r"|w64|wave?|webm|wma"
)
"""Pattern of the endings of recordings: folders are searched for them, and tables may leave them out."""
CUT_ENDINGS: Final = (".rttm", ".textgrid", ".srt", ".vtt", ".json", ".jsonl", ".ndjson", ".csv", ".tsv")
"""Endings of files of cuts."""
_ROOT: Final = 0
SOUND_FILE: Final = re.compile(rf"(.+)\.(?:{SOUND_ENDINGS})", re.IGNORECASE | re.DOTALL)
"""Matches the name of a recording; its group is the name without the ending."""


def ending(path: Path) -> str:
    """The ending of a file's name in lower case, without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


class ByRecording(Generic[_Item]):
    """Items by the recordings that a table names: a tree of paths from their last part up, searched in linear time.

    Composed and decomposed letters match (NFC), and blanks match `_`, as RTTM writes them. An ending is taken for
    one only if recordings have it: `talk.v2` is a whole name.
    """

    def __init__(self, source: object) -> None:
        self._source = source
        self._items: dict[str, list[_Item]] = {}  # by the path as the table has it
        self._nodes: dict[tuple[int, str], int] = {}  # a node of the tree and the part above it -> the node there
        self._through = defaultdict[int, list[str]](list)  # node -> paths of the table that lead through it
        self._whole = defaultdict[int, list[str]](list)  # node -> those of which it is the first part
        self._called: Counter[str] = Counter()
        self._about = defaultdict[int, dict[tuple[str, ...], str]](dict)  # node -> recordings that its paths are about
        self._endings = defaultdict[tuple[str, ...], dict[str, str]](dict)  # path without ending -> name -> recording

    def add(self, name: str, item: _Item) -> None:
        """Files an item under the path or name that the table gives."""
        if (known := self._items.get(name)) is not None:
            known.append(item)
            return
        self._items[name] = [item]
        node = _ROOT
        for part in _upwards(name):
            node = self._nodes.setdefault((node, part), len(self._nodes) + 1)
            self._through[node].append(name)
        self._whole[node].append(name)

    @property
    def names(self) -> list[str]:
        """What the table calls its recordings."""
        return list(self._items)

    def expect(self, recordings: Iterable[str]) -> None:
        """Takes the paths of all recordings. A name or path that two of them share matches neither."""
        given = [(tuple(_from_root(recording)), recording) for recording in recordings]
        for way, recording in given:
            self._endings[way].setdefault(parts_of(recording)[-1], recording)
        for way, recording in dict(given).items():
            self._called[way[0]] += 1
            self._about[self._follow(way)[2]][way] = recording

    def of(self, recording: str) -> list[_Item]:
        """The items of a recording; none if the table does not name it.

        Raises:
            ReferencesError: the table names several that it may be, or several recordings may be what it names.
        """
        way = _from_root(recording)
        node, shared, whole = self._follow(way)
        if whole != _ROOT:
            if len(about := sorted(self._about[whole].values())) > 1:
                self._refuse(f"{self._whole[whole][0]} of {self._source}", about)
            return self._of_ending(recording, self._whole[whole])
        names = self._through.get(node, [])
        if any(_upwards(name) != _upwards(names[0]) for name in names):
            self._refuse(recording, names, f" of {self._source}")
        if shared == 1 and self._called[way[0]] > 1:
            return []
        return self._of_ending(recording, names)

    def _follow(self, way: Iterable[str]) -> tuple[int, int, int]:
        """Follows a path down the tree: the last node, its depth, and the last node of a whole path, or the root."""
        node, shared, whole = _ROOT, 0, _ROOT
        for part in way:
            if (above := self._nodes.get((node, part))) is None:
                break
            node, shared = above, shared + 1
            whole = node if node in self._whole else whole
        return node, shared, whole

    def _of_ending(self, recording: str, names: Sequence[str]) -> list[_Item]:
        """The items of the name as it is or without its ending; else those of its only other ending."""
        last = parts_of(recording)[-1]
        lasts = {name: parts_of(name)[-1] for name in names}
        found = [name for name in names if lasts[name] in (last, _stem(last))]
        found = found or [name for name in names if _alike(lasts[name]) in (_alike(last), _alike(_stem(last)))]
        others = self._endings.get(tuple(_from_root(recording)), {}).keys() - {last}
        if others:  # talk.wav and talk.flac: a row has to name the ending
            own = [name for name in names if lasts[name] == last]
            if not own and any(lasts[name] not in others for name in names):
                self._refuse(f"{names[0]} of {self._source}", sorted({last, *others}))
            return [item for name in own for item in self._items[name]]
        if not found and len({*lasts.values()}) > 1:
            self._refuse(recording, names, f" of {self._source}")
        return [item for name in found or names for item in self._items[name]]

    def _refuse(self, what: str, may_be: Sequence[str], of: str = "") -> None:
        hint = f"Name recordings in {self._source} by as much of their path as makes them different."
        raise ReferencesError(f"{what} may be {' or '.join(may_be[:3])}{of}.", hint=hint)


def _from_root(recording: str) -> list[str]:
    return _upwards(os.path.abspath(recording.replace("\\", "/")))


def _upwards(path: str) -> list[str]:
    """The name without its ending, and the folders above it from the last one on, as they are compared."""
    *folders, last = parts_of(path)
    return [_alike(part) for part in (_stem(last), *reversed(folders))]


def as_spelled(path: str, spelled: MutableMapping[str, Mapping[str, str]]) -> str:
    """The path with every part as its folder spells it: in composed letters (NFC) or, as on a Mac, in decomposed ones.

    `spelled` keeps the names in folders that were listed: composed name -> name.
    """
    folder, name = os.path.split(path)
    if path.isascii() or not name or os.path.lexists(path):
        return path
    folder = as_spelled(folder, spelled)
    if folder not in spelled:
        with suppress(OSError):
            spelled[folder] = {unicodedata.normalize("NFC", known): known for known in os.listdir(folder or ".")}
    return os.path.join(folder, spelled.get(folder, {}).get(unicodedata.normalize("NFC", name), name))


@lru_cache(maxsize=4096)
def parts_of(path: str) -> tuple[str, ...]:
    """Folders and name of a path as any system writes it, in composed letters."""
    parts = unicodedata.normalize("NFC", path.strip()).replace("\\", "/").split("/")
    return tuple(part for part in parts if part not in ("", ".")) or ("",)


def _stem(name: str) -> str:
    found = SOUND_FILE.fullmatch(name)
    return found[1] if found else name


def _alike(part: str) -> str:
    return "_".join(part.replace('"', "'").split())
