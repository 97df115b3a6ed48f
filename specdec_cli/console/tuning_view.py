"""A tuning for a person to read, on stdout: what it comes to, and the frontier as a table with bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean, hanging, wrap
from specdec_cli.console.plain import console_on
from specdec_cli.console.tables import PROSE_WIDTH, columns, lines_of, page_width, print_lines
from specdec_cli.console.theme import ASKED, DIM, GOOD, STRONG, Signs, signs_for
from specdec_cli.format import NONE, count, percent, points, share, whole_points, with_ends
from specdec_cli.types import COSTS, Cost

if TYPE_CHECKING:
    from specdec_cli.tune.outcomes import TunedPoint, Tuning
    from specdec_cli.tune.risk import Certified

_LEAST: Final[dict[Cost, str]] = {"blocks": "of the blocks", "clips": "of the clips", "time": "of the cloud's time"}
_BAR: Final = 24  # cells of a gap that is closed
_WITH_QUALITY: Final = 90  # cells from which there is room for quality itself
_WITH_BAR: Final = 108  # cells from which there is room for it
_MEASURES: Final = {
    "labels": "the classes of the references",
    "texts": "the texts of the references (chrF)",
    "agreement": "the cloud's own captions (chrF)",
}


def print_tuning(tuning: Tuning, *, console: Console | None = None) -> None:
    """Print a tuning to `console`, stdout if None."""
    console = console or console_on()
    print_lines(_lines(tuning, page_width(console), signs_for(console)), console)


def _lines(found: Tuning, width: int, signs: Signs) -> Iterator[Text]:
    prose = min(width, PROSE_WIDTH)
    facts = [count(found.clips, "clip"), f"{found.confirmed_on} of them for confirmation, split by {found.split_by}"]
    yield from wrap(Text(f" {signs.dot} ".join(facts), DIM), prose)
    for sentence in (*_sentences(found), *map(Text, found.notes)):
        yield from hanging(Text(f" {signs.dot}"), sentence, 3, prose)
    yield Text()
    yield from _frontier(found, width, signs)
    note = (
        "run on clips that no setting was chosen on; blocks: escalated, clips: that call the cloud, time: the cloud's, "
        "of cloud-only's; random escalates a fixed share of blocks"
    )
    yield from hanging(Text(), Text(note, DIM), 1, prose)


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
    """What random escalation and the oracle close for as much."""
    at = best.at(cost)
    if at is None or at.above_random is None:
        return
    oracle = f", the oracle {with_ends(at.oracle, percent)}" if at.oracle is not None else ""
    above = with_ends(at.above_random, whole_points, " points")
    yield Text(f"For as much, escalation at random closes {percent(at.spent.value)}: it is {above} above{oracle}.")


def _frontier(found: Tuning, width: int, signs: Signs) -> Iterator[Text]:
    """The settings that were run, gate by gate."""
    wide = width >= _WITH_QUALITY
    table = columns(False, *[True] * (5 if wide else 4), False)
    head = (" setting", "blocks", "clips", "time", *(["quality"] if wide else []), "gap closed", "")
    table.add_row(*(Text(name, DIM) for name in head))
    gates = list(dict.fromkeys(point.gate for point in found.confirmed))
    for point in sorted(found.confirmed, key=lambda point: gates.index(point.gate)):
        chosen = found.recommended is not None and point.label == found.recommended.label
        label = Text.assemble((signs.ok if chosen else " ", GOOD), (clean(point.label), STRONG if chosen else ""))
        closed = point.gap_closed
        bar = _bar(closed.value, signs) if closed is not None and width >= _WITH_BAR else Text()
        spent = (share(point.spent[cost]) for cost in COSTS)
        quality = [share(point.quality)] if wide else []
        figures = (*spent, *quality, with_ends(closed, percent) if closed else NONE)
        table.add_row(label, *figures, bar)
    yield from lines_of(table, width)


def _bar(closed: float, signs: Signs) -> Text:
    filled = round(_BAR * min(max(closed, 0.0), 1.0))
    return Text.assemble((signs.bars[-1] * filled, GOOD), (signs.rule * (_BAR - filled), DIM))
