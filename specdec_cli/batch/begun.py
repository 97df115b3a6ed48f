"""Recordings that are being decoded, noted beside the output, so that what kills a process does not kill the next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import specdec_cli
from specdec_cli.store import beside
from specdec_cli.targets import writing

DIED: Final = "ends the process that decodes it"
"""Part of the error of a recording that killed a process."""

_DECODE: Final = """
import contextlib, json, sys
from specdec_cli.audio import open_recording
from specdec_cli.errors import SpecdecError
with contextlib.suppress(SpecdecError, MemoryError):
    for _ in open_recording(**json.loads(sys.argv[1])).pieces():
        pass
"""


class Note:
    """The note of one output. Use it as a context manager: only a process that is killed leaves it behind.

    Args:
        output: of the batch, which this process has locked.
        suspects: paths of recordings that killed a process before, as far as the output says.
    """

    def __init__(self, output: Path, suspects: Collection[str] = ()) -> None:
        self._path = beside(output, "begun")
        self._begun: Counter[str] = Counter()
        self._turn = threading.Lock()
        self.suspects = frozenset(suspects) | frozenset(self._left_behind())

    def __enter__(self) -> Self:
        self._write()
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)

    @contextmanager
    def decoding(self, path: str) -> Iterator[None]:
        """Notes the recording while the block decodes it."""
        self._note(path, 1)
        try:
            yield
        finally:
            self._note(path, -1)

    def _note(self, path: str, change: int) -> None:
        with self._turn:
            self._begun[path] += change
            self._write()

    def _write(self) -> None:
        with writing(self._path):
            self._path.write_text(json.dumps(sorted({*(+self._begun)})), encoding="utf-8")

    def _left_behind(self) -> list[str]:
        try:
            left = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # none, or torn
            return []
        return [path for path in left if isinstance(path, str)]


def died(decoding: Mapping[str, object]) -> int | None:
    """Decodes a recording in a process of its own; the number of the signal that ended it, None if it lived.

    Args:
        decoding: arguments of `open_recording`.
    """
    root = str(Path(specdec_cli.__file__).parents[1])
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        [sys.executable, "-c", _DECODE, json.dumps(decoding)],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return -ended.returncode if ended.returncode < 0 else None
