"""`specdec review`: a page on which a person listens to doubtful pieces and corrects their classes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from specdec_cli.cli import options
from specdec_cli.cli.command_run import display, read_references
from specdec_cli.format import count
from specdec_cli.review.review_page import read_pieces, review_page
from specdec_cli.targets import PAGE, Targets
from specdec_cli.text import readable

_BLIND: Final = "Leave captions and classes out of the page, so that classes are chosen by ear."
_AUDIO_MB: Final = "Most audio in the page, MB; 64 MB are about two hours."


@options.taking(options.ReferenceOptions, options.DisplayOptions)
def review(
    context: typer.Context,
    transcripts: options.TranscriptFiles,
    references: Path | None,
    lexicon: Path | None,
    only_mode: options.OnlyMode = None,
    limit: options.Limit = None,
    audio_mb: Annotated[float, options.of_output("--audio-mb", metavar="N", help=_AUDIO_MB, min=0)] = 64.0,
    output: Annotated[Path, options.out(metavar="FILE", help="The page (.html).")] = Path("review.html"),
    overwrite: options.Overwrite = False,
    blind: Annotated[bool, options.of_output("--blind", help=_BLIND)] = False,
) -> int:
    """Make a page to listen to captioned recordings and correct their classes, the doubtful ones first.

    The page is one file that works offline: it plays every piece, shows the probability of each class (of transcripts
    made with --labels), and saves corrections as a table for --references of compare, tune and calibrate.
    """
    words, table = read_references(context, options.resolve(context).config)
    targets = Targets([*transcripts, references, lexicon], overwrite=overwrite)
    targets.refuse("--output", output, PAGE)
    with display(context, references=table, interruption="interrupted; no page was written") as view:
        pieces = read_pieces(transcripts, words, table, only_mode)
        chosen = pieces[:limit]
        page, sounds = review_page(chosen, words, audio_mb=audio_mb, watch=view, blind=blind)
        targets.write(output, page)
        doubtful = sum(piece.doubtful for piece in chosen)
        known = "" if table is None else f", {sum(bool(piece.truth) for piece in chosen)} with references"
        view.say(f"{count(len(chosen), 'piece')}, {doubtful} of them to be reviewed{known}: {output}")
        left_out = [
            (len(pieces) - len(chosen), "with less doubt left out (--limit)"),
            (sounds.left_out, f"without audio, for which the page would exceed {audio_mb:g} MB (--audio-mb)"),
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
