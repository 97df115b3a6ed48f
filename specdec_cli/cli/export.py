"""`specdec export`: transcripts in the formats of other tools; and what `caption` and `batch` export when they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specdec_cli.cli.command import command
from specdec_cli.errors import ConfigError
from specdec_cli.targets import STDOUT

if TYPE_CHECKING:
    from specdec_cli.errors import SpecdecError
    from specdec_cli.export.recordings import Stored
    from specdec_cli.inputs import Inputs
    from specdec_cli.types import ExportFormat

_LISTED: Final = 5


@command(example="captions.jsonl --to textgrid,srt")
def export(
    transcripts: Path,
    of_mode: str | None = None,
    to: str | None = None,
    export_to: Path | None = None,
    rttm_name: str | None = None,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Write transcripts in the formats of other tools: Praat, ELAN, subtitles, speaker turns, tables.

    textgrid, eaf, srt, vtt and txt are a file per recording, rttm and csv one file, audformat is a folder. Nothing is
    overwritten that specdec did not write. Exit code 3: some files were left as they were; 1: all.
    """
    from specdec_cli.cli.work import exit_code
    from specdec_cli.console import choose_steps
    from specdec_cli.export.formats import SUFFIXES, export_file, format_of, parse_formats
    from specdec_cli.export.recordings import Stored
    from specdec_cli.report.figures import count

    ending = None if export_to is None or export_to.is_dir() else format_of(export_to)
    if to is None and ending is None:
        hint = "E.g. --to textgrid,srt, or --output captions.TextGrid."
        raise ConfigError("Neither --to nor the ending of --output names a format.", hint=hint)
    formats = [ending] if to is None and ending is not None else parse_formats(to or "", "--to")
    view = choose_steps(quiet=quiet, debug=debug)
    if export_to is not None and (export_to == STDOUT or ending in formats):
        if formats[1:] or formats[0] not in SUFFIXES:
            raise ConfigError(f"--output {export_to} is one file, and --to {to} is more.", hint="Name a folder.")
        problems = export_file(Stored.read(transcripts, mode=of_mode), formats[0], export_to, naming=rttm_name)
        written = int(not problems)
    else:
        exports = Exports.of(formats, export_to, transcripts, "--output")
        stored = Stored.read(transcripts, mode=of_mode)
        written, problems = exports.write(stored, naming=rttm_name)
        if not written and not problems:
            hint = "Each line that has no caption says why; --mode takes lines of that mode alone."
            raise ConfigError(f"There are no captions to export in {transcripts}.", hint=hint)
        if stored.replaced:
            again = f"{count(stored.replaced, 'recording')} captioned more than once: only the last captions count"
            view.say(again)
        if written:
            view.say(f"{count(written, 'file')} in {exports.folder}")
    for error in problems[:_LISTED]:
        view.failed(str(export_to or transcripts), error)
    if problems[_LISTED:]:
        view.hint(f"{len(problems) - _LISTED} more files were not written.")
    return exit_code(interrupted=False, failed=bool(problems), done=bool(written))


@dataclass(frozen=True, slots=True)
class Exports:
    """What to export, and where to.

    Attributes:
        formats: names of them.
        folder: for all files.
        option: that names the folder.
    """

    formats: Sequence[ExportFormat]
    folder: Path
    option: str

    @classmethod
    def of(cls, formats: Sequence[ExportFormat], folder: Path | None, transcripts: Path, option: str) -> Exports:
        """Exports to a folder; None: one beside the transcripts that is named after them.

        Raises:
            ConfigError: it is not a folder.
        """
        folder = transcripts.with_name(f"{transcripts.stem}-export") if folder is None else folder
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{option} {folder} is not a folder.", hint="Name another one; it will be created.")
        return cls(formats, folder, option)

    @classmethod
    def after(cls, exports: str | None, folder: Path | None, output: Path | None) -> Exports | None:
        """What --export and --export-dir ask for when a run has ended; None if they are not given.

        Raises:
            ConfigError: a format is unknown, or nothing says where transcripts or exports go.
        """
        from specdec_cli.export.formats import parse_formats

        if exports is None:
            if folder is not None:
                raise ConfigError("--export-dir is about --export, which is not given.", hint="E.g. --export textgrid")
            return None
        if output is None:
            raise ConfigError("--export reads --output, which is not given.", hint="Name a file: --output FILE")
        return cls.of(parse_formats(exports, "--export"), folder, output, "--export-dir")

    def write(
        self, stored: Stored, *, naming: str | None = None, inputs: Inputs | None = None
    ) -> tuple[int, list[SpecdecError]]:
        """Writes them; returns how many files were written, and what could not be and why."""
        from specdec_cli.export.formats import export

        done = export(stored, self.formats, self.folder, self.option, naming=naming, inputs=inputs)
        return done.count, done.problems
