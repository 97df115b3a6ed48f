"""A calibration for a person to read, on stdout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.text import Text

from specdec_cli.console.cells import Prose, clean
from specdec_cli.console.tables import columns, page_on, print_page
from specdec_cli.console.theme import DIM
from specdec_cli.format import NONE, percent, share

if TYPE_CHECKING:
    from specdec_cli.labels.temperatures import CalibrationFound


def print_calibration(found: CalibrationFound, *, console: Console | None = None) -> None:
    """Print a calibration to `console`, stdout if None."""
    print_page(_parts(found), page_on(console))


def _parts(found: CalibrationFound) -> Iterator[RenderableType]:
    kind = "speakers" if found.by_speaker else "clips"
    modes = ", ".join(f"{mode} {number}" for mode, number in found.by_mode.items())
    facts = f"{found.decisions} classes ({modes}), {found.groups} {kind}, {found.folds} folds that keep {kind} together"
    yield Text(facts, DIM)
    yield Text()
    figures = ("captions", "right", "probability", "ECE", "temperature", "ECE calibrated")
    table = columns("attribute", "of", *figures, right=figures)
    for fit in found.fits:
        table.add_row(
            Text(clean(fit.attribute)),
            fit.by or f"mode {fit.mode}",
            str(fit.raw.captions),
            percent(fit.raw.accuracy),
            percent(fit.raw.probability),
            share(fit.raw.ece),
            NONE if fit.temperature is None else f"{fit.temperature:.2f}",
            NONE if fit.calibrated is None else share(fit.calibrated.ece),
        )
    yield table
    yield Text()
    note = (
        "ECE: expected calibration error, the mean distance between how likely and how often right, over ten bins. "
        f"Calibrated: each of the folds at the temperature fitted to the others, so to other {kind}."
    )
    yield Prose(Text(note, DIM), indent=1)
