"""`specdec plot`: pictures of transcripts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from specdec_cli.cli import options
from specdec_cli.cli.command_run import display
from specdec_cli.cli.export import folder_for, report
from specdec_cli.errors import ConfigError
from specdec_cli.export.folder import Written, shortened
from specdec_cli.export.recordings import Stored
from specdec_cli.labels import Lexicon
from specdec_cli.plot.picture import KINDS
from specdec_cli.plot.timeline import draw, timelines
from specdec_cli.targets import Targets

_TO: Final = "Format of pictures. Default: as --output ends, or svg."
_OUTPUT: Final = "Picture (.svg, .png, .pdf), or a folder for several. Default: named after JSONL."


@options.taking(options.DisplayOptions)
def plot(
    context: typer.Context,
    transcripts: options.TranscriptFile,
    only_mode: options.OnlyMode = None,
    attribute: options.Attribute = "emotion",
    lexicon: options.JudgingLexicon = None,
    to: Annotated[str | None, options.of_output("--to", metavar="svg|png|pdf", help=_TO)] = None,
    output: Annotated[Path | None, options.out(metavar="FILE|FOLDER", help=_OUTPUT)] = None,
) -> int:
    """Draw how people speak over the time of a recording, and where the models were unsure.

    A recording in pieces gets a picture of its own: the class of each piece, measured figures where there are any, the
    entropy of each block, and which blocks were escalated. Recordings that were captioned whole share one picture.
    """
    ending = "" if output is None or output.is_dir() else output.suffix.lower().lstrip(".")
    kind = to or (ending if ending in KINDS else "svg")
    if kind not in KINDS:
        raise ConfigError(f"--to takes {', '.join(KINDS)}, not {kind!r}.", hint="SVG and PDF scale.")
    words = Lexicon.load(lexicon)
    if attribute not in words.attributes:
        hint = f"There are {', '.join(words.attributes)}."
        raise ConfigError(f"The lexicon has no attribute {attribute!r}.", hint=hint)
    one = output if ending == kind else None
    endings = [f".{each}" for each in KINDS]
    folder = folder_for(output, transcripts, "plot", "--output", endings) if one is None else one.parent
    stored = Stored.read(transcripts, mode=only_mode, lexicon=words)
    pictures = list(timelines(stored, attribute, words.attributes[attribute]))
    if one is not None and len(pictures) > 1:
        raise ConfigError(f"{transcripts} gives {len(pictures)} pictures, and {one} holds one.", hint="Name a folder.")
    written, legible = Written(), True
    for drawing in pictures:
        drawn, whole = draw(drawing, kind)
        name = Path(shortened(drawing.name, f".{kind}"))
        written.add(
            partial(Targets([transcripts]).write, one or folder / name, drawn), None if one else (folder / name).parent
        )
        legible = legible and whole
    with display(context) as view:
        if kind != "svg" and not legible:
            view.hint("No font here has the Chinese characters in this: install Noto Sans CJK, or draw SVG.")
        return report(written, transcripts, None if one is not None else folder, view)
