"""Models of published sizes for a person to read, on stdout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from specdec_cli.console.bench import fine_ms, machine_facts, spread_cell
from specdec_cli.console.cells import clean, hanging
from specdec_cli.console.compare import PIPED_WIDTH, WIDEST
from specdec_cli.console.compare_figures import percentage, short
from specdec_cli.console.figures import count, seconds
from specdec_cli.console.grid import Cell, Row, render
from specdec_cli.console.tables import stdout_console
from specdec_cli.console.theme import BAD, DIM, GOOD, STRONG, signs_for

if TYPE_CHECKING:
    from specdec_cli.bench.result import Forced, FullSize, ShapeTime


def print_full_size(found: FullSize, *, console: Console | None = None) -> None:
    """Print what models of published sizes do on this machine.

    Args:
        found: what was measured.
        console: where to print, stdout if None.
    """
    console = console or stdout_console()
    width = min(console.width, WIDEST) if console.is_terminal else PIPED_WIDTH
    for line in _lines(found, width, console):
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _lines(found: FullSize, width: int, console: Console) -> Iterator[Text]:
    signs = signs_for(console)

    def facts(*parts: str) -> Iterator[Text]:
        yield from hanging(Text(), Text(f" {signs.dot} ".join(parts), DIM), 0, width)

    yield from facts(found.date, f"specdec {found.machine.specdec}", clean(found.command))
    yield from facts(*machine_facts(found.machine))
    yield from facts(
        found.dtype, found.device, f"k {found.k}", f"copies at {found.copy_gb_s:.1f} GB/s", "made-up weights"
    )
    yield Text()
    yield from render([shape.name for shape in found.shapes], _rows(found.shapes), width)
    if found.forced:
        yield Text()
        yield Text.assemble(("Forced acceptance", STRONG), (" drafts made wrong on purpose, tokens/s decoding", DIM))
        columns = list(dict.fromkeys(forced.mode for forced in found.forced))
        yield from render(columns, _forced(found.forced), width)
    yield Text()
    if found.peak_mb is not None:
        line = f"peak {found.peak_mb:.0f} MiB of a budget of {found.budget_mb:.0f} MiB"
        yield Text(f" {signs.ok} {line}", GOOD) if found.within else Text(f" {signs.fail} {line}", BAD)


def _rows(shapes: list[ShapeTime]) -> list[Row]:
    def row(label: str, *cells: Cell) -> Row:
        return Row(label, cells)

    return [
        row("weights", *[Cell(f"{shape.weights_mb:.0f} MiB") for shape in shapes]),
        row("built in", *[Cell(seconds(shape.built_s)) for shape in shapes]),
        row("audio encoder", *[Cell(fine_ms(shape.tower_ms)) for shape in shapes]),
        row("prefill", *[Cell(fine_ms(shape.prefill_ms), count(shape.prompt_tokens, "token")) for shape in shapes]),
        row("a step", *[Cell(*spread_cell(shape.step_ms, fine_ms)) for shape in shapes]),
        row("verification", *[Cell(*spread_cell(shape.verification_ms, fine_ms)) for shape in shapes]),
        row("floor of a step", *[Cell(fine_ms(shape.floor_ms), f"{shape.read_mb:.0f} MiB read") for shape in shapes]),
        row("step / floor", *[Cell(f"{shape.of_floor:.2f}x") for shape in shapes]),
        row("cache", *[Cell(f"{shape.cache_mb:.1f} MiB") for shape in shapes]),
    ]


def _forced(found: list[Forced]) -> list[Row]:
    """A row an acceptance; after lossless, which share of the judged tokens did pass."""

    def cell(forced: Forced) -> Cell:
        passed = forced.measured_acceptance
        value, spread = spread_cell(forced.tokens_per_s, short)
        return Cell(value, spread, "" if passed is None else f"{percentage(passed)} passed")

    shares = dict.fromkeys(forced.acceptance for forced in found)
    return [
        Row(f"a = {share:g}", tuple(cell(forced) for forced in found if forced.acceptance == share)) for share in shares
    ]
