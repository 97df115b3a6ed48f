"""The figures of a comparison as tables of text, which the terminal and the page set each in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from specdec_cli import format as written
from specdec_cli.evaluate.bootstrap import Interval
from specdec_cli.evaluate.result import Comparison, Figure, LabelQuality
from specdec_cli.types import COSTS

Written = Callable[[Any], str]


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


_COSTS: Final[dict[str, tuple[str, Written]]] = {
    "total_s": ("time of all clips", written.seconds),
    "ttft_ms": ("first token", written.milliseconds),
    "tokens_per_s": ("tokens/s", written.short),
    "forwards_edge": ("edge forwards", written.whole),
    "forwards_cloud": ("cloud forwards", written.whole),
    "escalation_rate": ("blocks escalated", written.share),
    "clips_woken": ("clips escalated", written.share),
    "cloud_time": ("cloud's time", written.share),
    "edge_token_share": ("drafted by edge", written.share),
    "acceptance_rate": ("drafts accepted", written.share),
    "uplink_bytes": ("uplink", written.volume),
    "network_s": ("on the link", written.seconds),
    "degraded": ("clips degraded", written.whole),
}
"""Field of `ModeFigures` -> its label, and how it is written."""
_SUMMARY: Final = ("total_s", "ttft_ms", "escalation_rate", "clips_woken", "cloud_time", "network_s", "degraded")
_LEADING: Final = {("references", "labels"), ("references", "emotion"), ("references", "chrf"), ("cloud", "captions")}
"""What the terminal shows of costs, and above them of quality; the page has all of it."""
_TEXTS: Final = {"bleu": "BLEU", "chrf": "chrF", "rouge_l": "ROUGE-L", "bertscore": "BERTScore F1"}


def measured(found: Interval | Figure | LabelQuality | float | None, show: Written = written.share) -> Cell:
    """A figure with its interval, or with its ratios to edge-only and cloud-only."""
    if isinstance(found, LabelQuality):
        more = f"F1 {100 * found.macro_f1:.0f}, commonest {written.percent(found.majority)}"
        return Cell(show(found.accuracy.value), (*measured(found.accuracy).notes, (more, "")))
    if isinstance(found, Figure):
        ratios = (("edge", found.to_edge), ("cloud", found.to_cloud))
        notes = ((f"×{written.short(each.value)} {name}", written.interval(each)) for name, each in ratios if each)
        return Cell(measured(found.value, show).value, tuple(notes))
    if isinstance(found, Interval):
        ends = written.interval(found, written.percent if show is written.share else show)
        return Cell(show(found.value), (("", ends),) if ends else ())
    return Cell(written.NONE if found is None else show(found))


def summary(comparison: Comparison) -> FigureTable | None:
    """One table of modes for the terminal: quality, gap closed by the measure that leads, time, and the three costs."""
    rows: list[FigureRow] = []
    for measure, row in _quality(comparison):
        if measure not in _LEADING:
            continue
        rows.append(row)
        closed = {gap.mode: gap.closed for gap in comparison.stated_gaps() if (gap.basis, gap.measure) == measure}
        if any(closed.values()):
            cells = [measured(gap, written.percent) if gap else Cell("") for gap in map(closed.get, comparison.modes)]
            rows.append(FigureRow("  gap closed", cells))
    return _table("", comparison.modes, [*rows, *_costs(comparison, _SUMMARY)])


def costs(comparison: Comparison) -> FigureTable | None:
    """What each mode costs, with its ratios to edge-only and to cloud-only."""
    return _table("Cost by mode", comparison.modes, _costs(comparison, _COSTS))


def quality(comparison: Comparison) -> FigureTable | None:
    """Captions against the references, and how near they are to the cloud's own."""
    found = written.count(comparison.references_found, "clip") if comparison.references_found else ""
    title = f"Against the references of {found}" if found else "Against the cloud's captions"
    return _table(title, comparison.modes, (row for _, row in _quality(comparison)))


def gaps(comparison: Comparison) -> FigureTable | None:
    """How much of the gap between edge and cloud each mode closes, and how far that is above random escalation."""
    rows = []
    for gap in comparison.gaps:
        above = {each.cost: each.above_random for each in gap.at_costs}
        ends = map(measured, (gap.edge, gap.value, gap.cloud))
        beyond = (measured(above.get(cost), written.whole_points) for cost in COSTS)
        cells = [*ends, measured(gap.gain, written.points), measured(gap.closed, written.percent), *beyond]
        rows.append(FigureRow(f"{gap.mode}: {gap.subject}", cells))
    columns = ("edge", "this mode", "cloud", "gain, points", "gap closed", *(f"above random, of {c}" for c in COSTS))
    return _table("Share of the gap between edge and cloud that is closed", columns, rows)


def _table(title: str, columns: Sequence[str], rows: Iterable[FigureRow]) -> FigureTable | None:
    return FigureTable(title, columns, kept) if (kept := list(rows)) else None


def _costs(comparison: Comparison, fields: Iterable[str]) -> Iterator[FigureRow]:
    """A row for each of these figures that some mode has above 0."""
    for field in fields:
        label, show = _COSTS[field]
        found = [getattr(of, field) for of in comparison.costs]
        if any(figure.value if isinstance(figure, Figure) else figure for figure in found):
            yield FigureRow(label, [measured(figure, show) for figure in found])


def _quality(comparison: Comparison) -> Iterator[tuple[tuple[str, str], FigureRow]]:
    """The rows of quality that some mode has a figure for, each by what it is measured against and what is compared."""
    found = comparison.quality
    named = found[0].labels if found else ()  # attributes, which the references decide
    rows: list[tuple[str, str, str, list[Any], Written]] = [
        ("references", "labels", "classes right", [each.label_mean for each in found], written.share),
        *(("references", name, f"  {name}", [each.labels[name] for each in found], written.share) for name in named),
        *(
            ("references", field, name, [each.text and getattr(each.text, field) for each in found], "{:.1f}".format)
            for field, name in _TEXTS.items()
        ),
        ("cloud", "captions", "as the cloud's", [each.same_captions for each in found], written.share),
        ("cloud", "labels", "  classes", [each.same_labels for each in found], written.share),
    ]
    for basis, measure, label, figures, show in rows:
        if any(figure is not None for figure in figures):
            yield (basis, measure), FigureRow(label, [measured(figure, show) for figure in figures])
