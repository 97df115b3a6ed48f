"""The figures of a comparison as tables of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from specdec_cli import format as written
from specdec_cli import times
from specdec_cli.evaluate.modes import richest
from specdec_cli.evaluate.result import Comparison, Figure, LabelQuality
from specdec_cli.figure_tables import Cell, FigureRow, FigureTable, measured
from specdec_cli.types import COSTS

if TYPE_CHECKING:
    from specdec_cli.tune.outcomes import Tuning

Written = Callable[[Any], str]
_Measure = tuple[str, str]
"""What quality is measured against, and what is compared."""

_COSTS: Final[dict[str, tuple[str, Written]]] = {
    "total_s": ("time of all clips", times.seconds),
    "ttft_ms": ("first token", times.milliseconds),
    "tokens_per_s": ("tokens/s", written.short),
    "forwards_edge": ("edge forwards", written.whole),
    "forwards_cloud": ("cloud forwards", written.whole),
    "escalation_rate": ("blocks escalated", written.share),
    "clips_woken": ("clips escalated", written.share),
    "cloud_time": ("cloud's time", written.share),
    "edge_token_share": ("drafted by edge", written.share),
    "acceptance_rate": ("drafts accepted", written.share),
    "uplink_bytes": ("uplink", written.volume),
    "network_s": ("on the link", times.seconds),
    "degraded": ("clips degraded", written.whole),
}
"""Field of `ModeFigures` -> its label, and how it is written."""
_COMPARED: Final = ("total_s", "ttft_ms", "forwards_cloud")
"""Of these the ratios to the baselines are shown as well; the others' say the same."""
_SUMMARY: Final = ("total_s", "ttft_ms", "escalation_rate", "clips_woken", "cloud_time", "network_s", "degraded")
"""What the terminal shows of costs; the page has all of it."""
_EMOTION: Final[dict[str, _Measure]] = {"emotion": ("references", "emotion")}
_WHEELS: Final[dict[str, tuple[_Measure | None, str]]] = {
    "f1": (("references", "wheels"), "emotion words F1"),
    "precision": (None, "  precision"),
    "recall": (None, "  recall"),
}
_TEXTS: Final[dict[str, tuple[_Measure | None, str]]] = {
    "bleu": (None, "BLEU"),
    "chrf": (("references", "chrf"), "chrF"),
    "rouge_l": (None, "ROUGE-L"),
    "bertscore": (None, "BERTScore F1"),
}
"""Field of a mode's quality -> its measure, if the terminal shows it, and its label."""
_NOT_NAMED: Final = "none"


def summary(comparison: Comparison) -> FigureTable | None:
    """One table of modes for the terminal: quality, gap closed by the measure that leads, time, and the three costs."""
    rows: list[FigureRow] = []
    for measure, row in _quality(comparison):
        if measure is None:
            continue
        rows.append(row)
        gaps = {gap.mode: gap for gap in comparison.stated_gaps() if (gap.basis, gap.measure) == measure}
        if any(gap.closed for gap in gaps.values()):
            of = next(iter(gaps.values())).of
            closed = [gaps[mode].closed if mode in gaps else None for mode in comparison.modes]
            cells = [measured(each, written.percent) if each else Cell("") for each in closed]
            rows.append(FigureRow(f"  gap closed ({of})", cells))
    return _table("", comparison.modes, [*rows, *_costs(comparison, _SUMMARY, ratios=1)])


def costs(comparison: Comparison) -> FigureTable | None:
    """What each mode costs, also in shares of cloud-only and multiples of edge-only."""
    return _table("Cost by mode", comparison.modes, _costs(comparison, _COSTS, ratios=2))


def quality(comparison: Comparison) -> FigureTable | None:
    """Captions against the references, and how near they are to the cloud's own."""
    found = written.count(comparison.references_found, "clip") if comparison.references_found else ""
    title = f"Against the references of {found}" if found else "Against the cloud's captions"
    return _table(title, comparison.modes, (row for _, row in _quality(comparison)))


def gaps(comparison: Comparison) -> FigureTable | None:
    """How much of the gap between edge and cloud each mode closes, and how far that is above random escalation."""
    rows = []
    for gap in comparison.gaps:
        if comparison.same_as_cloud(gap.mode):
            continue  # its gap is closed by its rule, and says nothing of the clips
        above = {each.cost: each.above_random for each in gap.at_costs}
        cells = [
            *map(measured, (gap.edge, gap.value, gap.cloud)),
            measured(gap.gain, written.points),
            measured(gap.closed, written.percent),
            *(measured(above.get(cost), written.whole_points) for cost in COSTS),
        ]
        rows.append(FigureRow(f"{gap.mode}: {gap.of}", cells))
    beyond = [f"beyond random {cost}, points" for cost in COSTS]
    columns = ("edge-only", "this mode", "cloud-only", "gain, points", "gap closed", *beyond)
    return _table("Share of the gap between edge and cloud that is closed", columns, rows)


def confusions(comparison: Comparison) -> dict[str, list[FigureTable]]:
    """Attribute -> the confusion matrix of each mode: true classes by row, classes that captions name by column."""
    found: dict[str, list[FigureTable]] = {}
    for of in comparison.quality:
        for attribute, labels in of.labels.items():
            clips = {(each.true, each.named or _NOT_NAMED): f"{each.clips:,}" for each in labels.confusions}
            true = sorted({each.true for each in labels.confusions})
            others = {name for _, name in clips} - {*true, _NOT_NAMED}
            none = [_NOT_NAMED] if any(each.named is None for each in labels.confusions) else []
            named = [*true, *sorted(others), *none]
            rows = [FigureRow(class_, [Cell(clips.get((class_, name), "")) for name in named]) for class_ in true]
            title = f"{of.mode}: clips by the true {attribute} (rows) and the one named (columns)"
            found.setdefault(attribute, []).append(FigureTable(title, named, rows))
    return found


def worst_confusions(comparison: Comparison, most: int = 3) -> str | None:
    """The commonest confusions of the mode that uses most settings, in a sentence; None: there is none."""
    mode = richest(comparison.modes)
    labels = next((of.labels for of in comparison.quality if of.mode == mode), {})
    wrong = [(name, each) for name, of in labels.items() for each in of.confusions if each.named != each.true]
    wrong.sort(key=lambda found: -found[1].clips)
    if not wrong:
        return None
    known = Counter[tuple[str, str]]()  # clips by attribute and true class
    for name, each in ((name, each) for name, of in labels.items() for each in of.confusions):
        known[name, each.true] += each.clips
    words = [
        f"{name} {each.true} as {each.named or _NOT_NAMED} "
        f"({each.clips:,} of {written.count(known[name, each.true], 'clip')})"
        for name, each in wrong[:most]
    ]
    return f"Most often {mode} names {', '.join(words)}."


def about_references(found: Comparison | Tuning) -> str | None:
    """From which columns references came, in words; None without references."""
    read = [f"{name} from {column}" for name, column in (found.reference_columns or {}).items()]
    return f"references: {', '.join(read)}" if read else None


def _table(title: str, columns: Sequence[str], rows: Iterable[FigureRow]) -> FigureTable | None:
    return FigureTable(title, columns, kept) if (kept := list(rows)) else None


def _costs(comparison: Comparison, fields: Iterable[str], *, ratios: int) -> Iterator[FigureRow]:
    """A row for each of these figures that some mode has above 0, and behind a compared one `ratios` to baselines."""
    for field in fields:
        label, show = _COSTS[field]
        found = [getattr(of, field) for of in comparison.costs]
        values = [each.value if isinstance(each, Figure) else each for each in found]
        if any(values):
            yield FigureRow(label, [measured(value, show) for value in values])
        compared = [each for each in found if isinstance(each, Figure) and field in _COMPARED]
        to_cloud, to_edge = [each.to_cloud for each in compared], [each.to_edge for each in compared]
        shown = [("  of cloud-only's", to_cloud, written.percent), ("  of edge-only's", to_edge, written.times)]
        for name, own, form in [each for each in shown if any(each[1])][:ratios]:
            yield FigureRow(name, [measured(ratio, form) if ratio else Cell("") for ratio in own])


def _quality(comparison: Comparison) -> Iterator[tuple[_Measure | None, FigureRow]]:
    """The rows of quality that some mode has a figure for, each with its measure if the terminal shows it."""
    found = comparison.quality
    named = found[0].labels if found else ()  # attributes, which the references decide
    rows: list[tuple[_Measure | None, str, list[Any], Written]] = [
        (("references", "labels"), "classes right", [each.label_mean for each in found], written.share),
        *((_EMOTION.get(name), f"  {name}", [each.labels[name] for each in found], written.share) for name in named),
        (("references", "uar"), "UAR", [each.uar_mean for each in found], written.share),
        *((None, f"  {name}", [each.labels[name].uar for each in found], written.share) for name in named),
        *(
            (measure, name, [each.wheels and getattr(each.wheels, field) for each in found], written.share)
            for field, (measure, name) in _WHEELS.items()
        ),
        *(
            (measure, name, [each.text and getattr(each.text, field) for each in found], "{:.1f}".format)
            for field, (measure, name) in _TEXTS.items()
        ),
        (("cloud", "captions"), "as the cloud's", [each.same_captions for each in found], written.share),
        (None, "  classes", [each.same_labels for each in found], written.share),
    ]
    for measure, label, figures, show in rows:
        if any(figure is not None for figure in figures):
            cells = [_accuracy(each) if isinstance(each, LabelQuality) else measured(each, show) for each in figures]
            yield measure, FigureRow(label, cells)


def _accuracy(found: LabelQuality) -> Cell:
    cell = measured(found.accuracy)
    return cell._replace(notes=(*cell.notes, f"always the commonest: {written.percent(found.majority)}"))
