"""A tuning for a person to read, on stdout: what it comes to, and the frontier as a table with bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean, hanging, wrap
from specdec_cli.console.output import console_on
from specdec_cli.console.tables import PROSE_WIDTH, columns, lines_of, page_width, print_lines
from specdec_cli.console.theme import ASKED, DIM, GOOD, STRONG, Signs, signs_for
from specdec_cli.report.figures import NONE, count, percent, share

if TYPE_CHECKING:
    from specdec_cli.metrics import Interval
    from specdec_cli.tune.result import Tuning

_BAR: Final = 24  # cells of a gap that is closed
_WITH_BAR: Final = 96  # cells from which there is room for it
_MEASURES: Final = {
    "labels": "the classes of the references",
    "texts": "the texts of the references (chrF)",
    "agreement": "the cloud's own captions, token by token",
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
    note = "run on clips that no setting was chosen on; random escalates a fixed share of blocks"
    yield from hanging(Text(), Text(note, DIM), 1, prose)


def _sentences(found: Tuning) -> Iterator[Text]:
    gap, best = found.gap, found.recommended
    yield Text(
        f"Measured against {_MEASURES[found.measure]}: edge {share(found.edge_quality)}, "
        f"cloud {share(found.cloud_quality)}; the cloud is better by {100 * gap.value:.1f} points{_ends(gap, 1)}."
    )
    if best is None:
        yield Text(found.reason or "", ASKED)
        return
    calls = f"{best.asks_per_clip:.1f} calls per clip"
    closed = f" and closes {_gap(best.gap_closed)} of the gap" if best.gap_closed is not None else ""
    yield Text(
        f"Recommended: {best.label}. It escalates {share(best.escalation_rate)} of the blocks ({calls}){closed}: "
        "the fewest within one standard error of the best within the budget.",
        GOOD,
    )
    if found.output:
        yield Text(f"Use it: --gate {clean(found.output)}")


def _frontier(found: Tuning, width: int, signs: Signs) -> Iterator[Text]:
    """The settings that were run, gate by gate."""
    table = columns(False, True, True, True, True, False)
    head = (" setting", "escalated", "calls per clip", "quality", "gap closed", "")
    table.add_row(*(Text(name, DIM) for name in head))
    gates = list(dict.fromkeys(point.gate for point in found.confirmed))
    for point in sorted(found.confirmed, key=lambda point: gates.index(point.gate)):
        chosen = found.recommended is not None and point.label == found.recommended.label
        label = Text.assemble((signs.ok if chosen else " ", GOOD), (clean(point.label), STRONG if chosen else ""))
        calls, closed = f"{point.asks_per_clip:.2f}", point.gap_closed
        bar = _bar(closed.value, signs) if closed is not None and width >= _WITH_BAR else Text()
        figures = (share(point.escalation_rate), calls, share(point.quality), _gap(closed) if closed else NONE)
        table.add_row(label, *figures, bar)
    yield from lines_of(table, width)


def _bar(closed: float, signs: Signs) -> Text:
    filled = round(_BAR * min(max(closed, 0.0), 1.0))
    return Text.assemble((signs.bars[-1] * filled, GOOD), (signs.rule * (_BAR - filled), DIM))


def _gap(closed: Interval) -> str:
    return percent(closed.value) + _ends(closed, 0)


def _ends(found: Interval, digits: int) -> str:
    if found.low is None or found.high is None:
        return ""
    return f" ({100 * found.low:.{digits}f} to {100 * found.high:.{digits}f})"
