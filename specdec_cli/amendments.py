"""What transformers does whenever it starts, done once or not at all: a tenth of the CPU time of a start.

It reads three thousand of its files, twice, to find out which class is in which. What it finds is kept in the cache
folder, beside the state of the folders that it was found in. And it compiles the patterns that rename the weights of
every model there is; they are compiled when they are first used.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from specdec_cli.cache import cache_folder, remember

_SCAN: Final = "create_import_structure_from_path"  # {folder: {needed packages: {file: names}}}
_FOLDER: Final = "models"


def _remember_classes(module: ModuleType) -> None:
    scan = getattr(module, _SCAN, None)
    if scan is None:  # another version
        return

    @cache
    def of_folder(folder: str) -> Any:
        with suppress(OSError):
            state = f"{sys.version} {_state(folder)}"
            memory = cache_folder("transformers") / hashlib.sha256(folder.encode()).hexdigest()[:32]
            with suppress(OSError, ValueError, TypeError, EOFError):
                known, classes = marshal.loads(memory.read_bytes())
                if known == state:
                    return classes
            found = scan(folder)
            with suppress(ValueError):
                remember(memory, marshal.dumps((state, found)))
            return found
        return scan(folder)

    def create_import_structure_from_path(module_path: str | Path) -> Any:
        path = Path(module_path)
        folder = path.parent if path.suffix == ".py" else path
        return of_folder(str(folder)) if folder.name == _FOLDER else scan(module_path)

    setattr(module, _SCAN, create_import_structure_from_path)


class _Pattern:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, pattern: str, flags: int | re.RegexFlag = 0) -> None:
        self._given = pattern, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(*self._given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copying asks for, before there is a pattern
            raise AttributeError(name)
        return getattr(self._compiled, name)

    def __deepcopy__(self, _: object) -> _Pattern:
        return self


class _LatePatterns(ModuleType):
    """The module `re`, but for `compile`."""

    compile = _Pattern

    def __getattr__(self, name: str) -> Any:
        return getattr(re, name)


def _compile_late(module: ModuleType) -> None:
    if getattr(module, "re", None) is re:
        module.re = _LatePatterns("re")  # type: ignore[attr-defined]


AMENDED: Final[dict[str, Callable[[ModuleType], None]]] = {
    "transformers.core_model_loading": _compile_late,
    "transformers.utils.import_utils": _remember_classes,
}
"""Modules, and what is to be done once they were executed; nothing where another version has other names."""


def _state(folder: str) -> str:
    """A hash that changes when a file is added to a folder or to one in it, removed or replaced."""
    with os.scandir(folder) as entries:
        seen = [(entry.name, entry.stat().st_mtime_ns) for entry in entries if entry.name != "__pycache__"]
    return hashlib.sha256(repr((os.stat(folder).st_mtime_ns, sorted(seen))).encode()).hexdigest()
