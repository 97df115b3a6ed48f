"""The display of one run as a picture."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from html import unescape
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console

from specdec_cli.console.live import LiveView
from specdec_cli.console.view import show
from specdec_cli.targets import PICTURE, write
from specdec_cli.types import Update

_REMOTE_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_SVG_CELL = 12.2
_SVG_TEXT = re.compile(r'(<text [^>]*textLength=")([\d.]+)("[^>]*>)([^<]*)(</text>)')


def record_svg(updates: Iterable[Update], path: Path, *, width: int = 100, title: str = "specdec caption") -> None:
    """Draw the finished display of a run, of several clips perhaps, and write it to `path` as SVG ("-": to stdout).

    The same updates give the same bytes. `width`: cells of the terminal that is drawn; `title`: in its frame.
    """
    console = Console(
        record=True,
        file=io.StringIO(),
        width=width,
        force_terminal=True,
        color_system="truecolor",
        markup=False,
        emoji=False,
        highlight=False,
        no_color=False,
    )
    view = LiveView(console, redraw=False)
    for update in updates:
        show(view, update)
    svg = console.export_svg(title=title, unique_id="specdec")
    write(path, _SVG_TEXT.sub(_in_cells, _REMOTE_FONT.sub("", svg)), PICTURE)


def _in_cells(match: re.Match[str]) -> str:
    """Give a stretch of text its length in cells: rich counts characters, which squeezes Chinese to half its width."""
    before, _, middle, content, after = match.groups()
    characters = unescape(content)
    if "clip-path" not in before + middle or not characters:
        return match.group()
    return f"{before}{cell_len(characters) * _SVG_CELL:g}{middle}{content}{after}"
