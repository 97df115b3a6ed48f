"""The pages of what was fitted: a tuning with its frontier, and a calibration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.text import Text

from specdec_cli.console.cells import Prose, clean
from specdec_cli.console.tables import columns, facts, item
from specdec_cli.console.theme import ASKED, DIM, GOOD, OK, STRONG
from specdec_cli.format import NONE, count, percent, points, share, with_ends
from specdec_cli.types import COSTS, Cost

if TYPE_CHECKING:
    from specdec_cli.labels.temperatures import CalibrationFound
    from specdec_cli.tune.outcomes import Tuning

_OF: Final[dict[Cost, str]] = {"blocks": "the blocks", "clips": "the clips", "time": "cloud-only's time in the cloud"}
_MEASURES: Final = {
    "labels": "the classes of the references",
    "texts": "the texts of the references (chrF)",
    "agreement": "the cloud's own captions (chrF)",
}


def tuning_page(found: Tuning, _: int) -> Iterator[RenderableType]:
    """What it comes to, and the settings that were run, gate by gate."""
    about = [count(found.clips, "clip"), f"{found.confirmed_on} of them for confirmation, split by {found.split_by}"]
    about += [f"references of {found.references_found}"] if found.references_found is not None else []
    yield facts(*about)
    yield from map(item, (*_sentences(found), *found.notes))
    yield Text()
    figures = (*COSTS, "quality", "gap closed")
    table = columns(" setting", *figures, right=figures)
    gates = list(dict.fromkeys(point.gate for point in found.confirmed))
    for point in sorted(found.confirmed, key=lambda point: gates.index(point.gate)):
        chosen = found.recommended is not None and point.label == found.recommended.label
        label = Text.assemble((OK if chosen else " ", GOOD), (clean(point.label), STRONG if chosen else ""))
        closed = with_ends(point.gap_closed, percent) if point.gap_closed else NONE
        table.add_row(label, *(share(point.spent[cost]) for cost in COSTS), share(point.quality), closed)
    yield table
    note = "run on clips that no setting was chosen on; random escalates a fixed share of blocks"
    yield Prose(Text(note, DIM), indent=1)


def _sentences(found: Tuning) -> Iterator[str | Text]:
    best, risk = found.recommended, found.risk
    yield (
        f"Measured against {_MEASURES[found.measure]}: edge {share(found.edge_quality)}, "
        f"cloud {share(found.cloud_quality)}, a difference of {with_ends(found.gap, points, ' points')}."
    )
    if best is None:
        yield Text(found.reason or "", ASKED)
        return
    known = [f"{share(best.spent[cost])} of {_OF[cost]}" for cost in COSTS if best.spent[cost] is not None]
    closed = f", and closes {with_ends(best.gap_closed, percent)} of the gap" if best.gap_closed is not None else ""
    why = "that is certified" if risk else "within one standard error of the best within the budget"
    yield Text(
        f"Recommended: {best.label}. It takes {', '.join(known)} ({best.escalations_per_clip:.1f} calls per clip)"
        f"{closed}: the least of {_OF[found.cost]} {why}.",
        GOOD,
    )
    if risk is not None:
        yield (
            f"Certified: on average, at most {100 * risk.alpha:g}% of captions name another class than the cloud's own "
            f"caption ({risk.differing} of {risk.clips} clips here, bound {share(risk.bound)}), for clips that are "
            "exchangeable with these."
        )
    if found.output:
        yield f"Use it: --gate {found.output}"


def calibration_page(found: CalibrationFound, _: int) -> Iterator[RenderableType]:
    """How likely and how often right the classes are, before and after calibration."""
    kind = "speakers" if found.by_speaker else "clips"
    yield from (facts(f"{found.decisions} classes, {found.groups} {kind}"), Text())
    figures = ("captions", "right", "probability", "ECE", "calibrated", *(f"T {by}" for by in found.models))
    table = columns("attribute", "mode", *figures, right=figures)
    for fit in found.fits:
        fitted = (of.temperatures.get(fit.attribute) for of in found.models.values())
        table.add_row(
            Text(clean(fit.attribute)),
            fit.mode,
            str(fit.raw.captions),
            percent(fit.raw.accuracy),
            percent(fit.raw.probability),
            share(fit.raw.ece),
            share(fit.calibrated.ece),
            *(NONE if temperature is None else f"{temperature:.2f}" for temperature in fitted),
        )
    yield from (table, Text())
    note = (
        "ECE: expected calibration error, the mean distance between how likely and how often right, over ten bins. "
        f"Calibrated: at the temperatures (T) of each model, fitted to other {kind}."
    )
    yield Prose(Text(note, DIM), indent=1)
