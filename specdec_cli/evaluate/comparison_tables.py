"""The figures of a comparison as tables of text, which the terminal and the page set each in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from specdec_cli.evaluate.bootstrap import Interval
from specdec_cli.evaluate.frontier import FrontierPoint
from specdec_cli.evaluate.result import Basis, Comparison, EmotionWords, Figure, GapMeasure, LabelQuality, ModeFigures
from specdec_cli.format import (
    COST_NAMES,
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
from specdec_cli.plot.frontier_plot import Oracles
from specdec_cli.types import COSTS


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure, and what it is compared with: pairs of a comparison (or nothing) and its interval."""

    value: str
    notes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A line of a table; one cell for each column."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class FigureTable:
    """Rows under the headings of their columns; `corner` is the heading of their labels."""

    title: str
    columns: Sequence[str]
    rows: Sequence[FigureRow]
    corner: str = ""


_Found = Figure | Interval | float | None
_Row = tuple[Callable[[ModeFigures], _Found], Callable[[float | None], str]]
_COSTS: Final[dict[str, _Row]] = {
    "time of all clips": (lambda costs: costs.total_s, seconds),
    "first token": (lambda costs: costs.ttft_ms, milliseconds),
    "tokens/s": (lambda costs: costs.tokens_per_s, short),
    "tokens": (lambda costs: costs.tokens, whole),
    "edge forwards": (lambda costs: costs.forwards_edge, whole),
    "cloud forwards": (lambda costs: costs.forwards_cloud, whole),
    "cloud calls": (lambda costs: costs.cloud_calls, whole),
    "blocks escalated": (lambda costs: costs.escalation_rate, share),
    "clips calling it": (lambda costs: costs.clips_woken, share),
    "cloud's time": (lambda costs: costs.cloud_time, share),
    "drafted by edge": (lambda costs: costs.edge_token_share, share),
    "drafts accepted": (lambda costs: costs.acceptance_rate, share),
    "near ties": (lambda costs: costs.near_ties, whole),
    "uplink": (lambda costs: costs.uplink_bytes, volume),
    "on the link": (lambda costs: costs.network_s, seconds),
    "clips degraded": (lambda costs: costs.degraded or None, whole),
    "CPU time": (lambda costs: costs.cpu_s, seconds),
}
_SUMMARY: Final = (
    *("time of all clips", "first token", "blocks escalated", "clips calling it", "cloud's time"),
    *("on the link", "clips degraded"),
)
"""What the terminal shows of costs; the page has all of it."""
_SHORT: Final[dict[tuple[Basis, GapMeasure], str]] = {
    ("references", "labels"): "classes right",
    ("references", "emotion"): "emotion right",
    ("references", "chrf"): "chrF, references",
    ("cloud", "captions"): "as the cloud's",
}
"""What the terminal shows of quality."""
_TEXTS: Final = {"bleu_1": "BLEU-1", "bleu_2": "BLEU-2", "bleu_3": "BLEU-3", "bleu_4": "BLEU-4", "chrf": "chrF"} | {
    "rouge_l": "ROUGE-L",
    "bertscore": "BERTScore F1",
}


def _table(title: str, columns: Sequence[str], rows: Iterable[tuple[str, Iterable[Cell]]]) -> FigureTable | None:
    """Rows without any figure are left out, and a table without rows is none."""
    made = [FigureRow(label, tuple(cells)) for label, cells in rows]
    kept = [row for row in made if any(cell.value not in ("", NONE) for cell in row.cells)]
    return FigureTable(title, columns, kept) if kept else None


def measured(found: Interval | None, written: Callable[[float], str] = share) -> Cell:
    """A figure with its interval."""
    if found is None:
        return Cell(NONE)
    ends = interval(found, percent if written is share else written)
    return Cell(written(found.value), (("", ends),) if ends else ())


def summary(comparison: Comparison) -> FigureTable | None:
    """One table of modes: quality, time, and the three costs."""
    gaps = {(gap.mode, gap.basis, gap.measure): gap for gap in comparison.gaps}
    shown = [key for key in _SHORT if comparison.references_found or key[0] == "cloud"]
    rows: list[tuple[str, list[Cell]]] = []
    for basis, measure in shown:
        own = [gaps.get((mode, basis, measure)) for mode in comparison.modes]
        if known := next(filter(None, own), None):
            ends = {"edge": known.edge, "cloud": known.cloud}
            values = [gap.value if gap else ends.get(mode) for mode, gap in zip(comparison.modes, own, strict=True)]
            rows.append((_SHORT[basis, measure], [Cell(share(value)) for value in values]))
            if basis == "references" or not comparison.references_found:  # the gap that the sentence is about
                closed = [measured(gap.closed, percent) if gap and gap.closed else Cell("") for gap in own]
                rows.append(("  gap closed", closed))
    if "classes right" not in dict(rows) and any(each.label_mean for each in comparison.quality):
        rows.insert(0, ("classes right", [measured(each.label_mean) for each in comparison.quality]))
    rows += [(label, _costs(comparison, label)) for label in _SUMMARY]
    return _table("", comparison.modes, rows)


def costs(comparison: Comparison) -> FigureTable | None:
    """What each mode costs, with its ratios to edge-only and to cloud-only."""
    return _table("Cost by mode", comparison.modes, ((label, _costs(comparison, label)) for label in _COSTS))


def _costs(comparison: Comparison, label: str) -> list[Cell]:
    of, show = _COSTS[label]
    return [_cost(of(each), show) for each in comparison.costs]


def _cost(found: _Found, show: Callable[[float | None], str]) -> Cell:
    if isinstance(found, Interval):
        return measured(found, show)
    if not isinstance(found, Figure):
        return Cell(show(found))
    ratios = (("edge", found.to_edge), ("cloud", found.to_cloud))
    notes = [(f"×{short(ratio.value)} {name}", interval(ratio)) for name, ratio in ratios if ratio is not None]
    return Cell(show(found.value), tuple(notes))


def classes(comparison: Comparison) -> FigureTable | None:
    """Accuracy of each attribute's class against the references, and of always naming the commonest class."""
    quality = comparison.quality
    rows = []
    for name, first in quality[0].labels.items():  # the references decide which attributes there are
        cells = [_accuracy(each.labels[name]) for each in quality]
        rows.append((name, [*cells, Cell(share(first.majority)), Cell(whole(first.clips))]))
    rows.append(("mean", [*(measured(each.label_mean) for each in quality), Cell(""), Cell("")]))
    return _table(f"{_references(comparison)}: classes", (*comparison.modes, "commonest", "clips"), rows)


def _accuracy(found: LabelQuality) -> Cell:
    cell = measured(found.accuracy)
    return Cell(cell.value, (*cell.notes, (f"F1 {100 * found.macro_f1:.0f}", "")))


def confusions(comparison: Comparison) -> Iterable[FigureTable]:
    """Each attribute's confusion in each mode: counts by class of the reference and class of the caption."""
    for name in comparison.quality[0].labels:
        for quality in comparison.quality:
            counts = quality.labels[name].confusion
            rows = [FigureRow(of, tuple(Cell(whole(clips)) for clips in row.values())) for of, row in counts.items()]
            columns = list(next(iter(counts.values())))
            yield FigureTable(f"{name}, {quality.mode}", columns, rows, "reference ↓ caption →")


def texts(comparison: Comparison) -> FigureTable | None:
    """Captions against reference texts."""
    rows = []
    for field, name in _TEXTS.items():
        values = [getattr(quality.text, field, None) for quality in comparison.quality]
        rows.append((name, [Cell(NONE if value is None else f"{value:.1f}") for value in values]))
    rows.append(("emotion words", [_words(quality.emotions) for quality in comparison.quality]))
    return _table(f"{_references(comparison)}: texts, 0 to 100", comparison.modes, rows)


def _words(found: EmotionWords | None) -> Cell:
    """The mean of precision and recall, and the two."""
    if found is None:
        return Cell(NONE)
    cell = measured(found.mean)
    return Cell(cell.value, (*cell.notes, (f"P {share(found.precision.value)} R {share(found.recall.value)}", "")))


def agreement(comparison: Comparison) -> FigureTable | None:
    """How near each mode's captions are to the cloud's own."""
    found = {quality.mode: quality.agreement for quality in comparison.quality if quality.agreement}
    rated = list(found.values())
    rows = [
        ("same caption", [Cell(share(each.exact)) for each in rated]),
        ("chrF", [Cell(f"{each.chrf:.1f}") for each in rated]),
        ("same classes", [measured(each.label_mean) for each in rated]),
        ("emotion words", [_words(each.emotions) for each in rated]),
    ]
    for name in comparison.attributes:
        rows.append((f"  {name}", [Cell(share(each.labels.get(name))) for each in rated]))
    return _table("Against the cloud's captions", list(found), rows)


def gaps(comparison: Comparison) -> FigureTable | None:
    """How much of the gap between edge and cloud each mode closes, by everything that it can be measured on."""

    columns = ("edge", "this mode", "cloud", "gap, points", "gain, points", "gap closed", "clips")
    rows = []
    for gap in comparison.gaps:
        ends = [Cell(share(value)) for value in (gap.edge, gap.value, gap.cloud)]
        differences = [measured(gap.gap, points), measured(gap.gain, points), measured(gap.closed, percent)]
        rows.append((f"{gap.mode}: {gap.subject}", [*ends, *differences, Cell(whole(gap.clips))]))
    return _table("Share of the gap between edge and cloud that is closed", columns, rows)


def at_costs(comparison: Comparison) -> Iterable[FigureTable]:
    """What hybrid spends of each cost, and how far what it closes is above random escalation and below the oracle."""
    for gap in comparison.stated_gaps():
        if gap.mode != "hybrid" or gap.closed is None:
            continue
        rows = [
            (
                COST_NAMES[at.cost],
                (
                    measured(at.spent, share),
                    measured(gap.closed, percent),
                    measured(at.above_random, whole_points),
                    measured(at.oracle, percent),
                ),
            )
            for at in gap.at_costs
        ]
        columns = ("spent", "gap closed", "above random", "oracle closes")
        if table := _table(f"What {gap.mode} spends and closes: {gap.subject.lower()}", columns, rows):
            yield table


def frontier_points(
    comparison: Comparison,
) -> tuple[str, list[FrontierPoint], Oracles] | None:
    """What to draw as a frontier, by the measure that the headline goes by: its title, the modes, and the oracle.

    None if no gap was measured.
    """
    found = [gap for gap in comparison.stated_gaps() if gap.closed is not None]
    if not found:
        return None
    first = found[0]  # that which decides the verdict first
    nothing, everything = dict.fromkeys(COSTS, 0.0), dict.fromkeys(COSTS, 1.0)
    drawn = [
        FrontierPoint(gap.mode, gap.mode, {at.cost: at.spent.value for at in gap.at_costs}, gap.closed, confirmed=True)
        for gap in found
        if gap.subject == first.subject
    ]
    edge = FrontierPoint("edge", "edge", nothing, Interval(0.0, 0.0, 0.0), confirmed=True)
    cloud = FrontierPoint("cloud", "cloud", everything, Interval(1.0, 1.0, 1.0), confirmed=True)
    oracle: Oracles = {curve.cost: curve.points for curve in first.oracle}
    return f"{first.subject}: share of the gap closed", [edge, *drawn, cloud], oracle


def _references(comparison: Comparison) -> str:
    return f"Against the references of {count(comparison.references_found or 0, 'clip')}"
