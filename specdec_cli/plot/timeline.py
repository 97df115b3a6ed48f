"""A picture of how somebody speaks over the time of a recording: its pieces, and the rounds of their captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from specdec_cli.export.annotation import layers
from specdec_cli.export.recordings import CaptionedPiece, Stored
from specdec_cli.plot.picture import ALERT, COLOURS, GROUND, INK, LINE, MUTED, picture
from specdec_cli.text import one_line
from specdec_cli.transcript.lines import transcript_at
from specdec_cli.transcript.records import Transcript

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OVERVIEW: Final = "overview"
Colours = dict[str | None, str]  # of speakers; None: unknown
_POINTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "block kept": {"linestyle": "", "marker": "o", "color": MUTED, "markersize": 4, "markerfacecolor": "none"},
    "block escalated to the cloud": {"linestyle": "", "marker": "^", "color": INK, "markersize": 5},
    "caption contradicts it": {"linestyle": "", "marker": "x", "color": ALERT, "markersize": 7, "markeredgewidth": 1.8},
}
_MOST_NAMES: Final = 50  # side by side
_KEYS_IN_A_ROW: Final = 4  # of the legend
_LONGEST_NAME, _LONGEST_TITLE = 24, 90  # characters
_ROW_HEIGHT: Final = 0.8
_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "f0_median_hz": ("pitch\nmedian F0, Hz", "pitch"),
    "f0_range_st": ("pitch range\nsemitones", "range"),
    "level_dbfs": ("level\ndBFS", "volume"),
    "rate_per_s": ("rate\nsyllables/s", "rate"),
    "pause_share": ("pauses\nshare of time", "pauses"),
}
"""Measured figure -> its heading, and the attribute of captions that it is about."""


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """A piece of a recording, or a whole one among many."""

    start: float  # s; of the n-th of many clips: n - 0.5
    end: float  # s; of the n-th of many clips: n + 0.5
    speaker: str | None
    class_: str | None  # of the attribute that is shown; None: the caption names none
    run: Transcript

    def measured(self, name: str) -> float | None:
        """A figure by its name in transcripts; None where it was not measured."""
        found: float | None = getattr(self.run.measured, name, None)
        return found

    @property
    def described(self) -> bool:
        """Whether its caption is a description; a contradiction of the sound is shown beside its figure."""
        return not {*self.run.flags} - {"contradicts"}


@dataclass(frozen=True, slots=True)
class Timeline:
    """The contents of one picture."""

    name: str  # of its file, without suffix
    title: str
    clips: Sequence[str] | None  # names of recordings whose whole clips stand side by side; None: pieces over time
    attribute: str  # whose classes are shown
    classes: Sequence[str]  # of the attribute, in the lexicon's order
    spans: Sequence[TimelineSpan]  # in order


def timelines(stored: Stored, attribute: str, classes: Sequence[str]) -> Iterator[Timeline]:
    """One picture per recording that was captioned in pieces, and one of all that were captioned whole.

    Raises TranscriptError if a line of `stored` holds something else. `attribute` and `classes`: see `Timeline`.
    """

    def span(piece: CaptionedPiece, start: float, end: float) -> TimelineSpan:
        run = transcript_at(stored.transcripts, piece.line)
        return TimelineSpan(start, end, piece.speaker, piece.details.get(f"label_{attribute}"), run)

    recordings = list(stored)
    whole = [recording for recording in recordings if len(recording.pieces) == 1]
    for recording in recordings:
        if len(recording.pieces) > 1 or len(whole) == 1:
            spans = [span(piece, piece.start_ms / 1000, piece.end_ms / 1000) for piece in recording.pieces]
            yield Timeline(recording.name, one_line(recording.name), None, attribute, classes, spans)
    if len(whole) > 1:
        spans = [span(one.pieces[0], n - 0.5, n + 0.5) for n, one in enumerate(whole, 1)]
        title = f"{len(spans)} recordings of {one_line(stored.transcripts.name)}"
        yield Timeline(OVERVIEW, title, [one_line(one.name) for one in whole], attribute, classes, spans)


def draw(timeline: Timeline, kind: str) -> tuple[bytes, bool]:
    """Draws classes, measured figures and the entropy of rounds, one above the other, as far as they are known.

    Returns the picture, and whether the fonts of this machine have all of its characters.
    """
    return picture(lambda figure: _draw(figure, timeline), kind, timeline.title)


def _draw(figure: Figure, timeline: Timeline) -> None:
    spans = timeline.spans
    counts = Counter(span.class_ for span in spans)
    rows = [name for name in dict.fromkeys((None, *timeline.classes, *counts)) if name in counts]
    figures = [name for name in _NAMES if any(span.measured(name) is not None for span in spans)]
    heights = [0.28 * max(len(rows), 2) + 0.2, *(1.0 for _ in figures), 1.4]
    speakers = dict.fromkeys(span.speaker for span in spans if span.speaker is not None)
    colours: Colours = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(speakers)}
    if any(span.speaker is None for span in spans):
        colours[None] = LINE if speakers else COLOURS[0]
    keys = _keys(spans, colours)
    height = sum(heights) + 0.14 * len(heights) + 1.0 + 0.22 * -(-len(keys) // _KEYS_IN_A_ROW)
    figure.set_size_inches(11.0, height)
    axes = list(figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0])
    for row, class_ in enumerate(rows):
        _class(axes[0], [span for span in spans if span.class_ == class_], row, colours)
    axes[0].set_yticks(range(len(rows)), [f"{name or 'not named'} ({counts[name]})" for name in rows])
    axes[0].set_title(timeline.attribute, loc="left", fontsize=10, pad=3)
    for panel, name in zip(axes[1:], figures, strict=False):
        _measured(panel, spans, name, colours)
    _entropy(axes[-1], spans)
    _time_axis(axes, timeline)
    figure.suptitle(timeline.title[-_LONGEST_TITLE:], x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.legend(handles=keys, loc="outside lower right", ncols=_KEYS_IN_A_ROW)


def _class(panel: Axes, spans: Sequence[TimelineSpan], row: int, colours: Colours) -> None:
    """A bar per piece in the row of its class, in the colour of its speaker; underlined where it needs review, under
    a dark line where it is no description.

    Pieces that overlap stand above each other in their row.
    """
    lanes = layers(spans, lambda span: span.start, lambda span: span.end)
    height = _ROW_HEIGHT / len(lanes)
    for lane, own in enumerate(lanes):
        bottom = row + _ROW_HEIGHT / 2 - (lane + 1) * height
        for some, colour, start, tall in (
            (own, [colours[span.speaker] for span in own], 0.2, 0.8),
            ([span for span in own if span.run.needs_review], ALERT, 0.0, 0.13),
            ([span for span in own if not span.described], INK, 0.87, 0.13),
        ):
            places, across = [(s.start, s.end - s.start) for s in some], (bottom + start * height, tall * height)
            panel.broken_barh(places, across, facecolors=colour, edgecolors=GROUND, linewidth=0.8)


def _measured(panel: Axes, spans: Sequence[TimelineSpan], name: str, colours: Colours) -> None:
    """A level line per piece, and a cross where the caption says otherwise."""
    heading, attribute = _NAMES[name]
    known = [(span, value) for span in spans if (value := span.measured(name)) is not None]
    starts, ends = [span.start for span, _ in known], [span.end for span, _ in known]
    panel.hlines(
        [value for _, value in known], starts, ends, [colours[span.speaker] for span, _ in known], linewidth=2.4
    )
    wrong = [
        ((span.start + span.end) / 2, value) for span, value in known if (span.run.agrees or {}).get(attribute) is False
    ]
    panel.plot([x for x, _ in wrong], [y for _, y in wrong], **_POINTS["caption contradicts it"])
    panel.set_ylabel(heading, fontsize=9)
    panel.margins(y=0.2)


def _entropy(panel: Axes, spans: Sequence[TimelineSpan]) -> None:
    """The largest entropy of each drafted block; the blocks of a piece stand in order over its time."""
    points: dict[str, list[tuple[float, float]]] = {"block kept": [], "block escalated to the cloud": []}
    for span in spans:
        rounds = [(each.max_entropy, each.escalated) for each in span.run.rounds if each.max_entropy is not None]
        for number, (nats, escalated) in enumerate(rounds):
            at = span.start + (number + 0.5) / len(rounds) * (span.end - span.start)
            points["block escalated to the cloud" if escalated else "block kept"].append((at, nats))
    for name, places in points.items():
        panel.plot([x for x, _ in places], [y for _, y in places], clip_on=False, **_POINTS[name])  # at 0 too
    panel.set_ylabel("entropy, nats\nof each block", fontsize=9)
    panel.set_ylim(bottom=0)


def _time_axis(panels: Sequence[Axes], timeline: Timeline) -> None:
    """Seconds or minutes; of many recordings their names, as many as there is room for."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    first, last = min(span.start for span in timeline.spans), max(span.end for span in timeline.spans)
    panels[0].set_xlim(0.0 if timeline.clips is None else first, last)
    for panel in panels:
        panel.grid(axis="x")
        panel.tick_params(axis="x", labelbottom=panel is panels[-1])
    axis, heading = panels[-1].xaxis, "time, s"
    axis.set_major_locator(MaxNLocator(12, steps=[1, 2, 5, 10]))
    if timeline.clips is not None:
        heading, longest = "recording, in the order of the transcripts", _LONGEST_NAME - 5
        names = [name if len(name) <= longest else f"…{name[1 - longest :]}" for name in timeline.clips]
        every = range(1, len(names) + 1, -(-len(names) // _MOST_NAMES))
        axis.set_ticks(every, [f"{n} {names[n - 1]}" for n in every], rotation=60, ha="right", rotation_mode="anchor")
    elif last >= 120.0:
        heading = "time, min:s"
        steps = (15, 30, 60, 120, 300, 600, 900, 1800, 3600)
        axis.set_major_locator(MultipleLocator(next((step for step in steps if last / step <= 12), 7200)))
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{int(x) // 60}:{int(x) % 60:02}"))
    panels[-1].set_xlabel(heading)


def _keys(spans: Sequence[TimelineSpan], colours: Colours) -> list[Any]:
    """The entries of the legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    named = {name or "speaker unknown": colour for name, colour in colours.items()} if any(colours) else {}
    keys: list[Any] = [Patch(facecolor=colour, label=name[:_LONGEST_NAME]) for name, colour in named.items()]
    if any(span.run.needs_review for span in spans):
        keys.append(Line2D([], [], color=ALERT, linewidth=3, label="needs review"))
    if not all(span.described for span in spans):
        keys.append(Line2D([], [], color=INK, linewidth=3, label="no description"))
    return keys + [Line2D([], [], label=name, **style) for name, style in _POINTS.items()]
