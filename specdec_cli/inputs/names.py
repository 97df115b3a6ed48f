"""Finding what a table says of a recording: by its path as far as the table gives one, then by its name alone."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Generic, TypeVar

from specdec_cli.errors import ReferencesError

_Item = TypeVar("_Item")

SOUND_ENDINGS: Final = (
    r"3gp|aac|ac3|aif[cf]?|amr|au|avi|bwf|caf|flac|m4[abv]|mk[av]|mov|mp[1234]|mpe?ga?|nist|og[agv]|opus|rf64|snd|sp[hx]"
    r"|w64|wave?|webm|wma"
)
"""Pattern of the endings by which a folder is searched for recordings, and that a table may write or leave out."""
_ENDING: Final = re.compile(rf"(.+)\.(?:{SOUND_ENDINGS})", re.IGNORECASE | re.DOTALL)


@dataclass(slots=True, eq=False)
class _Node(Generic[_Item]):
    """A folder on the way up from a name; `here`: items of the path that ends here, by the name as it is written."""

    above: dict[str, _Node[_Item]] = field(default_factory=dict)
    here: dict[str, list[_Item]] = field(default_factory=dict)
    paths: int = 0  # different paths that end here or above

    def written(self) -> Iterator[list[_Item]]:
        """The items of every path that ends here or above."""
        for node in _nodes(self):
            yield from node.here.values()


class ByRecording(Generic[_Item]):
    """Items by the recordings that a table names: a tree of paths from their last part upwards, so that it is linear.

    Composed and decomposed letters are alike (NFC), and blanks are like `_`, as RTTM writes them. An ending counts as
    one only if recordings have it: `talk.v2` is a whole name.
    """

    def __init__(self, source: object) -> None:
        self._source, self._root = source, _Node[_Item]()
        self._lists: dict[str, list[_Item]] = {}  # by the path as the table has it
        self._called: Counter[str] | None = None
        self._first: dict[int, str] = {}  # identity of a list of items -> path as the table has it

    def add(self, name: str, item: _Item) -> None:
        """Files an item under the path or name that the table gives."""
        if (known := self._lists.get(name)) is not None:
            known.append(item)
            return
        parts = parts_of(name)
        node, way = self._root, [self._root]
        for part in (_stem(parts[-1]), *parts[-2::-1]):
            node = node.above.setdefault(_alike(part), _Node())
            way.append(node)
        if not node.here:
            for passed in way:
                passed.paths += 1
        items = self._lists[name] = node.here.setdefault(parts[-1], [])
        self._first.setdefault(id(items), name)
        items.append(item)

    def expect(self, recordings: Iterable[str]) -> None:
        """Tells which recordings there are: a name that two of them share is not enough to find one by."""
        self._called = Counter(_alike(_stem(parts_of(path)[-1])) for path in set(recordings))

    def of(self, recording: str) -> list[_Item]:
        """The items of a recording; none if the table does not name it.

        Raises:
            ReferencesError: the table names several that it may be; says which.
        """
        *folders, last = parts_of(os.path.abspath(recording.replace("\\", "/")))
        called = _alike(_stem(last))
        if (node := self._root.above.get(called)) is None:
            return []
        whole, shared = (node if node.here else None), 1
        for folder in reversed(folders):
            if (inner := node.above.get(_alike(folder))) is None:
                break
            node, shared = inner, shared + 1
            whole = node if node.here else whole
        if whole is not None:
            return self._of_ending(recording, whole, last)
        if node.paths > 1:
            self._refuse(recording, node.written())
        if shared == 1 and self._called is not None and self._called[called] > 1:
            return []
        return self._of_ending(recording, next(other for other in _nodes(node) if other.here), last)

    def _of_ending(self, recording: str, node: _Node[_Item], last: str) -> list[_Item]:
        """The items of the very name, and of that without an ending; else of the only other ending."""
        found = [items for name, items in node.here.items() if name in (last, _stem(last))]
        found = found or [
            items for name, items in node.here.items() if _alike(name) in (_alike(last), _alike(_stem(last)))
        ]
        if not found and len(node.here) > 1:
            self._refuse(recording, node.here.values())
        return [item for items in found or node.here.values() for item in items]

    def _refuse(self, recording: str, found: Iterable[list[_Item]]) -> None:
        names = [self._first[id(items)] for items, _ in zip(found, range(3), strict=False)]
        raise ReferencesError(
            f"{recording} may be {' or '.join(names)} of {self._source}.",
            hint="Name recordings there by as much of their path as makes them different.",
        )


def _nodes(node: _Node[_Item]) -> Iterator[_Node[_Item]]:
    nodes = [node]
    while nodes:
        node = nodes.pop()
        yield node
        nodes += node.above.values()


@lru_cache(maxsize=4096)
def parts_of(path: str) -> tuple[str, ...]:
    """Folders and name of a path as any system writes it, in composed letters."""
    parts = unicodedata.normalize("NFC", path.strip()).replace("\\", "/").split("/")
    return tuple(part for part in parts if part not in ("", ".")) or ("",)


def _stem(name: str) -> str:
    found = _ENDING.fullmatch(name)
    return found[1] if found else name


def _alike(part: str) -> str:
    return "_".join(part.replace('"', "'").split())
