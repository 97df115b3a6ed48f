"""`specdec export`: transcripts in the formats of other tools; and what `caption` and `batch` export when they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from specdec_cli.cli import options
from specdec_cli.cli.command_run import display
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError
from specdec_cli.export.folder import Written, shortened
from specdec_cli.export.formats import FORMATS, SUFFIXES, export_file, format_of
from specdec_cli.export.formats import export as export_files
from specdec_cli.export.recordings import Stored
from specdec_cli.format import count
from specdec_cli.inputs.manifest import Inputs
from specdec_cli.labels import Lexicon
from specdec_cli.targets import STDOUT, Targets
from specdec_cli.text import chosen
from specdec_cli.transcript.lines import stored_lines
from specdec_cli.types import ExportFormat

_LISTED: Final = 5
_TO: Final = f"Formats to write: {options.FORMATS}. Default: the ending of --output."
_OUTPUT: Final = "Folder, or one file by its ending; - for stdout. Default: named after JSONL."


@options.taking(options.DisplayOptions)
def export(
    context: typer.Context,
    transcripts: options.TranscriptFile,
    only_mode: options.OnlyMode = None,
    lexicon: options.JudgingLexicon = None,
    to: Annotated[str | None, options.of_output("--to", metavar="FORMAT,FORMAT", help=_TO)] = None,
    output: Annotated[Path | None, options.out(metavar="FOLDER|FILE", help=_OUTPUT)] = None,
    overwrite: options.Overwrite = False,
) -> int:
    """Write transcripts in the formats of other tools: tables, Praat, ELAN, subtitles, pictures.

    csv is one file; textgrid, eaf, srt, vtt and pictures (png, svg, pdf) are a file per recording. A picture shows the
    sound over time, and the classes of each piece. What specdec did not write stays as it is.
    """
    ending = None if output is None or output.is_dir() else format_of(output)
    if to is None and ending is None:
        next(stored_lines(transcripts), None)  # raises for a recording, which is to be captioned first
        hint = "E.g. --to textgrid,srt, or --output captions.TextGrid."
        raise ConfigError("Neither --to nor the ending of --output names a format.", hint=hint)
    formats = [ending] if to is None and ending is not None else chosen(to or "", FORMATS, "--to", "format")
    one = output if output == STDOUT or ending in formats else None
    if one is not None and formats[1:]:
        raise ConfigError(f"--output {one} is one file, and --to {to} is more.", hint="Name a folder.")
    targets = Targets([transcripts, lexicon], overwrite=overwrite)
    stored = Stored.read(transcripts, mode=only_mode, lexicon=Lexicon.load(lexicon))
    with display(context) as view:
        if stored.replaced:
            view.say(f"{count(stored.replaced, 'recording')} tried more than once: only the last captions count")
        if one is not None:
            return report(export_file(stored, formats[0], one, targets), transcripts, None, view)
        folder = folder_for(output, transcripts, "export", "--output", [*SUFFIXES.values()])
        written = export_files(stored, formats, folder, targets)
        return report(written, transcripts, folder, view)


@dataclass(frozen=True, slots=True)
class Exports:
    """The formats that --export names, and the folder for all files."""

    formats: Sequence[ExportFormat]
    folder: Path
    targets: Targets

    @classmethod
    def after(cls, exports: str | None, folder: Path | None, output: Path | None, targets: Targets) -> Exports | None:
        """The exports that --export and --export-dir ask for; None if they are not given.

        ConfigError: a format is unknown; transcripts or their folder are not named; or it is not a folder.
        """
        if exports is None and folder is not None:
            raise ConfigError("--export-dir needs --export, which is not given.", hint="E.g. --export textgrid")
        if exports is None:
            return None
        if output is None:
            hint = "Name one: --output FILE.jsonl. One file of one format needs no --export: --output FILE.srt"
            raise ConfigError("--export reads transcripts, and --output names none.", hint=hint)
        formats = chosen(exports, FORMATS, "--export", "format")
        return cls(formats, folder_for(folder, output, "export", "--export-dir"), targets)

    def written(self, output: Path, view: View, inputs: Inputs | None = None, base: str | None = None) -> bool:
        """Exports `output` and shows the outcome; returns whether every file was written."""
        stored = Stored.read(output, base, () if inputs is None else inputs)
        written = export_files(stored, self.formats, self.folder, self.targets)
        show_written(written, output, self.folder, view)
        return not written.problems


def folder_for(given: Path | None, transcripts: Path, what: str, option: str, files: Sequence[str] = ()) -> Path:
    """The folder that an option gives, or one beside the transcripts that is named after them.

    `files`: endings of single files that the option takes, too.

    ConfigError: it is not a folder, or a new one called like a file.
    """
    folder = transcripts.with_name(shortened(transcripts.stem, f"-{what}")) if given is None else given
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{option} {folder} is not a folder.", hint="Name another one; it will be created.")
    if given is not None and given.suffix and not given.exists():
        ways = f"end the name in {', '.join(files)} for one file of that format, or " if files else ""
        raise ConfigError(
            f"{option} {given} is no folder, and {given.suffix} is not the format that is written.",
            hint=f"Name a folder without an ending; {ways}create {given} first if it is to be a folder.",
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


def report(written: Written, transcripts: Path, folder: Path | None, view: View) -> int:
    """Shows what was written and what was not; returns the exit code.

    Raises:
        ConfigError: there was nothing to write.
        TranscriptError: the one file that was asked for, without a folder, was not written.
    """
    if not written.count and not written.problems:
        hint = "Each line without a caption has the reason; --only-mode takes lines of that mode alone."
        raise ConfigError(f"{transcripts} has no captions to write.", hint=hint)
    if folder is None and written.problems:
        raise written.problems[0]
    show_written(written, transcripts, folder, view)
    return 1 if written.problems else 0
