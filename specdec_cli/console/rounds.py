"""One round as one row; its columns shrink, and then go, with the width of the terminal.

- from 96 cells: round, block, entropy, gate with its reason in full, accepted, draft, verify;
- from 76 cells: the same, the reason without "cloud:", the times in one column and none for the link;
- below: two lines a round, the figures and under them the block; the times go under 54 cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from specdec_cli.console.cells import fit, wrap
from specdec_cli.console.tables import lines_of
from specdec_cli.console.theme import ASKED, BAD, DIM, GOOD, Signs, written
from specdec_cli.console.tokens import Figure, bars, figure_of, render_tokens, shown, threshold_of
from specdec_cli.report.figures import NONE, milliseconds
from specdec_cli.types import EventText, Mode, Round, Sent, Started

BLOCK = "block"
GAP = 2
MIN_BLOCK = 24
CELLS_PER_TOKEN = 9
MAX_BARS = 16
FULL_GATE = 20


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, its width in cells, and to which side it is aligned."""

    name: str
    width: int
    right: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns that one width has room for, from left to right; `stacked`: the tokens stand below the figures."""

    columns: tuple[Column, ...]
    block_width: int
    stacked: bool

    def heading(self) -> list[Text]:
        """The names of the columns."""
        return self._lines({column.name: [Text(column.name, DIM)] for column in self.columns}, [])

    def rows(self, cells: dict[str, list[Text]], tokens: Text, signs: Signs) -> list[Text]:
        """Lines of one round: its tokens, and the lines of each cell, cut to its column."""
        for column in self.columns:
            for line in cells.get(column.name, ()):
                line.plain = fit(written(line.plain, signs), column.width, signs.ellipsis)
        return self._lines(cells, wrap(tokens, self.block_width, joint=signs.joint))

    def _lines(self, cells: dict[str, list[Text]], block: list[Text]) -> list[Text]:
        table = Table(box=None, padding=(0, GAP, 0, 0), show_header=False)
        for column in self.columns:
            table.add_column(width=column.width, justify="right" if column.right else "left", no_wrap=True)
        if not self.stacked and block:
            cells = cells | {BLOCK: block}
        table.add_row(*(Text("\n").join(cells.get(column.name, [])) for column in self.columns))
        indent = " " * (self.columns[0].width + GAP + 1)
        lines = [Text.assemble(" ", line) for line in lines_of(table, _used(self.columns))]
        for line in lines:
            line.rstrip()
        return lines + [Text.assemble(indent, line) for line in block if self.stacked]


def layout_for(width: int, k: int, mode: Mode, *, link: bool = False, figure: Figure = "entropy") -> Layout:
    """The layout for a terminal of `width` cells.

    Args:
        width: cells of the terminal.
        k: drafted tokens of a round, for the room of the bars.
        mode: those of one model alone have no columns for the other.
        link: whether rounds have a time on the link.
        figure: what the bars show.
    """
    stacked, wide = width < 76, width >= 96
    index = Column("#", 4 if wide else 3, right=True)
    entropy = Column(figure, max(7, min(k, 8 if stacked else MAX_BARS)))
    if mode in ("edge", "cloud"):
        figures = [entropy, Column("time", 7, right=True)]
    elif wide:
        figures = [entropy, Column("gate", FULL_GATE), Column("accepted", 8, right=True)]
        figures += [Column(name, 7, right=True) for name in ("draft", "verify", "link")[: 3 if link else 2]]
    else:
        figures = [entropy, Column("gate", FULL_GATE if 61 <= width < 76 else 13), Column("acc.", 5, right=True)]
        if width >= 54:
            figures.append(Column("draft+verify", 12, right=True))
    if stacked:
        return Layout((index, *figures), width - 7, stacked=True)
    block = min(width - _used((index, *figures)) - GAP, max(CELLS_PER_TOKEN * k, MIN_BLOCK))
    return Layout((index, Column(BLOCK, block), *figures), block, stacked=False)


def _used(columns: Sequence[Column]) -> int:
    return 1 + sum(column.width + GAP for column in columns)


def render_flight(sent: Sent, text: EventText, layout: Layout, signs: Signs) -> list[Text]:
    """The lines of a block that is on its way to the cloud, in the columns of its row to come."""
    words = " ".join(shown(piece, signs).strip() for piece in text.draft_pieces)
    flying = [Text(f"in flight{signs.ellipsis}", ASKED)]
    where = "gate" if any(column.name == "gate" for column in layout.columns) else "time"
    return layout.rows({"#": [Text(str(sent.index + 1), DIM)], where: flying}, Text(words, DIM), signs)


def gate_text(round_: Round, mode: Mode, *, full: bool) -> Text:
    """The gate's decision: `edge`, or why the block was escalated and the figure that decided it."""
    if not round_.escalated:
        return Text("edge", style=DIM)
    if round_.reason == "always" or round_.reason is None:
        return Text("cloud", style=ASKED if mode == "hybrid" else DIM)
    words = str(round_.reason)
    if round_.reason != "loop" and round_.score:
        worst = min(round_.score) if round_.reason in ("margin", "logprob") else max(round_.score)
        words += f" {worst:.2f}"
    return Text(f"cloud: {words}" if full else words, style=BAD if round_.reason == "loop" else ASKED)


def accepted_text(round_: Round) -> Text:
    """How much of the draft the cloud took: `3/5`."""
    if not round_.escalated:
        return Text(NONE, style=DIM)
    accepted, drafted = round_.accepted, len(round_.draft_ids)
    return Text(f"{accepted}/{drafted}", style=GOOD if accepted == drafted else ASKED)


def render_round(
    round_: Round, text: EventText, layout: Layout, clip: Started, signs: Signs, *, in_prefill: bool = False
) -> list[Text]:
    """The lines of one round of `clip`, none wider than the terminal that `layout` was made for.

    `in_prefill`: whether the cloud verified in the forward of its prefill, which has a line of its own.
    """
    widths = {column.name: column.width for column in layout.columns}
    figure, threshold = figure_of(clip.settings), threshold_of(clip.settings, waking=round_.waking)
    values = round_.score if figure == "learned" else round_.entropy
    starts = range(0, max(len(values), 1), widths[figure])
    alone = round_.verify_ms if clip.mode == "cloud" and round_.verify_ms is not None else round_.draft_ms
    verify = Text("prefill", DIM) if in_prefill else _time(round_.verify_ms)
    both = f"{round_.draft_ms:.0f}+{verify.plain if in_prefill else f'{round_.verify_ms or 0:.0f} ms'}"
    accepted = accepted_text(round_)
    cells = {
        "#": [Text(str(round_.index + 1), DIM)],
        figure: [bars(values[start : start + widths[figure]], threshold, signs) for start in starts],
        "time": [_time(alone)],
        "gate": [gate_text(round_, clip.mode, full=widths.get("gate") == FULL_GATE)],
        "accepted": [accepted],
        "acc.": [accepted],
        "draft": [_time(round_.draft_ms)],
        "draft+verify": [_time(round_.draft_ms) if round_.verify_ms is None else Text(both)],
        "verify": [verify],
        "link": [_time(round_.network_ms)],
    }
    return layout.rows(cells, render_tokens(round_, text, signs), signs)


def _time(value: float | None) -> Text:
    return Text(milliseconds(value), DIM if value is None else "")
