"""`specdec export`: transcripts in the formats of other tools."""

# no postponed annotations: see `specdec_cli.cli.options`

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final

from specdec_cli.cli import options
from specdec_cli.cli.outputs import folder_of, show_written
from specdec_cli.cli.set_up import display
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError
from specdec_cli.export.endings import FORMATS, format_of
from specdec_cli.export.folder import Written
from specdec_cli.export.formats import export as export_files
from specdec_cli.export.formats import export_file
from specdec_cli.export.recordings import Stored
from specdec_cli.format import count
from specdec_cli.labels import Lexicon
from specdec_cli.targets import STDOUT, Targets
from specdec_cli.text import chosen
from specdec_cli.transcript.lines import stored_lines

_TO: Final = f"Formats to write: {options.FORMATS}. Default: the ending of --output."
_OUTPUT: Final = "Folder, or one file by its ending; - for stdout. Default: a folder named after JSONL."


@dataclass(frozen=True, kw_only=True)
class ExportCommand(options.DisplayOptions, options.LexiconOptions):
    """csv is one table; textgrid (Praat), eaf (ELAN), srt, vtt and pictures (png, svg, pdf) are a file per recording. A
    picture shows the sound over time, and the classes of each piece.
    """

    name: ClassVar[str] = "export"

    transcripts: options.TranscriptFile
    only_mode: options.OnlyMode = None
    to: Annotated[str | None, options.of_output("--to", metavar="FORMAT,FORMAT", help=_TO)] = None
    output: Annotated[Path | None, options.out(metavar="FOLDER|FILE", help=_OUTPUT)] = None
    overwrite: options.Overwrite = False

    def run(self) -> int:
        """See `Command.run`."""
        output, to = self.output, self.to
        ending = None if output is None or output.is_dir() else format_of(output)
        if to is None and ending is None:
            next(stored_lines(self.transcripts), None)  # raises for a recording, which is to be captioned first
            hint = "E.g. --to textgrid,srt, or --output captions.TextGrid."
            raise ConfigError("Neither --to nor the ending of --output names a format.", hint=hint)
        formats = [ending] if to is None and ending is not None else chosen(to or "", FORMATS, "--to", "format")
        one = output if output == STDOUT or ending in formats else None
        if one is not None and formats[1:]:
            raise ConfigError(f"--output {one} is one file, and --to {to} is more.", hint="Name a folder.")
        targets = Targets([self.transcripts, self.lexicon], overwrite=self.overwrite)
        stored = Stored.read(self.transcripts, mode=self.only_mode, lexicon=Lexicon.read(self.lexicon))
        with display(self) as view:
            if stored.replaced:
                view.say(
                    f"{count(stored.replaced, 'recording')} tried more than once: only the last captions are written"
                )
            if one is not None:
                return self._report(export_file(stored, formats[0], one, targets), None, view)
            folder = folder_of(self.transcripts, output, "--output")
            return self._report(export_files(stored, formats, folder, targets), folder, view)

    def _report(self, written: Written, folder: Path | None, view: View) -> int:
        """Shows what was written and what was not; returns the exit code.

        Raises ConfigError if there was nothing to write, or the problem of the one file that was asked for.
        """
        if not written.count and not written.problems:
            hint = "Each line without a caption has the reason; --only-mode takes lines of that mode alone."
            raise ConfigError(f"{self.transcripts} has no captions to write.", hint=hint)
        if folder is None and written.problems:
            raise written.problems[0]
        show_written(written, self.transcripts, folder, view)
        return 1 if written.problems else 0
