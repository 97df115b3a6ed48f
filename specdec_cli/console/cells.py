"""Text in terminal cells: neutralised, cut and wrapped, with Chinese counted as two cells a character."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

PROSE_WIDTH: Final = 100
"""Cells of a line of prose at most: longer ones are hard to read."""
_WIDE = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6"
_ATOM: Final = re.compile(rf"[（【《〈“‘「『]*(?:[^{_WIDE} ]+|[{_WIDE}])[，。、；：！？）】》〉”’」』…]*(?: ·)? *| +")
"""A part that no line break divides: a word or a wide character, with its punctuation and the spaces behind it."""


def fit_end(text: str, width: int) -> str:
    """The end of `text`, in `width` cells: of a path the part that differs from others."""
    if cell_len(text) <= width:
        return text
    return "…" + chop_cells(text[::-1], max(width - 1, 1))[0][::-1]


def wrap(text: Text, width: int) -> list[Text]:
    """`text` in lines of at most `width` cells (trailing spaces not counted), styles kept.

    Lines break at spaces and, which rich does not do, between wide characters.
    """
    breaks: list[int] = []
    position = used = 0
    for atom in _ATOM.findall(text.plain):
        first, *more = chop_cells(atom.rstrip(), max(width, 2)) or [""]
        if used and (more or used + cell_len(first) > width):
            breaks.append(position)
            used = 0
        end = position + len(atom)
        for part in [first, *more][:-1]:
            position += len(part)
            breaks.append(position)
        used += cell_len(text.plain[position:end])
        position = end
    lines = list(text.divide(breaks))
    for line in lines:
        line.rstrip()
    return lines


@dataclass(frozen=True, slots=True)
class Prose:
    """Text beside a label, which may have several lines; the lines of the text begin at cell `indent`."""

    body: Text
    label: Text = field(default_factory=Text)
    indent: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields lines without spaces at their end, which would wrap to empty lines in a narrower terminal."""
        lines = wrap(self.body, min(options.max_width, PROSE_WIDTH) - self.indent)
        for label, line in zip_longest(self.label.split(), lines, fillvalue=Text()):
            line = Text.assemble(label, " " * (self.indent - label.cell_len), line)
            line.rstrip()
            yield line
