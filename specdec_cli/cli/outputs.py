"""The file or files that --output names, by their endings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from specdec_cli.errors import ConfigError, SpecdecError
from specdec_cli.export.formats import SUFFIXES, export_file, format_of, takes_several
from specdec_cli.export.recordings import Stored
from specdec_cli.inputs.manifest import Inputs
from specdec_cli.targets import STDOUT, TRANSCRIPTS, Kind, Targets
from specdec_cli.types import ExportFormat

ENDINGS: Final = ", ".join(SUFFIXES.values())


def by_ending(given: Sequence[Path] | None, kinds: Sequence[Kind], targets: Targets) -> list[Path | None]:
    """The files that --output names, one of each kind, by their endings; None where there is none of a kind.

    Raises ConfigError if an ending is of no kind, or two files are of one; else as `Targets.refuse` does.
    """
    found: dict[str, Path] = {}
    for path in given or ():
        kind = next((kind for kind in kinds if path.suffix.lower() in kind.suffixes), kinds[0])
        if path.suffix.lower() not in kind.suffixes and not path.exists():
            endings = [" or ".join(each.suffixes) for each in kinds]
            hint = f"Name it {path.stem}{kind.suffixes[0]}; specdec export writes transcripts in other formats."
            raise ConfigError(f"--output {path} does not end in {' or '.join(endings)}.", hint=hint)
        if (other := found.setdefault(kind.name, path)) != path:
            raise ConfigError(f"--output {other} and {path} are both {kind.name}.", hint="Name one of them.")
        targets.refuse("--output", path, kind)
    return [found.get(kind.name) for kind in kinds]


@dataclass(frozen=True, slots=True)
class CaptionsFile:
    """Where captions go. A later run resumes transcripts only."""

    path: Path | None
    format: ExportFormat | None  # None: transcripts, or nothing is kept
    targets: Targets

    @classmethod
    def of(cls, path: Path | None, targets: Targets) -> CaptionsFile:
        """The file of captions that --output names.

        Raises ConfigError if its ending is unknown; else as `Targets.refuse` does.
        """
        form = None if path is None else format_of(path)
        if path not in (None, STDOUT) and form is None and path.suffix.lower() != ".jsonl" and not path.exists():
            hint = f"Name it {path.stem}.jsonl for transcripts, or after an export: {ENDINGS}."
            raise ConfigError(f"--output {path} has no ending of a format that is written.", hint=hint)
        if form is None:
            targets.refuse("--output", path, TRANSCRIPTS)
        elif path is not None:
            targets.require(path)
        return cls(path, form, targets)

    @property
    def resumable(self) -> bool:
        """Whether a later run can resume it."""
        return self.path is not None and self.format is None

    def require_one(self, several: bool, hint: str) -> None:
        """Raises ConfigError if the file holds one recording and there are several."""
        if self.format is not None and several and not takes_several(self.format):
            raise ConfigError(f"--output {self.path} holds one recording, and there are several.", hint=hint)

    @contextmanager
    def journal(self, inputs: Inputs | None = None) -> Iterator[Path | None]:
        """The file of transcripts: --output itself, or a temporary one, which is exported however this ends.

        Raises:
            SpecdecError: the export cannot be written; the transcripts stay, and the hint says where.
        """
        if self.path is None or self.format is None:
            yield self.path
            return
        folder = Path(mkdtemp(prefix="specdec-"))
        journal = folder / f"{self.path.stem}.jsonl"
        try:
            yield journal
        finally:
            if journal.is_file():
                self._export(self.path, self.format, journal, inputs)
            shutil.rmtree(folder)

    def _export(self, path: Path, form: ExportFormat, journal: Path, inputs: Inputs | None) -> None:
        base, items = (os.getcwd(), ()) if inputs is None else (inputs.base, inputs)
        kept = f"The captions are in {journal}: specdec export {journal} --output FILE"
        try:
            stored = Stored.read(journal, base, items)
            if form == "csv" or any(stored):
                problems = export_file(stored, form, path, self.targets).problems
                if problems:
                    raise problems[0]
        except SpecdecError as error:
            raise type(error)(error.message, hint=kept) from error
