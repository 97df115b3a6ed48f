"""One round as one row: its tokens with their figures, the gate, what was accepted, and times.

Columns shrink, and then go, with the width of the terminal:

- from 96 cells: round, block, gate with its reason in full, accepted, draft, verify;
- from 76 cells: the same, the reason without "cloud:", the times in one column and none for the link;
- below: the figures of the round, and under them the block; the times go under 54 cells.

A draft that is gated as a whole takes the full width, clause by clause, with the gate's verdict in its last line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from specdec_cli.console.cells import fit, wrap
from specdec_cli.console.draft_grid import cells_of, drafted_cells, figure_names, grid, verdict_of
from specdec_cli.console.tables import lines_of
from specdec_cli.console.theme import ASKED, BAD, DIM, GOOD, Signs, written
from specdec_cli.console.tokens import render_tokens, shown
from specdec_cli.format import NONE, milliseconds
from specdec_cli.types import EventText, Mode, Round, Sent, Started

NAME, BLOCK = "", "block"
GAP = 2
MIN_BLOCK = 24
CELLS_PER_TOKEN = 9
LABEL = 7
"""Cells of the names of figures; a longer name is cut."""
FULL_GATE = 20
WIDEST = 110
"""Cells of a deferred draft at most: longer lines are hard to read."""


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
        return self._lines({column.name: Text(column.name, DIM) for column in self.columns}, [])

    def rows(self, cells: dict[str, Text], block: Sequence[tuple[str, Text]], signs: Signs) -> list[Text]:
        """Lines of one round: cells, cut to their columns, and the named lines of its block."""
        for column in self.columns:
            if (cell := cells.get(column.name)) is not None:
                cell.plain = fit(written(cell.plain, signs), column.width, signs.ellipsis)
        return self._lines(cells, block)

    def _lines(self, cells: dict[str, Text], block: Sequence[tuple[str, Text]]) -> list[Text]:
        table = Table(box=None, padding=(0, GAP, 0, 0), show_header=False)
        for column in self.columns:
            table.add_column(width=column.width, justify="right" if column.right else "left", no_wrap=True)
        if not self.stacked and block:
            names = [Text(name, DIM) for name, _ in block]
            cells = cells | {NAME: Text("\n").join(names), BLOCK: Text("\n").join(line for _, line in block)}
        table.add_row(*(cells.get(column.name, Text()) for column in self.columns))
        lines = [Text.assemble(" ", line) for line in lines_of(table, _used(self.columns))]
        for line in lines:
            line.rstrip()
        return lines + (named_lines(block) if self.stacked else [])


def named_lines(block: Sequence[tuple[str, Text]]) -> list[Text]:
    """Lines behind their names, below each other."""
    return [Text.assemble((f" {name[:LABEL]:>{LABEL}} ", DIM), line) for name, line in block]


def layout_for(width: int, k: int, mode: Mode, *, link: bool = False) -> Layout:
    """The layout for a terminal of `width` cells.

    Args:
        width: cells of the terminal.
        k: drafted tokens of a round, for the room of the block.
        mode: those of one model alone have no columns for the other.
        link: whether rounds have a time on the link.
    """
    stacked, wide = width < 76, width >= 96
    index = Column("#", 4 if wide else 3, right=True)
    if mode in ("edge", "cloud"):
        figures = [Column("time", 7, right=True)]
    elif wide:
        figures = [Column("gate", FULL_GATE), Column("accepted", 8, right=True)]
        figures += [Column(name, 7, right=True) for name in ("draft", "verify", "link")[: 3 if link else 2]]
    else:
        figures = [Column("gate", FULL_GATE if 51 <= width < 76 else 13), Column("acc.", 5, right=True)]
        if width >= 54:
            figures.append(Column("draft+verify", 12, right=True))
    if stacked:
        return Layout((index, *figures), width - LABEL - 3, stacked=True)
    name = Column(NAME, LABEL, right=True)
    block = min(width - _used((index, name, *figures)) - GAP, max(CELLS_PER_TOKEN * k, MIN_BLOCK))
    return Layout((index, name, Column(BLOCK, block), *figures), block, stacked=False)


def _used(columns: Sequence[Column]) -> int:
    return 1 + sum(column.width + GAP for column in columns)


def render_flight(sent: Sent, text: EventText, layout: Layout, signs: Signs) -> list[Text]:
    """The lines of a block that is on its way to the cloud, in the columns of its row to come."""
    words = " ".join(shown(piece, signs).strip() for piece in text.draft_pieces)
    flying = Text(f"in flight{signs.ellipsis}", ASKED)
    where = "gate" if any(column.name == "gate" for column in layout.columns) else "time"
    block = [("", line) for line in wrap(Text(words, DIM), layout.block_width)]
    return layout.rows({"#": Text(str(sent.index + 1), DIM), where: flying}, block, signs)


def gate_text(round_: Round, mode: Mode, *, full: bool) -> Text:
    """The gate's decision: `edge`, or why the block was escalated and the figure that decided it."""
    if not round_.escalated:
        return Text("edge", style=DIM)
    if round_.reason == "always" or round_.reason is None:
        return Text("cloud", style=ASKED if mode == "hybrid" else DIM)
    words = str(round_.reason)
    if round_.reason not in ("loop", "refusal", "language") and round_.gate_value is not None:
        words += f" {round_.gate_value:.2f}"
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
    alone = round_.verify_ms if clip.mode == "cloud" and round_.verify_ms is not None else round_.draft_ms
    verify = Text("prefill", DIM) if in_prefill else _time(round_.verify_ms)
    both = f"{round_.draft_ms:.0f}+{verify.plain if in_prefill else f'{round_.verify_ms or 0:.0f} ms'}"
    cells = {
        "#": Text(str(round_.index + 1), DIM),
        "time": _time(alone),
        "gate": gate_text(round_, clip.mode, full=widths.get("gate") == FULL_GATE),
        "accepted": accepted_text(round_),
        "acc.": accepted_text(round_),
        "draft": _time(round_.draft_ms),
        "draft+verify": _time(round_.draft_ms) if round_.verify_ms is None else Text(both),
        "verify": verify,
        "link": _time(round_.network_ms),
    }
    tokens = cells_of(round_, text, clip.settings, signs)
    block = list(grid(tokens, figure_names(clip.settings), layout.block_width, signs))
    return layout.rows(cells, block, signs)


def render_deferred(
    round_: Round, text: EventText, width: int, clip: Started, signs: Signs, *, in_prefill: bool = False
) -> list[Text]:
    """The lines of a draft that was gated as a whole: its clauses, the gate's verdict, and the cloud's."""
    room = min(width, WIDEST) - LABEL - 3
    block: list[tuple[str, Text]] = []
    if round_.draft_ids:
        drafted = drafted_cells(round_, text, clip.settings, signs)
        block += grid(drafted, figure_names(clip.settings), room, signs, by_clause=True)
        style = ASKED if round_.escalated else ""
        verdict = Text.assemble((verdict_of(round_, clip.settings), style), (f" {signs.dot} ", DIM))
        verdict.append(f"drafted in {milliseconds(round_.draft_ms)}", DIM)
        block += _named("gate", wrap(verdict, room))
    if round_.escalated or not round_.draft_ids:
        block += _named("cloud", wrap(render_tokens(round_, text, signs), room, joint=signs.joint))
        facts = [f"{accepted_text(round_)} accepted"] if round_.escalated else []
        facts.append("verified in the prefill" if in_prefill else f"verified in {milliseconds(round_.verify_ms)}")
        facts += [f"{milliseconds(round_.network_ms)} on the link"] if round_.network_ms is not None else []
        block += _named("", wrap(Text(f" {signs.dot} ".join(facts), DIM), room))
    lines = named_lines(block)
    for line in lines:
        line.plain = written(line.plain, signs)
    return lines


def _named(name: str, lines: Sequence[Text]) -> list[tuple[str, Text]]:
    return [(name if not position else "", line) for position, line in enumerate(lines)]


def _time(value: float | None) -> Text:
    return Text(milliseconds(value), DIM if value is None else "")
