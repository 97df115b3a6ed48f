"""The figures of a comparison as tables of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from specdec_cli import format as written
from specdec_cli import times
from specdec_cli.evaluate.modes import richest
from specdec_cli.evaluate.result import Comparison, Figure
from specdec_cli.figure_tables import Cell, FigureRow, FigureTable, measured
from specdec_cli.labels import Lexicon
from specdec_cli.types import COSTS

Written = Callable[[Any], str]

_COSTS: Final[dict[str, tuple[str, Written]]] = {
    "total_s": ("time of all clips", times.seconds),
    "ttft_ms": ("first token after", times.milliseconds),
    "tokens_per_s": ("tokens/s", written.short),
    "forwards_edge": ("edge forwards", written.whole),
    "forwards_cloud": ("cloud forwards", written.whole),
    "escalation_rate": ("blocks escalated", written.share),
    "clips_woken": ("clips escalated", written.share),
    "cloud_time": ("time in the cloud", written.share),
    "edge_token_share": ("edge's tokens", written.share),
    "acceptance_rate": ("drafts accepted", written.share),
    "uplink_bytes": ("sent to the cloud", written.volume),
    "network_s": ("time on the network", times.seconds),
    "degraded": ("clips degraded", written.whole),
}
"""Field of `ModeFigures` -> its label, and how it is written."""
_COMPARED: Final = ("total_s", "ttft_ms", "forwards_cloud")
"""The ratios of these to the baselines are shown as well; those of the others are nearly the same."""
_SUMMARY: Final = ("total_s", "ttft_ms", "escalation_rate", "clips_woken", "cloud_time", "network_s", "degraded")
"""The costs that the terminal shows; the page has all."""
_TEXTS: Final = {"bleu": "BLEU", "chrf": "chrF", "rouge_l": "ROUGE-L"}
_LEADING: Final[dict[str, tuple[str, str] | None]] = {
    "heard, right": ("references", "heard"),
    "  emotion": ("references", "emotion"),
    "measured, agrees": ("references", "measured"),
    "emotion words F1": None,
    "chrF": ("references", "chrf"),
    "same as cloud's": ("cloud", "captions"),
}
"""Rows of quality that the terminal shows, and the gap below them."""
_NOT_NAMED: Final = "none"
_MEANINGS: Final = {
    "time of all clips": "Time of decoding, from the ready prompt to the last token. Reading files is not counted.",
    "of cloud-only's": "The figure above as a share of cloud-only's, on the same clips.",
    "of edge-only's": "The figure above as a multiple of edge-only's, on the same clips.",
    "first token after": "Median over clips of the time until the first token is final.",
    "tokens/s": "Tokens of all captions, divided by the time of all clips.",
    "edge forwards": "How often the edge's language model ran.",
    "cloud forwards": "How often the cloud's language model ran.",
    "blocks escalated": "Share of the drafted blocks that the cloud verified.",
    "clips escalated": "Share of the clips that called the cloud at all.",
    "time in the cloud": "Time of the cloud's forwards, as a share of what cloud-only takes for them.",
    "edge's tokens": "Share of the captions' tokens that the edge drafted.",
    "drafts accepted": "Share of the drafted tokens in escalated blocks that the cloud accepted.",
    "sent to the cloud": "Bytes that left this machine for a remote model.",
    "time on the network": "Time that requests to remote models took beyond the work of the models.",
    "clips degraded": "Clips that the edge finished alone, because the cloud had failed.",
    "heard, right": (
        "Share of the clips whose caption names the right class of what only a listener can name, such as voice and "
        "emotion: the mean over these attributes, and each."
    ),
    "measured, agrees": (
        "Share of the clips whose caption agrees with what an instrument measures: the mean over these attributes, and "
        "each. The references of such classes are measured, too."
    ),
    "UAR": (
        "Unweighted average recall of the heard attributes: the share of right clips is taken within each class, and "
        "averaged over classes. A rare class counts as much as a common one."
    ),
    "BLEU": "Sequences of up to four words (Chinese: characters) that captions share with the references, 0 to 100.",
    "chrF": "Sequences of up to six characters that captions share with the references, 0 to 100.",
    "ROUGE-L": "Longest sequence of words (Chinese: characters) in common with the reference, 0 to 100.",
    "same as cloud's": "Share of the captions that equal cloud-only's word for word.",
    "classes": "Share of the classes that cloud-only names and that this mode names too.",
    "edge-only": "The figure of the edge alone; beside it those of the mode and of the cloud alone.",
    "gain, points": "Percentage points by which the mode is better than edge-only.",
    "points over edge": "Percentage points by which the mode is better than edge-only, clip by clip.",
    "points over cloud": "Percentage points by which the mode is better than cloud-only, clip by clip.",
    "gap closed": (
        "The gain, divided by what cloud-only is better by than edge-only. Given only where cloud-only is measurably "
        "better."
    ),
    **{
        f"above random ({cost}), points": (
            f"Points of the gap closed beyond what escalation at random closes that spends the same share of {what}."
        )
        for cost, what in (("blocks", "the blocks"), ("clips", "the clips"), ("time", "the cloud's time"))
    },
}
"""Label of a row, or heading of a column -> what the figure means, in a sentence or two."""


def summary(comparison: Comparison) -> FigureTable | None:
    """One table of modes for the terminal: quality, gap closed by the measure that leads, time, and the three costs."""
    rows: list[FigureRow] = []
    for row in (row for row in _quality(comparison) if row.label in _LEADING):
        rows.append(row)
        gaps = {gap.mode: gap for gap in comparison.stated_gaps() if (gap.basis, gap.measure) == _LEADING[row.label]}
        if any(gap.closed for gap in gaps.values()):
            closed = [gaps[mode].closed if mode in gaps else None for mode in comparison.modes]
            cells = [measured(each, written.percent) if each else Cell("") for each in closed]
            rows.append(FigureRow("  gap closed", cells))
        for label, field in (("  points over edge", "gain"), ("  points over cloud", "lead")):
            found = [getattr(gaps[mode], field) if mode in gaps else None for mode in comparison.modes]
            if any(found):
                rows.append(FigureRow(label, [measured(each, written.points) if each else Cell("") for each in found]))
    return _table("", comparison.modes, [*rows, *_costs(comparison, _SUMMARY, ratios=1)])


def costs(comparison: Comparison) -> FigureTable | None:
    """What each mode costs, also in shares of cloud-only and multiples of edge-only."""
    return _table("Cost by mode", comparison.modes, _costs(comparison, _COSTS, ratios=2))


def quality(comparison: Comparison) -> FigureTable | None:
    """Captions against the references, and how near they are to the cloud's own."""
    found = written.count(comparison.references_found, "clip") if comparison.references_found else ""
    title = f"Against the references of {found}" if found else "Against the cloud's captions"
    return _table(title, comparison.modes, _quality(comparison))


def by_group(comparison: Comparison) -> list[FigureTable]:
    """Quality by speaker, corpus or another column: a table for each measure, with a row for each group."""
    found = list[FigureTable]()
    named = {(each.group, each.mode): each for each in comparison.groups}
    groups = {each.group: each.clips for each in comparison.groups}
    for label, field in (("heard, right", "heard_mean"), ("emotion", "emotion"), ("measured, agrees", "measured_mean")):
        if any(getattr(each, field) for each in comparison.groups):
            rows = [
                FigureRow(
                    f"{'(none)' if group is None else group} ({clips:,})",
                    [measured(getattr(named[group, mode], field), written.share) for mode in comparison.modes],
                )
                for group, clips in groups.items()
            ]
            found.append(FigureTable(f"{label}, by {comparison.by} (clips)", comparison.modes, rows))
    return found


def gaps(comparison: Comparison) -> FigureTable | None:
    """How much of the gap between edge and cloud each mode closes, and how much more than escalation at random."""
    shown = [gap for gap in comparison.gaps if not comparison.same_as_cloud(gap.mode)]  # which closes it by its rule
    columns: dict[str, list[Cell]] = {
        "edge-only": [measured(gap.edge) for gap in shown],
        "this mode": [measured(gap.value) for gap in shown],
        "cloud-only": [measured(gap.cloud) for gap in shown],
        "gain, points": [measured(gap.gain, written.points) for gap in shown],
    }
    if any(gap.closed for gap in shown):
        columns["gap closed"] = [measured(gap.closed, written.percent) for gap in shown]
        for cost in COSTS:
            above = [next((at.above_random for at in gap.at_costs if at.cost == cost), None) for gap in shown]
            if any(above):
                columns[f"above random ({cost}), points"] = [measured(each, written.whole_points) for each in above]
    labels = (f"{gap.mode}: {gap.of}" for gap in shown)
    rows = map(FigureRow, labels, zip(*columns.values(), strict=True))
    return _table("Share of the gap between edge-only and cloud-only that is closed", [*columns], rows)


def meanings(*tables: FigureTable | None) -> dict[str, str]:
    """Label of a row, or heading of a column, of some tables -> what the figure means."""
    shown = filter(None, tables)
    names = [name for table in shown for name in (*(row.label.strip() for row in table.rows), *table.columns)]
    return {name: _MEANINGS[name] for name in names if name in _MEANINGS}


def confusions(comparison: Comparison, lexicon: Lexicon) -> dict[str, list[FigureTable]]:
    """Attribute -> the confusion matrix of each mode: true classes by row, classes that captions name by column.

    Classes are in the lexicon's order. A mode that gives cloud-only's captions has no matrix of its own.
    """
    found: dict[str, list[FigureTable]] = {}
    for of in comparison.quality:
        if of.mode != "cloud" and comparison.same_as_cloud(of.mode):
            continue
        for attribute, labels in of.labels.items():
            clips = {(each.true, each.named or _NOT_NAMED): f"{each.clips:,}" for each in labels.confusions}
            true, named = ({pair[place] for pair in clips} for place in (0, 1))
            order = [*lexicon.attributes[attribute], _NOT_NAMED]
            columns = [name for name in order if name in true | named]
            rows = [
                FigureRow(class_, [Cell(clips.get((class_, name), "")) for name in columns])
                for class_ in order
                if class_ in true
            ]
            title = f"{of.mode}: clips by the true {attribute} (rows) and the one named (columns)"
            found.setdefault(attribute, []).append(FigureTable(title, columns, rows))
    return found


def worst_confusions(comparison: Comparison) -> str | None:
    """The three commonest confusions of the mode that uses most settings, in a sentence; None: there is none."""
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
        f"{each.true} {name} {'named ' + each.named if each.named else 'not named'} "
        f"({each.clips:,} of {written.count(known[name, each.true], 'clip')})"
        for name, each in wrong[:3]
    ]
    return f"{mode.capitalize()}'s commonest errors: {', '.join(words)}."


def about_references(columns: Mapping[str, str] | None) -> str | None:
    """From which columns the references were read, in words; None without references."""
    read = [name if name == column else f"{name} from {column}" for name, column in (columns or {}).items()]
    return f"references: {', '.join(read)}" if read else None


def _table(title: str, columns: Sequence[str], rows: Iterable[FigureRow]) -> FigureTable | None:
    return FigureTable(title, columns, kept) if (kept := list(rows)) else None


def _costs(comparison: Comparison, fields: Iterable[str], *, ratios: int) -> Iterator[FigureRow]:
    """A row for each of these figures that is above 0 in some mode; below a compared one up to `ratios` ratios."""
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


def _quality(comparison: Comparison) -> Iterator[FigureRow]:
    """The rows of quality that some mode has a figure for."""
    of = comparison.quality
    named = of[0].labels if of else ()  # attributes, which the references decide
    by_ear = [name for name in named if name not in comparison.measured_attributes]
    figures = [name for name in named if name in comparison.measured_attributes]
    rows: list[tuple[str, list[Any], Written]] = [
        ("heard, right", [each.heard_mean for each in of], written.share),
        *((f"  {name}", [each.labels[name].accuracy for each in of], written.share) for name in by_ear),
        ("measured, agrees", [each.measured_mean for each in of], written.share),
        *((f"  {name}", [each.labels[name].accuracy for each in of], written.share) for name in figures),
        ("UAR", [each.heard_uar for each in of], written.share),
        *((f"  UAR of {name}", [each.labels[name].uar for each in of], written.share) for name in named),
        *(
            (label, [each.text and getattr(each.text, field) for each in of], "{:.1f}".format)
            for field, label in _TEXTS.items()
        ),
        ("same as cloud's", [each.same_captions for each in of], written.share),
        ("  classes", [each.same_labels for each in of], written.share),
    ]
    for label, values, show in rows:
        if any(value is not None for value in values):
            yield FigureRow(label, [measured(value, show) for value in values])
