"""The file or files that --output names, by their endings, and the exports that `caption` and `batch` write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specdec_cli.captioning.job import Job
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError, SpecdecError
from specdec_cli.export.endings import FORMATS, SUFFIXES, format_of, takes_several
from specdec_cli.format import count
from specdec_cli.targets import STDOUT, TRANSCRIPTS, FileKind, Targets
from specdec_cli.text import chosen
from specdec_cli.types import ExportFormat

if TYPE_CHECKING:
    from specdec_cli.export.folder import Written
    from specdec_cli.export.recordings import Stored

ENDINGS: Final = ", ".join(SUFFIXES.values())
_LISTED: Final = 5


def by_ending(given: Sequence[Path] | None, kinds: Sequence[FileKind], targets: Targets) -> list[Path | None]:
    """The files that --output names, one of each kind, by their endings; None where there is none of a kind.

    Raises ConfigError if an ending is of no kind, or two files are of one; else as `Targets.refuse` does.
    """
    found: dict[str, Path] = {}
    for path in given or ():
        kind = next((kind for kind in kinds if path.suffix.lower() in kind.suffixes), kinds[0])
        if path.suffix.lower() not in kind.suffixes and not path.exists():
            endings = [" or ".join(each.suffixes) for each in kinds]
            hint = f"Name it {kind.named(path)}; specdec export writes transcripts in other formats."
            raise ConfigError(f"--output {path} does not end in {' or '.join(endings)}.", hint=hint)
        if (other := found.setdefault(kind.name, path)) != path:
            raise ConfigError(f"--output {other} and {path} are both {kind.name}.", hint="Name one of them.")
        targets.refuse("--output", path, kind)
    return [found.get(kind.name) for kind in kinds]


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where captions go: transcripts, and exports of them when the run ends.

    Attributes:
        transcripts: the file that is appended to and resumed; None: nothing is kept.
        file: the export that --output names, in place of the transcripts beside it; None: it names these.
        formats: those of --export.
        folder: where the files of `formats` go.
    """

    transcripts: Path | None
    file: Path | None
    formats: Sequence[ExportFormat]
    folder: Path | None
    targets: Targets

    @classmethod
    def of(cls, output: Path | None, exports: str | None, targets: Targets, folder: Path | None = None) -> Outputs:
        """What --output, --export and --export-dir (`folder`) ask for.

        Raises ConfigError if an ending or a format is unknown, or nothing is to be exported; else as `Targets.refuse`.
        """
        if exports is None and folder is not None:
            raise ConfigError("--export-dir needs --export, which is not given.", hint="E.g. --export textgrid")
        if output is None and exports is not None:
            hint = "Name one: --output FILE.jsonl. One file of one format needs no --export: --output FILE.srt"
            raise ConfigError("--export reads transcripts, and --output names none.", hint=hint)
        formats = () if exports is None else chosen(exports, FORMATS, "--export", "format")
        form = None if output in (None, STDOUT) else format_of(output)
        if output not in (None, STDOUT) and form is None and output.suffix.lower() != ".jsonl" and not output.exists():
            hint = f"Name it {output.stem.removesuffix('.jsonl')}.jsonl for transcripts, or after an export: {ENDINGS}."
            raise ConfigError(f"--output {output} has no ending of a format that is written.", hint=hint)
        if output is not None and form is not None:
            targets.require(output)
        transcripts = output if form is None or output is None else output.with_suffix(".jsonl")
        targets.refuse("--output", transcripts, TRANSCRIPTS)
        folder = None if transcripts is None else folder_of(transcripts, folder, "--export-dir")
        if formats and folder is not None and folder.exists() and not folder.is_dir():
            raise ConfigError(f"--export: {folder} is not a folder.", hint="Name one: --export-dir FOLDER")
        return cls(transcripts, None if form is None else output, formats, folder, targets)

    @property
    def named(self) -> Path | None:
        """The file that --output names."""
        return self.file or self.transcripts

    def require_one(self, several: bool, hint: str) -> None:
        """Raises ConfigError if --output names a file of one recording and there are several."""
        form = None if self.file is None else format_of(self.file)
        if form is not None and several and not takes_several(form):
            raise ConfigError(f"--output {self.file} holds one recording, and there are several.", hint=hint)

    def write(self, job: Job, view: View) -> bool:
        """Exports the transcripts, and shows the outcome; returns whether every file was written."""
        path = self.transcripts
        if path is None or not path.is_file() or not (self.file or self.formats):
            return True
        from specdec_cli.export.formats import export
        from specdec_cli.export.recordings import Stored

        base, items = (os.getcwd(), ()) if job.inputs is None else (job.inputs.base, job.inputs)
        stored = Stored.read(path, base, items)
        results: list[Written] = []
        if self.file is not None and (form := format_of(self.file)) is not None:
            asked = stored if takes_several(form) or job.inputs is None else stored.only(item.key for item in items)
            if takes_several(form) or any(asked):
                results.append(_one(asked, form, self.file, self.targets))
        if self.formats and self.folder is not None:
            results.append(export(stored, self.formats, self.folder, self.targets))
            show_written(results[-1], path, self.folder, view)
        for problem in results[0].problems if self.file is not None and results else ():
            view.failed(str(self.file), problem)
        return not any(result.problems for result in results)


def _one(stored: Stored, form: ExportFormat, file: Path, targets: Targets) -> Written:
    from specdec_cli.export.folder import Written
    from specdec_cli.export.formats import export_file

    try:
        return export_file(stored, form, file, targets)
    except SpecdecError as error:
        return Written(0, [error])


def folder_of(transcripts: Path, given: Path | None = None, option: str = "") -> Path:
    """The folder that an option gives, or one beside the transcripts that is named after them.

    ConfigError: it is not a folder, or a new one called like a file.
    """
    from specdec_cli.export.folder import shortened

    folder = transcripts.with_name(shortened(transcripts.stem, "-export")) if given is None else given
    if given is not None and folder.exists() and not folder.is_dir():
        raise ConfigError(f"{option} {folder} is not a folder.", hint="Name another one; it will be created.")
    if given is not None and given.suffix and not given.exists():
        ways = f"end the name in {ENDINGS} for one file of that format, or create {given} first if it is to be a folder"
        raise ConfigError(
            f"{option} {given} is not a folder, and {given.suffix} is not the format that is written.",
            hint=f"Name a folder without an ending; {ways}.",
        )
    return folder


def show_written(written: Written, transcripts: Path, folder: Path | None, view: View) -> None:
    """Shows what was written and what was not."""
    if written.count and folder is not None:
        view.say(f"{count(written.count, 'file')} in {folder}")
    for error in written.problems[:_LISTED]:
        view.failed(str(transcripts), error)
    if more := written.problems[_LISTED:]:
        view.hint(f"{count(len(more), 'more file')} not written")
