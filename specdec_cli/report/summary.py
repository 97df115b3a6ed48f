"""The tables over all clips: figures of a comparison as text, ready to be set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from specdec_cli.compare.result import Comparison, Figure, Gap, ModeFigures, ModeQuality, Spread
from specdec_cli.report.figures import NONE, count, milliseconds, number, percent, seconds, spread
from specdec_cli.types import Mode

NO_CLASS: Final = "none"
"""Column of a confusion for captions that name no class."""

MEASURES: Final = {
    "labels": "classes of all attributes",
    "emotion": "emotion",
    "chrf": "chrF",
    "captions": "whole captions",
}
BASES: Final = {"references": "references", "cloud": "the cloud's captions"}
_MEASURE_ORDER: Final = ("labels", "emotion", "chrf", "captions")


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure, and what stands under it in small letters: lines of parts that may stand under each other."""

    value: str
    notes: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table; one cell for each column."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a heading for each column."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Confusion:
    """Where one mode's classes of one attribute went: counts by class of the reference and class of the caption."""

    attribute: str
    mode: Mode
    table: Table


@dataclass(frozen=True, slots=True)
class GapPoint:
    """One mode in the frontier picture; see `report.frontier.FrontierPoint`."""

    label: str
    gate: str
    escalation_rate: float
    gap_closed: Spread | None
    confirmed: bool = True


_COSTS: Final[
    tuple[tuple[str, Callable[[ModeFigures], Figure | Spread | float | None], Callable[[float | None], str]], ...]
] = (
    ("Time decoding", lambda costs: costs.total_s, seconds),
    ("First token, median", lambda costs: costs.ttft_ms, milliseconds),
    ("Tokens per second", lambda costs: costs.tokens_per_s, number),
    ("Prompt tokens per second", lambda costs: costs.input_tokens_per_s, number),
    ("Tokens", lambda costs: costs.tokens, count),
    ("Forwards of the edge", lambda costs: costs.forwards_edge, count),
    ("Forwards of the cloud", lambda costs: costs.forwards_cloud, count),
    ("Verifications by the cloud", lambda costs: costs.cloud_calls, count),
    ("Clips that escalated", lambda costs: costs.clips_asked, count),
    ("Blocks escalated", lambda costs: costs.escalation_rate, percent),
    ("Tokens drafted by the edge", lambda costs: costs.edge_token_share, percent),
    ("Draft tokens accepted, of those verified", lambda costs: costs.acceptance_rate, percent),
    ("Near ties", lambda costs: costs.near_ties, count),
    ("Bytes that left the device", lambda costs: costs.uplink_bytes, count),
    ("Clips finished without the cloud", lambda costs: costs.degraded, count),
    ("CPU time", lambda costs: costs.cpu_s, seconds),
    ("CPU load (100%: one core)", lambda costs: costs.cpu_percent, lambda value: percent(value and value / 100, 0)),
)


def costs_table(comparison: Comparison) -> Table:
    """What each mode cost, with its ratios to the two baselines. Rows in which no mode has a figure are left out."""
    rows = []
    for name, of, show in _COSTS:
        figures = [of(costs) for costs in comparison.costs]
        cells = tuple(_cost(figure, show) for figure in figures)
        if any(cell.value != NONE for cell in cells):
            rows.append(Row(name, cells))
    return Table(tuple(comparison.modes), tuple(rows))


def _cost(figure: Figure | Spread | float | None, show: Callable[[float | None], str]) -> Cell:
    if isinstance(figure, Spread):
        return Cell(show(figure.value), _note(spread(figure, show)))
    if not isinstance(figure, Figure):
        return Cell(show(figure))
    ratios = (("edge", figure.to_edge), ("cloud", figure.to_cloud))
    return Cell(show(figure.value), tuple(_times(name, ratio) for name, ratio in ratios if ratio is not None))


def _times(name: str, ratio: Spread) -> tuple[str, ...]:
    return f"{number(ratio.value)}× {name}", spread(ratio, number)


def _note(text: str) -> tuple[tuple[str, ...], ...]:
    return ((text,),) if text else ()


def labels_table(comparison: Comparison) -> Table | None:
    """Accuracy of each attribute's class against the references, and of always naming the commonest class."""
    first = next((quality for quality in comparison.quality if quality.labels), None)
    if first is None:
        return None
    rows = []
    for attribute in _in_order(comparison, first.labels):
        known = first.labels[attribute]
        cells = [_accuracy(quality, attribute) for quality in comparison.quality]
        rows.append(Row(attribute, (*cells, Cell(percent(known.majority)), Cell(count(known.clips)))))
    means = [
        Cell(percent(q.label_mean.value), _note(spread(q.label_mean))) if q.label_mean else Cell(NONE)
        for q in comparison.quality
    ]
    rows.append(Row("mean", (*means, Cell(""), Cell(""))))
    return Table((*comparison.modes, "commonest class", "clips"), tuple(rows))


def _accuracy(quality: ModeQuality, attribute: str) -> Cell:
    found = quality.labels.get(attribute)
    if found is None:
        return Cell(NONE)
    return Cell(percent(found.accuracy.value), ((spread(found.accuracy),), (f"macro-F1 {percent(found.macro_f1)}",)))


def confusions(comparison: Comparison) -> list[Confusion]:
    """Each attribute's confusion in each mode, attributes first."""
    found = []
    attributes = dict.fromkeys(name for quality in comparison.quality for name in quality.labels)
    for attribute in _in_order(comparison, attributes):
        for quality in comparison.quality:
            if attribute in quality.labels:
                table = _confusion(quality.labels[attribute].confusion)
                found.append(Confusion(attribute, quality.mode, table))
    return found


def _confusion(counts: Mapping[str, Mapping[str, int]]) -> Table:
    classes = list(dict.fromkeys([*counts, *(name for row in counts.values() for name in row)]))
    classes.sort(key=lambda name: name == NO_CLASS)
    rows = (Row(truth, tuple(Cell(count(row.get(name, 0))) for name in classes)) for truth, row in counts.items())
    return Table(tuple(classes), tuple(rows))


def text_table(comparison: Comparison) -> Table | None:
    """Captions against reference texts."""
    names = {"bleu_1": "BLEU-1", "bleu_2": "BLEU-2", "bleu_3": "BLEU-3", "bleu_4": "BLEU-4", "chrf": "chrF"}
    names |= {"rouge_l": "ROUGE-L", "bertscore": "BERTScore F1"}
    texts = [quality.text for quality in comparison.quality]
    if not any(texts):
        return None
    rows = []
    for field, name in names.items():
        values = [None if text is None else getattr(text, field) for text in texts]
        if any(value is not None for value in values):
            rows.append(Row(name, tuple(Cell(NONE if value is None else f"{value:.1f}") for value in values)))
    return Table(tuple(comparison.modes), tuple(rows))


def agreement_table(comparison: Comparison) -> Table | None:
    """How near each mode's captions are to the cloud's own."""
    rated = [(quality.mode, quality.agreement) for quality in comparison.quality if quality.agreement is not None]
    if not rated:
        return None
    agreements = [agreement for _, agreement in rated]
    rows = [
        Row("Captions equal to the cloud's", tuple(Cell(percent(each.exact)) for each in agreements)),
        Row("chrF", tuple(Cell(f"{each.chrf:.1f}") for each in agreements)),
        Row("Tokens to edit, a caption", tuple(Cell(f"{each.edit_tokens:.2f}") for each in agreements)),
        Row("The same as a share", tuple(Cell(percent(each.edit_share)) for each in agreements)),
    ]
    named = dict.fromkeys(name for each in agreements for name, share in each.labels.items() if share is not None)
    for attribute in _in_order(comparison, named):
        rows.append(
            Row(f"Same class: {attribute}", tuple(Cell(percent(each.labels.get(attribute))) for each in agreements))
        )
    means = [each.label_mean for each in agreements]
    if any(means):
        rows.append(
            Row("Same class: mean", tuple(Cell(percent(m.value), _note(spread(m))) if m else Cell(NONE) for m in means))
        )
    return Table(tuple(mode for mode, _ in rated), tuple(rows))


def gaps_table(comparison: Comparison) -> Table | None:
    """How much of the gap each mode closes, by everything that it can be measured on."""
    if not comparison.gaps:
        return None
    rows = (
        Row(
            f"{gap.mode}: {MEASURES[gap.measure]}",
            (
                Cell(BASES[gap.basis]),
                Cell(percent(gap.edge)),
                Cell(percent(gap.value)),
                Cell(percent(gap.cloud)),
                Cell(_points(gap.gap.value), _note(spread(gap.gap, _points))),
                Cell(_points(gap.gain.value), _note(spread(gap.gain, _points))),
                Cell(percent(gap.closed.value, 0), _note(spread(gap.closed, _whole))) if gap.closed else Cell(NONE),
                Cell(count(gap.clips)),
            ),
        )
        for gap in comparison.gaps
    )
    columns = ("measured against", "edge", "this mode", "cloud", "gap, points", "gain, points", "gap closed", "clips")
    return Table(columns, tuple(rows))


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"


def _whole(share: float) -> str:
    return percent(share, 0)


def frontier_points(comparison: Comparison) -> tuple[str, list[GapPoint]] | None:
    """What to draw as a frontier: its title, and the modes. None if no gap was measured.

    References count more than the cloud's captions, and all attributes more than one.
    """
    gaps = [gap for gap in comparison.gaps if gap.closed is not None]
    if not gaps:
        return None
    best = min(gaps, key=lambda gap: (gap.basis != "references", _MEASURE_ORDER.index(gap.measure)))
    points = [GapPoint("edge", "edge", 0.0, _exact(0.0))]
    points += [_point(comparison, gap) for gap in gaps if (gap.basis, gap.measure) == (best.basis, best.measure)]
    points.append(GapPoint("cloud", "cloud", 1.0, _exact(1.0)))
    return f"Gap closed: {MEASURES[best.measure]}, by {BASES[best.basis]}", points


def _point(comparison: Comparison, gap: Gap) -> GapPoint:
    rate = comparison.costs_of(gap.mode).escalation_rate
    return GapPoint(gap.mode, gap.mode, 0.0 if rate is None else rate.value, gap.closed)


def _exact(value: float) -> Spread:
    return Spread(value=value, low=value, high=value)


def _in_order(comparison: Comparison, attributes: Mapping[str, object]) -> Sequence[str]:
    known = [name for name in comparison.attributes if name in attributes]
    return known + [name for name in attributes if name not in known]
