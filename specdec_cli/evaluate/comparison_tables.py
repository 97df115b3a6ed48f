"""The figures of a comparison as tables of text, which the terminal and the page set each in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from specdec_cli.evaluate.bootstrap import Interval
from specdec_cli.evaluate.result import Basis, Comparison, Figure, GapMeasure, LabelQuality
from specdec_cli.format import (
    NONE,
    count,
    interval,
    milliseconds,
    percent,
    points,
    seconds,
    share,
    short,
    volume,
    whole,
    whole_points,
)
from specdec_cli.types import COSTS


class Cell(NamedTuple):
    """A figure, and what it is compared with: pairs of a comparison (or nothing) and its interval."""

    value: str
    notes: tuple[tuple[str, str], ...] = ()


class FigureRow(NamedTuple):
    """A line of a table; one cell for each column."""

    label: str
    cells: Sequence[Cell]


class FigureTable(NamedTuple):
    """Rows under the headings of their columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[FigureRow]


_COSTS: Final[dict[str, tuple[str, Callable[[float | None], str]]]] = {
    "time of all clips": ("total_s", seconds),
    "first token": ("ttft_ms", milliseconds),
    "tokens/s": ("tokens_per_s", short),
    "edge forwards": ("forwards_edge", whole),
    "cloud forwards": ("forwards_cloud", whole),
    "blocks escalated": ("escalation_rate", share),
    "clips escalated": ("clips_woken", share),
    "cloud's time": ("cloud_time", share),
    "drafted by edge": ("edge_token_share", share),
    "drafts accepted": ("acceptance_rate", share),
    "uplink": ("uplink_bytes", volume),
    "on the link": ("network_s", seconds),
    "clips degraded": ("degraded", whole),
}
"""Label -> field of `ModeFigures`, and how it is written."""
_SUMMARY: Final = (
    *("time of all clips", "first token", "blocks escalated", "clips escalated", "cloud's time"),
    *("on the link", "clips degraded"),
)
"""What the terminal shows of costs, below what it shows of quality; the page has all of it."""
_MEASURES: Final[dict[tuple[Basis, GapMeasure], str]] = {
    ("references", "labels"): "classes right",
    ("references", "emotion"): "  emotion",
    ("references", "chrf"): "chrF",
    ("cloud", "captions"): "as the cloud's",
}
_TEXTS: Final = {"bleu": "BLEU", "chrf": "chrF", "rouge_l": "ROUGE-L", "bertscore": "BERTScore F1"}


def _table(title: str, columns: Sequence[str], rows: Iterable[tuple[str, Sequence[Cell]]]) -> FigureTable | None:
    """Rows without any figure above 0 are left out, and a table without rows is none."""
    kept = [FigureRow(*row) for row in rows if any(cell.value not in ("", NONE, "0", "0 B") for cell in row[1])]
    return FigureTable(title, columns, kept) if kept else None


def measured(found: Interval | None, written: Callable[[float], str] = share) -> Cell:
    """A figure with its interval."""
    if found is None:
        return Cell(NONE)
    ends = interval(found, percent if written is share else written)
    return Cell(written(found.value), (("", ends),) if ends else ())


def summary(comparison: Comparison) -> FigureTable | None:
    """One table of modes for the terminal: quality, gap closed by the measure that leads, time, and the three costs."""
    stated = {(gap.basis, gap.measure, gap.mode): gap for gap in comparison.stated_gaps()}
    known = dict(_quality(comparison))
    rows: list[tuple[str, Sequence[Cell]]] = []
    for measured_by, label in _MEASURES.items():
        own = [stated.get((*measured_by, mode)) for mode in comparison.modes]
        closed = [measured(gap.closed, percent) if gap and gap.closed else Cell("") for gap in own]
        rows += [(label, known.get(label, ())), ("  gap closed", closed)]
    return _table("", comparison.modes, [*rows, *_costs(comparison, _SUMMARY)])


def costs(comparison: Comparison) -> FigureTable | None:
    """What each mode costs, with its ratios to edge-only and to cloud-only."""
    return _table("Cost by mode", comparison.modes, _costs(comparison, _COSTS))


def _costs(comparison: Comparison, labels: Iterable[str]) -> Iterator[tuple[str, list[Cell]]]:
    for label in labels:
        field, written = _COSTS[label]
        yield label, [_cost(getattr(of, field), written) for of in comparison.costs]


def _cost(found: Any, written: Callable[[float | None], str]) -> Cell:
    if isinstance(found, Interval):
        return measured(found, written)
    if not isinstance(found, Figure):
        return Cell(written(found))
    ratios = (("edge", found.to_edge), ("cloud", found.to_cloud))
    notes = [(f"×{short(ratio.value)} {name}", interval(ratio)) for name, ratio in ratios if ratio is not None]
    return Cell(written(found.value), tuple(notes))


def quality(comparison: Comparison) -> FigureTable | None:
    """Captions against the references, and how near they are to the cloud's own."""
    found = count(comparison.references_found, "clip") if comparison.references_found else ""
    title = f"Against the references of {found}" if found else "Against the cloud's captions"
    return _table(title, comparison.modes, _quality(comparison))


def _quality(comparison: Comparison) -> Iterator[tuple[str, list[Cell]]]:
    """Rows of quality; below a class: its F1, and the accuracy of always naming the commonest one."""
    found = comparison.quality
    yield "classes right", [measured(each.label_mean) for each in found]
    for name in found[0].labels if found else ():  # the references decide which attributes there are
        yield f"  {name}", [_accuracy(each.labels[name]) for each in found]
    for field, name in _TEXTS.items():
        values = [getattr(each.text, field, None) for each in found]
        yield name, [Cell(NONE if value is None else f"{value:.1f}") for value in values]
    yield "as the cloud's", [Cell(share(each.same_captions)) for each in found]
    yield "  classes", [measured(each.same_labels) for each in found]


def _accuracy(found: LabelQuality) -> Cell:
    cell = measured(found.accuracy)
    more = f"F1 {100 * found.macro_f1:.0f}, commonest {percent(found.majority)}"
    return Cell(cell.value, (*cell.notes, (more, "")))


def gaps(comparison: Comparison) -> FigureTable | None:
    """How much of the gap between edge and cloud each mode closes, and how far that is above random escalation."""
    above = (f"above random, of {cost}" for cost in COSTS)
    rows = []
    for gap in comparison.gaps:
        ends = [Cell(share(value)) for value in (gap.edge, gap.value, gap.cloud)]
        at = {each.cost: each.above_random for each in gap.at_costs}
        beyond = [measured(at.get(cost), whole_points) for cost in COSTS]
        cells = [*ends, measured(gap.gain, points), measured(gap.closed, percent), *beyond]
        rows.append((f"{gap.mode}: {gap.subject}", cells))
    columns = ("edge", "this mode", "cloud", "gain, points", "gap closed", *above)
    return _table("Share of the gap between edge and cloud that is closed", columns, rows)
