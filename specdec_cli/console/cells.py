"""Text measured in terminal cells: neutralised, cut and wrapped, with Chinese counted as two cells a character."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import accumulate, takewhile

from rich.cells import cell_len
from rich.text import Text

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


def prefix_length(text: str, width: int) -> int:
    """How many leading characters of `text` fit into `width` cells."""
    ends = accumulate(map(cell_len, text))
    return sum(1 for _ in takewhile(lambda end: end <= width, ends))


def fit(text: str, width: int, ellipsis: str) -> str:
    """`text` cut at its end to `width` cells, with `ellipsis` in place of what was left out."""
    if cell_len(text) <= width:
        return text
    room = width - cell_len(ellipsis)
    return text[: prefix_length(text, room)] + ellipsis if room > 0 else ellipsis[: max(width, 0)]


def fit_end(text: str, width: int, ellipsis: str) -> str:
    """`text` cut at its start to `width` cells: of a path, the end says more."""
    return fit(text[::-1], width, ellipsis[::-1])[::-1]


def _atoms(plain: str) -> Iterator[str]:
    """Pieces of `plain` between which a line may break, each with the spaces that follow it."""
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


def wrap(text: Text, width: int, *, joint: str | None = None) -> list[Text]:
    """`text` in lines of at most `width` cells (trailing spaces not counted), styles kept.

    Lines break at spaces and between wide characters, never before a closing or after an opening punctuation mark.
    With a `joint`, they break at spaces and after a joint only. What is longer than a line is broken where that ends.
    """
    width = max(width, 2)
    ends = rf"[^ {re.escape(joint)}]*[ {re.escape(joint)}]*" if joint else ""
    breaks: list[int] = []
    position = used = 0
    for atom in re.findall(ends, text.plain) if joint else _atoms(text.plain):
        if used and used + cell_len(atom.rstrip(" ")) > width:
            breaks.append(position)
            used = 0
        rest = atom
        while cell_len(rest.rstrip(" ")) > width and len(rest) > 1:
            cut = max(prefix_length(rest, width), 1)
            rest = rest[cut:]
            breaks.append(position + len(atom) - len(rest))
        used += cell_len(rest)
        position += len(atom)
    lines = list(text.divide(breaks))
    for line in lines:
        line.rstrip()
    return lines


def padded(text: Text, width: int) -> Text:
    """A copy of `text` filled with spaces to `width` cells."""
    return Text.assemble(text, " " * max(width - text.cell_len, 0))


def hanging(label: Text, body: Text, indent: int, width: int) -> list[Text]:
    """`body` wrapped beside `label`, all of its lines starting at cell `indent`."""
    lines = wrap(body, width - indent)
    heads = [padded(label, indent), *(Text(" " * indent) for _ in lines[1:])]
    return [Text.assemble(head, line) for head, line in zip(heads, lines, strict=True)]
