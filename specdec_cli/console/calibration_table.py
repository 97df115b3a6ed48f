"""A calibration for a person to read, on stdout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean, hanging
from specdec_cli.console.plain import console_on
from specdec_cli.console.tables import PROSE_WIDTH, columns, lines_of, page_width, print_lines
from specdec_cli.console.theme import DIM
from specdec_cli.format import NONE, percent

if TYPE_CHECKING:
    from specdec_cli.labels.temperatures import CalibrationFound


def print_calibration(found: CalibrationFound, *, console: Console | None = None) -> None:
    """Print a calibration to `console`, stdout if None."""
    console = console or console_on()
    print_lines(_lines(found, page_width(console)), console)


def _lines(found: CalibrationFound, width: int) -> Iterator[Text]:
    kind = "speakers" if found.by_speaker else "clips"
    modes = ", ".join(f"{mode} {number}" for mode, number in found.by_mode.items())
    facts = f"{found.decisions} classes ({modes}), {found.groups} {kind}, {found.folds} folds that keep {kind} together"
    yield Text(facts, DIM)
    yield Text()
    table = columns(False, False, True, True, True, True, True, True)
    head = ("attribute", "of", "captions", "right", "probability", "ECE", "temperature", "ECE calibrated")
    table.add_row(*(Text(name, DIM) for name in head))
    for fit in found.fits:
        figures = (
            str(fit.raw.captions),
            percent(fit.raw.accuracy),
            percent(fit.raw.probability),
            f"{100 * fit.raw.ece:.1f}%",
        )
        temperature = NONE if fit.temperature is None else f"{fit.temperature:.2f}"
        after = NONE if fit.calibrated is None else f"{100 * fit.calibrated.ece:.1f}%"
        table.add_row(Text(clean(fit.attribute)), fit.by or f"mode {fit.mode}", *figures, temperature, after)
    yield from lines_of(table, width)
    yield Text()
    note = (
        "ECE: expected calibration error, the mean distance between how likely and how often right, over ten bins. "
        f"Calibrated: each of the folds at the temperature fitted to the others, so to other {kind}."
    )
    yield from hanging(Text(), Text(note, DIM), 1, min(width, PROSE_WIDTH))
