"""A timeline as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from specdec_cli.export.annotation import layers
from specdec_cli.plot.picture import ALERT, COLOURS, INK, LINE, MUTED, picture
from specdec_cli.plot.timeline import Timeline, TimelineSpan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KEPT: Final[Mapping[str, Any]] = {
    "linestyle": "", "marker": "o", "color": MUTED, "markersize": 4, "markerfacecolor": "none"
}  # fmt: skip
_ESCALATED: Final[Mapping[str, Any]] = {"linestyle": "", "marker": "^", "color": INK, "markersize": 5}
_MOST_NAMES: Final = 50  # side by side
_PALE: Final = 0.6  # opacity
_TOUCHING: Final = 0.002  # of the time of a picture: a gap that is narrower cannot be seen
_KEYS_IN_A_ROW: Final = 4  # of the legend
_LONGEST_NAME, _LONGEST_TITLE = 24, 90  # characters
_ROW_HEIGHT: Final = 0.8
_MINUTES_FROM: Final = 120.0  # s
_WIDTH: Final = 11.0  # inches
_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "f0_median_hz": ("pitch\nmedian F0, Hz", "pitch"),
    "f0_range_st": ("pitch range\nsemitones", "range"),
    "level_dbfs": ("level\ndBFS", "volume"),
    "level_relative_db": ("level\ndB, relative", "volume"),
    "rate_per_s": ("rate\nsyllables/s", "rate"),
    "pause_share": ("pauses\nshare of time", "pauses"),
}
"""Measured figure -> its heading, and the attribute of captions that it is about."""


def draw(timeline: Timeline, kind: str) -> tuple[bytes, bool]:
    """A picture of what is known: classes, measured figures, and entropy of the rounds, one above the other.

    Returns it, and whether the fonts of this machine have all of its characters.
    """
    return picture(lambda: _figure(timeline), kind, timeline.title)


def _figure(timeline: Timeline) -> Figure:
    from matplotlib.figure import Figure

    rows = _rows(timeline)
    figures = timeline.measured
    entropies = any(span.rounds for span in timeline.spans)
    heights = [0.28 * max(len(rows), 2) + 0.2, *(1.0 for _ in figures), *([1.4] if entropies else [])]
    colours = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(timeline.speakers)}
    keys = _keys(timeline, colours)
    height = sum(heights) + 0.14 * len(heights) + 1.0 + 0.22 * -(-len(keys) // _KEYS_IN_A_ROW)
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = list(figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0])
    _classes(axes[0], timeline, rows, colours)
    for panel, name in zip(axes[1:], figures, strict=False):
        _measured(panel, timeline.spans, name, colours)
    if entropies:
        _entropy(axes[-1], timeline.spans)
    _time_axis(axes, timeline)
    title = _cut(timeline.title, _LONGEST_TITLE)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.legend(handles=keys, loc="outside lower right", ncols=_KEYS_IN_A_ROW)
    return figure


def _rows(timeline: Timeline) -> dict[str | None, tuple[int, str]]:
    """Class -> its row and heading, from the bottom: pieces that name none, then classes in the lexicon's order."""
    counts = Counter(span.class_ for span in timeline.spans)
    order = [name for name in (None, *timeline.classes) if name in counts]
    order += [name for name in counts if name not in order]  # of another lexicon
    return {name: (row, f"{name or 'not named'} ({counts[name]})") for row, name in enumerate(order)}


def _classes(
    panel: Axes, timeline: Timeline, rows: Mapping[str | None, tuple[int, str]], colours: Mapping[str, str]
) -> None:
    """A bar per piece in the row of its class, in the colour of its speaker; underlined where it needs review, under
    a dark line where it is no description.

    Pieces that overlap stand above each other in their row; of two that touch, one is paler.
    """
    for class_, (row, _) in rows.items():
        lanes = layers([span for span in timeline.spans if span.class_ == class_], lambda s: s.start, lambda s: s.end)
        height = _ROW_HEIGHT / len(lanes)
        for lane, spans in enumerate(lanes):
            bottom = row + _ROW_HEIGHT / 2 - (lane + 1) * height
            shades = zip((_shade(span, colours) for span in spans), _opacities(spans), strict=True)
            _bars(panel, spans, bottom + 0.2 * height, 0.8 * height, [*shades])
            _bars(panel, [span for span in spans if span.needs_review], bottom, 0.13 * height, ALERT)
            _bars(panel, [span for span in spans if span.flagged], bottom + 0.87 * height, 0.13 * height, INK)
    panel.set_yticks([row for row, _ in rows.values()], [heading for _, heading in rows.values()])
    panel.set_ylim(-0.6, len(rows) - 0.4)
    panel.tick_params(axis="y", length=0)
    panel.set_title(timeline.attribute, loc="left", fontsize=10, pad=3)


def _opacities(spans: Sequence[TimelineSpan]) -> Iterator[float]:
    """Of pieces by time: a paler one behind each full one that it touches."""
    opacity, end = 1.0, -1.0
    for span in spans:
        opacity = _PALE if opacity == 1.0 and span.start - end < _TOUCHING * spans[-1].end else 1.0
        yield opacity
        end = span.end


def _bars(panel: Axes, spans: Sequence[TimelineSpan], bottom: float, height: float, colours: Any) -> None:
    """Bars over the time of pieces."""
    panel.broken_barh([(s.start, s.end - s.start) for s in spans], (bottom, height), facecolors=colours, linewidth=0)


def _measured(panel: Axes, spans: Sequence[TimelineSpan], name: str, colours: Mapping[str, str]) -> None:
    """A level line per piece, and a cross where the caption says otherwise."""
    heading, attribute = _NAMES[name]
    known = [span for span in spans if name in span.measured]
    values = [span.measured[name] for span in known]
    panel.hlines(
        values,
        [span.start for span in known],
        [span.end for span in known],
        colors=[_shade(span, colours) for span in known],
        linewidth=2.4,
    )
    wrong = [span for span in known if attribute in span.disputed]
    middles = [(span.start + span.end) / 2 for span in wrong]
    panel.plot(middles, [span.measured[name] for span in wrong], "x", color=ALERT, markersize=7, markeredgewidth=1.8)
    panel.set_ylabel(heading, fontsize=9)
    panel.margins(y=0.2)
    if name == "pause_share":
        top = max(0.1, 1.2 * max(values))
        panel.set_ylim(-0.05 * top, top)  # no marks below 0 where nobody pauses


def _entropy(panel: Axes, spans: Sequence[TimelineSpan]) -> None:
    """The largest entropy of each drafted block; the blocks of a piece stand in order over its time."""
    points: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for span in spans:
        for number, (entropy, escalated) in enumerate(span.rounds):
            at = span.start + (number + 0.5) / len(span.rounds) * (span.end - span.start)
            points[escalated].append((at, entropy))
    for escalated, style in ((False, _KEPT), (True, _ESCALATED)):
        panel.plot([x for x, _ in points[escalated]], [y for _, y in points[escalated]], **style)
    panel.set_ylabel("entropy, nats\nof each block", fontsize=9)
    panel.set_ylim(bottom=0)


def _time_axis(panels: Sequence[Axes], timeline: Timeline) -> None:
    """Seconds or minutes; of many recordings their names, as many as there is room for."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    first, last = min(span.start for span in timeline.spans), max(span.end for span in timeline.spans)
    panels[0].set_xlim(0.0 if timeline.clips is None else first, last)
    for panel in panels:
        panel.grid(axis="x", linewidth=0.7)
        panel.tick_params(axis="x", labelbottom=panel is panels[-1])
    axis, heading = panels[-1].xaxis, "time, s"
    axis.set_major_locator(MaxNLocator(12, steps=[1, 2, 5, 10]))
    if timeline.clips is not None:
        heading, names = "recording, in the order of the transcripts", short_names(timeline.clips)
        every = range(1, len(names) + 1, -(-len(names) // _MOST_NAMES))
        axis.set_ticks(every, [names[n - 1] for n in every], rotation=60, ha="right", rotation_mode="anchor")
    elif last >= _MINUTES_FROM:
        heading = "time, min:s"
        axis.set_major_locator(MultipleLocator(_step(last)))
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{int(x) // 60}:{int(x) % 60:02}"))
    panels[-1].set_xlabel(heading)


def short_names(names: Sequence[str]) -> list[str]:
    """Names of at most `_LONGEST_NAME` characters that tell all apart: without folders, or numbered."""
    files = [name.rpartition("/")[2] for name in names]
    names = files if len({*files}) == len(files) else names
    ends = [name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}" for name in names]
    return ends if len({*ends}) == len(ends) else [f"{n} {end}" for n, end in enumerate(ends, 1)]


def _keys(timeline: Timeline, colours: Mapping[str, str]) -> list[Any]:
    """The entries of the legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    keys: list[Any] = [Patch(facecolor=colour, label=_cut(name, _LONGEST_NAME)) for name, colour in colours.items()]
    if colours and any(span.speaker is None for span in timeline.spans):
        keys.append(Patch(facecolor=LINE, label="speaker unknown"))
    if any(span.needs_review for span in timeline.spans):
        keys.append(Line2D([], [], color=ALERT, linewidth=3, label="needs review"))
    if any(span.flagged for span in timeline.spans):
        keys.append(Line2D([], [], color=INK, linewidth=3, label="no description"))
    if any(_NAMES[name][1] in span.disputed for span in timeline.spans for name in span.measured):
        style: dict[str, Any] = {"color": ALERT, "markersize": 7, "markeredgewidth": 1.8, "linestyle": ""}
        keys.append(Line2D([], [], marker="x", label="caption says otherwise", **style))
    outcomes = {escalated for span in timeline.spans for _, escalated in span.rounds}
    drawn = ((False, "kept", _KEPT), (True, "escalated to the cloud", _ESCALATED))
    return keys + [Line2D([], [], label=name, **style) for escalated, name, style in drawn if escalated in outcomes]


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest * 2 // 3]}…{text[-longest // 3 :]}"


def _shade(span: TimelineSpan, colours: Mapping[str, str]) -> str:
    return colours.get(span.speaker or "", COLOURS[0] if not colours else LINE)


def _step(length_s: float) -> float:
    """Seconds between marks of a time axis: a round number of seconds or minutes, at most twelve marks."""
    steps = (15, 30, 60, 120, 300, 600, 900, 1800, 3600)
    return next((step for step in steps if length_s / step <= 12), 7200.0)
