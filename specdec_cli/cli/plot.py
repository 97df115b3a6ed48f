"""`specdec plot`: pictures of transcripts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from specdec_cli.cli.command import command
from specdec_cli.cli.export import folder_for, report
from specdec_cli.errors import ConfigError


@command(example="captions.jsonl -o picture.svg")
def plot(
    transcripts: Path,
    of_mode: str | None = None,
    attribute: str = "emotion",
    lexicon: Path | None = None,
    plot_kind: str | None = None,
    plot_to: Path | None = None,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Draw how people speak over the time of a recording, and where the models were unsure.

    A recording in pieces gets a picture: the class of each piece, measured figures where there are any, the entropy of
    each block and which were escalated. Recordings that were captioned whole share one. Needs the extra plot.
    """
    if find_spec("matplotlib") is None:
        raise ConfigError("specdec plot needs matplotlib.", hint="Install it: pip install 'specdec-cli[plot]'")
    from specdec_cli.console.progress import choose_steps
    from specdec_cli.export.folder import Folder, fitted
    from specdec_cli.export.recordings import Stored
    from specdec_cli.lexicon import Lexicon
    from specdec_cli.plot.draw import KINDS, draw
    from specdec_cli.plot.timeline import timelines

    ending = "" if plot_to is None or plot_to.is_dir() else plot_to.suffix.lower().lstrip(".")
    kind = plot_kind or (ending if ending in KINDS else "svg")
    if kind not in KINDS:
        raise ConfigError(f"--to takes {' or '.join(KINDS)}, not {kind!r}.", hint="SVG scales, PNG goes anywhere.")
    words = Lexicon.load(lexicon)
    if attribute not in words.attributes:
        hint = f"There are {', '.join(words.attributes)}."
        raise ConfigError(f"The lexicon has no attribute {attribute!r}.", hint=hint)
    one = plot_to if ending == kind else None
    folder = folder_for(plot_to, transcripts, "plot", "--output") if one is None else one.parent
    pictures = list(
        timelines(Stored.read(transcripts, mode=of_mode, lexicon=words), attribute, words.attributes[attribute])
    )
    if one is not None and len(pictures) > 1:
        raise ConfigError(f"{transcripts} gives {len(pictures)} pictures, and {one} is one.", hint="Name a folder.")
    view = choose_steps(quiet=quiet, debug=debug)
    legible = True
    with Folder(folder, "--output") as target:
        for picture in pictures:
            name = one.name if one is not None else fitted(picture.name, f".{kind}")
            drawn, whole = draw(picture, kind)
            target.put(name, drawn)
            legible = legible and whole
    if kind == "png" and not legible:
        view.hint("No font here has the Chinese characters in this: install Noto Sans CJK, or draw SVG.")
    return report(target.result, transcripts, None if one is not None else folder, view)
