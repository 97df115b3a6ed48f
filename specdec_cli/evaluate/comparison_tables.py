"""The figures of a comparison as tables of text, which the terminal and the page set each in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from specdec_cli import format as written
from specdec_cli.evaluate.modes import richest
from specdec_cli.evaluate.result import Comparison, Figure, LabelQuality
from specdec_cli.stats import Interval
from specdec_cli.types import COSTS, Mode

if TYPE_CHECKING:
    from specdec_cli.tune.outcomes import Tuning

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
_COMPARED: Final = ("total_s", "ttft_ms", "forwards_cloud")
"""Of these the ratios to the baselines are shown as well; the others' say the same."""
_SUMMARY: Final = ("total_s", "ttft_ms", "escalation_rate", "clips_woken", "cloud_time", "network_s", "degraded")
_LEADING: Final = frozenset(
    {*(("references", name) for name in ("labels", "emotion", "uar", "wheels", "chrf")), ("cloud", "captions")}
)
"""What the terminal shows of costs, and above them of quality; the page has all of it."""
_FIRST_ALONE: Final = ("uar", "wheels")
"""Of these the first row alone; attributes and parts are on the page."""
_TEXTS: Final = {"bleu": "BLEU", "chrf": "chrF", "rouge_l": "ROUGE-L", "bertscore": "BERTScore F1"}
_WHEELS: Final = {"f1": "emotion words F1", "precision": "  precision", "recall": "  recall"}
_NOT_NAMED: Final = "none"


def measured(found: Interval | Figure | LabelQuality | float | None, show: Written = written.share) -> Cell:
    """A figure with its interval."""
    if isinstance(found, LabelQuality):
        more = f"F1 {100 * found.macro_f1:.0f}, commonest {written.percent(found.majority)}"
        return Cell(show(found.accuracy.value), (*measured(found.accuracy).notes, (more, "")))
    if isinstance(found, Figure):
        return measured(found.value, show)
    if isinstance(found, Interval):
        ends = written.interval(found, written.percent if show is written.share else show)
        return Cell(show(found.value), (("", ends),) if ends else ())
    return Cell(written.NONE if found is None else show(found))


def summary(comparison: Comparison) -> FigureTable | None:
    """One table of modes for the terminal: quality, gap closed by the measure that leads, time, and the three costs."""
    rows: list[FigureRow] = []
    for measure, row in _quality(comparison):
        if measure not in _LEADING or (measure[1] in _FIRST_ALONE and row.label.startswith(" ")):
            continue
        rows.append(row)
        gaps = [gap for gap in comparison.stated_gaps() if (gap.basis, gap.measure) == measure]
        closed = {gap.mode: gap.closed for gap in gaps}
        if any(closed.values()):
            cells = [measured(gap, written.percent) if gap else Cell("") for gap in map(closed.get, comparison.modes)]
            rows.append(FigureRow(f"  gap closed ({gaps[0].of.removeprefix('the ')})", cells))
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
        if same_as_cloud(comparison, gap.mode):
            continue  # its gap is closed by its rule, and says nothing of the clips
        above = {each.cost: each.above_random for each in gap.at_costs}
        ends = map(measured, (gap.edge, gap.value, gap.cloud))
        beyond = (measured(above.get(cost), written.whole_points) for cost in COSTS)
        cells = [*ends, measured(gap.gain, written.points), measured(gap.closed, written.percent), *beyond]
        rows.append(FigureRow(f"{gap.mode}: {gap.of.removeprefix('the ')}", cells))
    columns = (
        "edge-only",
        "this mode",
        "cloud-only",
        "gain, points",
        "gap closed",
        *(f"beyond random {c}, points" for c in COSTS),
    )
    return _table("Share of the gap between edge and cloud that is closed", columns, rows)


def _table(title: str, columns: Sequence[str], rows: Iterable[FigureRow]) -> FigureTable | None:
    return FigureTable(title, columns, kept) if (kept := list(rows)) else None


def confusions(comparison: Comparison) -> dict[str, list[FigureTable]]:
    """Attribute -> the confusion matrix of each mode: true classes by row, classes that captions name by column."""
    found: dict[str, list[FigureTable]] = {}
    for of in comparison.quality:
        for attribute, labels in of.labels.items():
            cells = {(each.true, each.named): each.clips for each in labels.confusions}
            true = [*dict.fromkeys(each.true for each in sorted(labels.confusions, key=lambda each: each.true))]
            others = sorted({each.named for each in labels.confusions if each.named is not None} - {*true})
            named: list[str | None] = [*true, *others]
            named += [None] if any(each.named is None for each in labels.confusions) else []
            rows = [
                FigureRow(
                    class_, [Cell(f"{cells[class_, other]:,}" if (class_, other) in cells else "") for other in named]
                )
                for class_ in true
            ]
            title = f"{of.mode}: named, by the true {attribute}"
            found.setdefault(attribute, []).append(FigureTable(title, [each or _NOT_NAMED for each in named], rows))
    return found


def worst_confusions(comparison: Comparison, most: int = 3) -> str | None:
    """The commonest confusions of the mode that uses most settings, in a sentence; None: there is none."""
    of = next((each for each in comparison.quality if each.mode == richest(comparison.modes)), None)
    wrong = [
        (each.clips, attribute, each, sum(other.clips for other in labels.confusions if other.true == each.true))
        for attribute, labels in (of.labels.items() if of else ())
        for each in labels.confusions
        if each.named != each.true
    ]
    wrong.sort(key=lambda each: -each[0])
    if not wrong or of is None:
        return None
    words = [
        f"{attribute} {each.true} as {each.named or _NOT_NAMED} ({clips:,} of {written.count(known, 'clip')})"
        for clips, attribute, each, known in wrong[:most]
    ]
    return f"Most often {of.mode} names {', '.join(words)}."


def same_as_cloud(comparison: Comparison, mode: Mode) -> bool:
    """Whether every caption of a mode is the cloud's own."""
    return all(clip.captions.get("cloud") == clip.captions[mode] for clip in comparison.clips)


def about_references(found: Comparison | Tuning) -> str | None:
    """From which columns references came, in words; None without references."""
    read = [f"{name} from {column}" for name, column in (found.reference_columns or {}).items()]
    return f"references: {', '.join(read)}" if read else None


def _costs(comparison: Comparison, fields: Iterable[str], *, ratios: int) -> Iterator[FigureRow]:
    """A row for each of these figures that some mode has above 0, and behind a compared one `ratios` to baselines."""
    for field in fields:
        label, show = _COSTS[field]
        found = [getattr(of, field) for of in comparison.costs]
        if any(figure.value if isinstance(figure, Figure) else figure for figure in found):
            yield FigureRow(label, [measured(figure, show) for figure in found])
        compared = [figure for figure in found if isinstance(figure, Figure) and field in _COMPARED]
        to_cloud, to_edge = [each.to_cloud for each in compared], [each.to_edge for each in compared]
        shown = [("  of cloud-only's", to_cloud, written.percent), ("  of edge-only's", to_edge, written.times)]
        for name, own, form in [each for each in shown if any(each[1])][:ratios]:
            yield FigureRow(name, [measured(ratio, form) if ratio else Cell("") for ratio in own])


def _quality(comparison: Comparison) -> Iterator[tuple[tuple[str, str], FigureRow]]:
    """The rows of quality that some mode has a figure for, each by what it is measured against and what is compared."""
    found = comparison.quality
    wheels = [each.wheels for each in found]
    named = found[0].labels if found else ()  # attributes, which the references decide
    rows: list[tuple[str, str, str, list[Any], Written]] = [
        ("references", "labels", "classes right", [each.label_mean for each in found], written.share),
        *(("references", name, f"  {name}", [each.labels[name] for each in found], written.share) for name in named),
        ("references", "uar", "UAR", [each.uar_mean for each in found], written.share),
        *(
            ("references", "uar", f"  {name}", [each.labels[name].uar for each in found], written.share)
            for name in named
        ),
        *(
            ("references", "wheels", name, [each and getattr(each, field) for each in wheels], written.share)
            for field, name in _WHEELS.items()
        ),
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
