"""A folder of recordings, outputs and files of others, in which commands run on stand-ins for models."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.captioning.job import Job
from specdec_cli.captioning.tasks import Outcome
from specdec_cli.cli.app import command_named
from specdec_cli.console.view import View
from specdec_cli.errors import SpecdecError
from specdec_cli.labels import Lexicon
from tests.captioning.disk import Disk, Killed
from tests.captioning.stand_in import Asked, Engine, StandIn, sound

OUTPUT, EXPORTS = "o.jsonl", "out"
OTHERS = {
    "notes.txt": "mine",
    "d/notes.txt": "not a recording",
    ".o.jsonl.new": "mine",
    ".specdec-list": "mine",
    "o.csv": "mine",
    "mine.jsonl": '{"schema":1,"file":"/data/1.wav","text":"mine"}\n',
    "table.jsonl": '{"file": "a.wav", "id": "1"}\n',
    "passes.jsonl": '{"recording":1,"file":"a.wav","sha256":"0","setup":{},"edge":{},"cloud":{}}\n',
    "zero.img": "\0" * 9000 + "data",
    "blank.jsonl": " " * 18_000,
    "late.jsonl": "\n" * 17_000 + '{"schema":1,"file":"/data/1.wav"}\n',
    "mine.svg": "<svg><desc>Drawn after one of specdec's</desc></svg>\n",
}
"""Files of a user. Some look like specdec's own."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: with a code, or an error (`Killed` and Ctrl-C are errors here)."""

    code: int | None
    error: BaseException | None
    said: str  # on stderr
    asked: Sequence[Asked]  # what the model was given


class Box:
    """The folder. Recordings are below `d`."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.output, self.state = folder, folder / OUTPUT, folder / "state" / "specdec" / "written"
        self._patch = patch
        (folder / "d").mkdir(parents=True)
        for name, text in OTHERS.items():
            (folder / name).write_text(text, "utf-8")
        shipped = Lexicon.shipped()
        patch.setattr(Lexicon, "read", classmethod(lambda cls, path=None: shipped))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.chdir(folder)  # last: what fails before it leaves the place of other tests as it is
        self.disk = Disk(folder, patch)

    def put(self, name: str, content: str) -> None:
        """Gives a recording a content."""
        (self.folder / "d" / name).write_bytes(sound(content))

    def run(
        self,
        *arguments: str,
        command: str = "batch",
        fails: Iterable[str] = (),
        before: Callable[[], None] = lambda: None,
        after: Callable[[Outcome], None] = lambda _: None,
    ) -> Ended:
        """Runs a command; `fails`: contents (SHA-256) whose captioning fails.

        `before` is called before a piece is captioned, and `after` when what became of it is written.
        """
        disk = self.disk
        disk.calls = []

        def written(outcome: Outcome) -> None:
            if outcome.line is not None and not disk.dead:
                assert disk.synced(self.output), "a line is not on the disk when the run goes on"
            after(outcome)

        given: list[Asked] = []
        errors, prints = io.StringIO(), io.TextIOWrapper(io.BytesIO())

        def engine(job: Job, view: View, size: object = None) -> Engine:
            return Engine(job, view, StandIn(job, given, frozenset(fails), before), written)

        code, error, inode = None, None, self.output.stat().st_ino if self.output.is_file() else 0
        asked = [command, "--mode=edge", "-q", *arguments]
        with self._patch.context() as patched, redirect_stderr(errors), redirect_stdout(prints):
            for name in ("batch._Together", "caption._OneByOne"):
                patched.setattr(f"specdec_cli.cli.{name}", engine)
            patched.setattr(sys, "argv", ["specdec", *asked])
            try:
                code = command_named(command).main(asked[1:], standalone_mode=False).run()
            except (SpecdecError, KeyboardInterrupt, Killed) as end:
                error = end.with_traceback(None)  # whose frames hold the lock of a process that is gone
                error.__context__ = error.__cause__ = None
        if error is None and not disk.dead and self.output.is_file() and self.output.stat().st_ino != inode:
            assert disk.synced(self.output), "a file that takes another's place is not on the disk"
        disk.dead = False
        return Ended(code, error, errors.getvalue(), given)

    def lines(self) -> list[dict[str, Any]]:
        """The whole lines of the output."""
        if not self.output.is_file():
            return []
        return [json.loads(line) for line in self.output.read_bytes().splitlines(keepends=True) if line[-1:] == b"\n"]

    def contents(self) -> dict[str, bytes]:
        """Name of each file -> what it holds, without the list of what specdec wrote."""
        found: dict[str, bytes] = {}
        for at, _, names in os.walk(self.folder):
            for name in names:
                path = Path(at, name)
                if path != self.state:
                    found[str(path.relative_to(self.folder))] = path.read_bytes()
        return found
