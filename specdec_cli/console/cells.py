"""Text in terminal cells: neutralised, cut and wrapped, with Chinese counted as two cells a character."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

PROSE_WIDTH: Final = 100
"""Cells of a line of prose at most: longer ones are hard to read."""
_CLOSING = frozenset("，。、；：！？）】》〉”’」』…,.;:!?)]}%|·")
_OPENING = frozenset("（【《〈“‘「『([{✓✗→+~=>")
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)


def clean(text: str) -> str:
    """`text` on one line with nothing in it that a terminal would obey.

    Line breaks and tabs become spaces; other control, formatting (bidirectional overrides among them) and surrogate
    characters become visible escapes such as `\\x1b`.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_safe, text))


def _safe(character: str) -> str:
    if character in "\t\n\r\v\f\u2028\u2029\x85":
        return " "
    if unicodedata.category(character) in _UNSAFE:
        return character.encode("unicode_escape", "surrogatepass").decode("ascii")
    return "" if ord(character) in _VARIATION_SELECTORS else character


def paragraph(text: str) -> str:
    """`text` neutralised, with each run of white space as one space."""
    return " ".join(clean(text).split())


def fit_end(text: str, width: int) -> str:
    """The end of `text`, in `width` cells: of a path the part that tells it from others."""
    if cell_len(text) <= width:
        return text
    return "…" + chop_cells(text[::-1], max(width - 1, 1))[0][::-1]


def _atoms(plain: str) -> Iterator[str]:
    """Parts that a line break may stand between: words with the spaces behind them, and single wide characters."""
    start = 0
    for index in range(1, len(plain)):
        before, after = plain[index - 1], plain[index]
        if after == " " or after in _CLOSING or before in _OPENING or not cell_len(after):
            continue
        if before == " " or cell_len(before) == 2 or cell_len(after) == 2:
            yield plain[start:index]
            start = index
    if plain:
        yield plain[start:]


def wrap(text: Text, width: int) -> list[Text]:
    """`text` in lines of at most `width` cells (trailing spaces not counted), styles kept.

    Lines break at spaces and, which rich does not do, between wide characters, never before a closing or after an
    opening punctuation mark. What is longer than a line is broken where that ends.
    """
    width = max(width, 2)
    breaks: list[int] = []
    position = used = 0
    for atom in _atoms(text.plain):
        if used and used + cell_len(atom.rstrip(" ")) > width:
            breaks.append(position)
            used = 0
        parts = chop_cells(atom, width) if cell_len(atom.rstrip(" ")) > width else [atom]
        for part in parts[:-1]:
            position += len(part)
            breaks.append(position)
        used += cell_len(parts[-1])
        position += len(parts[-1])
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
        """Lines without spaces at their end, so that a terminal that is made narrower shows no empty ones."""
        lines = wrap(self.body, min(options.max_width, PROSE_WIDTH) - self.indent)
        for label, line in zip_longest(self.label.split(), lines, fillvalue=Text()):
            line = Text.assemble(label, " " * (self.indent - label.cell_len), line)
            line.rstrip()
            yield line
