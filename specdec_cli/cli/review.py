"""`specdec review`: a page on which a person listens to doubtful pieces and corrects their classes."""

# no postponed annotations: see `specdec_cli.cli.options`

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final

from specdec_cli.cli import options
from specdec_cli.cli.set_up import display
from specdec_cli.cli.study import read_references
from specdec_cli.format import count
from specdec_cli.review.review_page import read_pieces, review_page
from specdec_cli.targets import PAGE, Targets
from specdec_cli.text import readable

_BLIND: Final = "Leave captions and classes out of the page, so that classes are chosen by ear."
_AUDIO_MB: Final = "Most audio in the page, MB; 64 MB are about two hours."


@dataclass(frozen=True, kw_only=True)
class ReviewCommand(options.DisplayOptions, options.ReferenceOptions):
    """The page is one file that works offline. It plays every piece, the doubtful ones first, and saves corrections as
    a table for --references of compare and tune.
    """

    name: ClassVar[str] = "review"

    transcripts: options.TranscriptFiles
    only_mode: options.OnlyMode = None
    limit: options.Limit = None
    audio_mb: Annotated[float, options.of_output("--audio-mb", metavar="N", help=_AUDIO_MB, min=0)] = 64.0
    output: Annotated[Path, options.out(metavar="FILE", help="The page (.html).")] = Path("review.html")
    overwrite: options.Overwrite = False
    blind: Annotated[bool, options.of_output("--blind", help=_BLIND)] = False

    def run(self) -> int:
        """See `Command.run`."""
        words, table = read_references(self, self.resolved().config)
        targets = Targets([*self.transcripts, self.references, self.lexicon], overwrite=self.overwrite)
        targets.refuse("--output", self.output, PAGE)
        with display(self, references=table, interruption="interrupted; no page was written") as view:
            pieces = read_pieces(self.transcripts, words, table, self.only_mode)
            chosen = pieces[: self.limit]
            page, sounds = review_page(chosen, words, audio_mb=self.audio_mb, watch=view, blind=self.blind)
            targets.write(self.output, page)
            doubtful = sum(piece.doubtful for piece in chosen)
            known = "" if table is None else f", {sum(bool(piece.truth) for piece in chosen)} with references"
            view.say(f"{count(len(chosen), 'piece')}, {doubtful} of them to be reviewed{known}: {self.output}")
            left_out = [
                (len(pieces) - len(chosen), "with less doubt left out (--limit)"),
                (sounds.left_out, f"without audio, for which the page would exceed {self.audio_mb:g} MB (--audio-mb)"),
            ]
            for number, why in left_out:
                if number:
                    view.say(f"{count(number, 'piece')} {why}", good=False)
            if sounds.missing:
                first, why = next(iter(sounds.missing.items()))
                silent = count(len(sounds.missing), "piece")
                view.warn(f"{silent} without audio, for example of {readable(chosen[first].run.file)}: {why}")
                view.hint("Run the command where the recordings are, under the names that the transcripts have.")
        return 1 if sounds.missing else 0
