"""What was fitted, for a person to read on stdout: a tuning with its frontier, and a calibration."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from rich.console import Console, RenderableType
from rich.text import Text

from specdec_cli.console.cells import Prose, clean
from specdec_cli.console.tables import columns, print_page
from specdec_cli.console.theme import ASKED, DIM, DOT, GOOD, OK, STRONG
from specdec_cli.format import NONE, count, percent, points, share, whole_points, with_ends
from specdec_cli.types import COSTS, Cost

if TYPE_CHECKING:
    from specdec_cli.labels.temperatures import CalibrationFound
    from specdec_cli.tune.outcomes import TunedPoint, Tuning
    from specdec_cli.tune.risk import Certified

_LEAST: Final[dict[Cost, str]] = {"blocks": "of the blocks", "clips": "of the clips", "time": "of the cloud's time"}
_WITH_QUALITY: Final = 90  # cells from which there is room for quality itself
_MEASURES: Final = {
    "labels": "the classes of the references",
    "texts": "the texts of the references (chrF)",
    "agreement": "the cloud's own captions (chrF)",
}


def print_tuning(tuning: Tuning, *, console: Console | None = None) -> None:
    """Print a tuning to `console`, stdout if None."""
    print_page(partial(_tuning, tuning), console)


def _tuning(found: Tuning, width: int) -> Iterator[RenderableType]:
    facts = [count(found.clips, "clip"), f"{found.confirmed_on} of them for confirmation, split by {found.split_by}"]
    if found.references_found is not None:
        facts.append(f"references of {found.references_found}")
    yield Prose(Text(DOT.join(facts), DIM))
    for sentence in (*_sentences(found), *map(Text, found.notes)):
        yield Prose(sentence, Text(DOT), indent=3)
    yield Text()
    yield _frontier(found, width)
    note = (
        "run on clips that no setting was chosen on; blocks: escalated, clips: that call the cloud, time: the cloud's, "
        "of cloud-only's; random escalates a fixed share of blocks"
    )
    yield Prose(Text(note, DIM), indent=1)


def _sentences(found: Tuning) -> Iterator[Text]:
    gap, best = found.gap, found.recommended
    yield Text(
        f"Measured against {_MEASURES[found.measure]}: edge {share(found.edge_quality)}, "
        f"cloud {share(found.cloud_quality)}, a difference of {with_ends(gap, points, ' points')}."
    )
    if best is None:
        yield Text(found.reason or "", ASKED)
        return
    calls = f"{best.escalations_per_clip:.1f} calls per clip"
    spent = [f"calls the cloud for {share(best.spent['clips'])} of the clips ({calls})"]
    if best.spent["blocks"] is not None:
        spent.insert(0, f"escalates {share(best.spent['blocks'])} of the blocks")
    if best.spent["time"] is not None:
        spent.append(f"takes {share(best.spent['time'])} of cloud-only's time in the cloud")
    closed = f", and closes {with_ends(best.gap_closed, percent)} of the gap" if best.gap_closed is not None else ""
    why = f"the least {_LEAST[found.cost]} within one standard error of the best within the budget"
    if found.risk is not None:
        why = f"the least {_LEAST[found.cost]} that is certified"
    yield Text(f"Recommended: {best.label}. It {', '.join(spent)}{closed}: {why}.", GOOD)
    if found.risk is not None:
        yield Text(_guarantee(found.risk))
    yield from _otherwise(best, found.cost)
    if found.output:
        yield Text(f"Use it: --gate {clean(found.output)}")


def _guarantee(risk: Certified) -> str:
    """What is certified, on what condition."""
    return (
        f"Certified: on average, at most {100 * risk.alpha:g}% of captions name another class than the cloud's own "
        f"caption ({risk.differing} of {risk.clips} clips here, bound {share(risk.bound)}), for clips that are "
        "exchangeable with these."
    )


def _otherwise(best: TunedPoint, cost: Cost) -> Iterator[Text]:
    """What random escalation closes for as much."""
    for at in best.at_costs:
        if at.cost == cost and at.above_random is not None:
            above = with_ends(at.above_random, whole_points, " points")
            yield Text(f"For as much, escalation at random closes {percent(at.spent.value)}: it is {above} above.")


def _frontier(found: Tuning, width: int) -> RenderableType:
    """The settings that were run, gate by gate."""
    figures = ("blocks", "clips", "time", *(["quality"] if width >= _WITH_QUALITY else []), "gap closed")
    table = columns(" setting", *figures, right=figures)
    gates = list(dict.fromkeys(point.gate for point in found.confirmed))
    for point in sorted(found.confirmed, key=lambda point: gates.index(point.gate)):
        chosen = found.recommended is not None and point.label == found.recommended.label
        label = Text.assemble((OK if chosen else " ", GOOD), (clean(point.label), STRONG if chosen else ""))
        closed = point.gap_closed
        spent = (share(point.spent[cost]) for cost in COSTS)
        quality = [share(point.quality)] if width >= _WITH_QUALITY else []
        table.add_row(label, *spent, *quality, with_ends(closed, percent) if closed else NONE)
    return table


def print_calibration(found: CalibrationFound, *, console: Console | None = None) -> None:
    """Print a calibration to `console`, stdout if None."""
    print_page(partial(_calibration, found), console)


def _calibration(found: CalibrationFound, _: int) -> Iterator[RenderableType]:
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
