"""`specdec review`: a page on which a person listens to doubtful pieces and corrects their classes."""

from __future__ import annotations

from pathlib import Path

from specdec_cli.cli.command import command
from specdec_cli.cli.startup import read_references


@command(example="captions.jsonl --output review.html")
def review(
    transcripts: list[Path],
    of_mode: str | None = None,
    references: Path | None = None,
    file_column: str | None = None,
    label_column: list[str] | None = None,
    lexicon: Path | None = None,
    most: int | None = None,
    audio_mb: float = 64.0,
    page: Path = Path("review.html"),
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Make a page to listen to captioned recordings and correct their classes, the doubtful ones first.

    The page is one file that works offline: it plays every piece, shows the probability of each class (of transcripts
    made with --labels), and saves corrections as a table for --references of compare, tune and calibrate.
    """
    from specdec_cli.cli.work import Work
    from specdec_cli.report.figures import count
    from specdec_cli.targets import REVIEW, refuse

    words, table = read_references(references, file_column, None, label_column, lexicon)
    refuse({"--output": (page, REVIEW)}, [*transcripts, references, lexicon])
    with Work(quiet=quiet, debug=debug, interruption="interrupted; no page was written") as work:
        from specdec_cli.review.page import write_review
        from specdec_cli.review.pieces import read_pieces

        pieces = read_pieces(transcripts, words, table, of_mode)
        chosen = pieces[:most]
        sounds = write_review(page, chosen, words, audio_mb=audio_mb, watch=work)
        doubtful = sum(piece.run.needs_review is True for piece in chosen)
        work.view.say(f"{count(len(chosen), 'piece')}, {doubtful} of them to be reviewed: {page}")
        if most is not None and len(pieces) > most:
            work.view.say(f"{count(len(pieces) - most, 'piece')} with less doubt left out (--limit)")
        if sounds.left_out:
            work.view.say(
                f"{count(sounds.left_out, 'piece')} without audio, for which the page would exceed {audio_mb:g} MB: "
                "make room with --audio-mb, or take fewer pieces with --limit"
            )
        if sounds.missing:
            reason = next(iter(sounds.missing.values()))
            work.view.say(f"{count(len(sounds.missing), 'piece')} without audio, for example because: {reason}")
    return work.code(done=True)
