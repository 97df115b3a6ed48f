"""Draws README's picture of the live view: `python -m tools.picture`, from the repository's root."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from specdec_cli import Captioner
from specdec_cli.console.view import View

CLIP = "samples/en_male_pauses.flac"
PICTURE = Path("samples/live-view.svg")


def main() -> None:
    """Caption the clip three times with the defaults, and draw the last: the first times hold what loads late."""
    captioner = Captioner.load("mini", {"prompt.language": "en"})
    for _ in range(3):
        console = Console(file=io.StringIO(), record=True, width=100, force_terminal=True, color_system="truecolor")
        view = View(console, "rows")
        view.form = "live"  # the rows of the live view, without its line that is redrawn
        for update in captioner.stream(CLIP):
            view.show(update)
    PICTURE.write_text(console.export_svg(title=f"specdec caption {CLIP}", unique_id="specdec"), encoding="utf-8")


if __name__ == "__main__":
    main()
