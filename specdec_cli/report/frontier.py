"""The frontier as pictures: how much of the quality gap is closed, against each of the three costs.

The SVG needs nothing else: it carries its own colours for light and dark, and stands alone or inside a page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Final

from specdec_cli.metrics.bootstrap import Interval
from specdec_cli.report.drawing import line as _line
from specdec_cli.report.drawing import text as _text
from specdec_cli.types import COSTS, Cost


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One setting.

    Attributes:
        label: short name for a plot or a table.
        gate: what it belongs to; settings of one gate share a sign, a colour and a line.
        spent: share of each cost, 0 to 1; None where it was not measured.
        gap_closed: share of the distance from edge to cloud that it covers, with its interval: 0 is the edge, 1 the
            cloud; None where the two are not measurably apart, which leaves the point out of a picture.
        confirmed: whether it was run on clips that nothing was fitted on, rather than estimated from a recording.
    """

    label: str
    gate: str
    spent: Mapping[Cost, float | None]
    gap_closed: Interval | None
    confirmed: bool


STYLE: Final = (files("specdec_cli.report") / "assets" / "frontier.css").read_text(encoding="utf-8")
"""The picture's own style; a page whose security policy allows styles by their hash needs it."""

_COLOURS: Final = ("#0b5cad", "#b4500b", "#1a7f37", "#a3218e", "#5b4bc4", "#0b7285")
"""The light colours again, for programs that draw SVG and know no variables."""
_SIGNS: Final = (
    "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0z",
    "M-5 -5h10v10h-10z",
    "M0 -6.5l6.5 11.5h-13z",
    "M0 -7l7 7l-7 7l-7 -7z",
    "M0 6.5l6.5 -11.5h-13z",
    "M-2 -6h4v4h4v4h-4v4h-4v-4h-4v-4h4z",
)
_WIDTH, _HEIGHT = 380, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 362, 44, 284
_BETWEEN: Final = 10  # of the panels of a file
_MARGIN, _LEGEND_ROW, _LABELLED_MOST = 14, 22, 16
_DOTS: Final = 'stroke-width="1.8" stroke-dasharray="1.5 4" stroke-linecap="round"'
_X_ENDS: Final = (0.1, 0.2, 0.3, 0.5, 1.0)

COST_NAMES: Final[Mapping[Cost, str]] = {"blocks": "blocks escalated", "clips": "clips woken", "time": "cloud's time"}
"""Each cost in a table."""
_AXES: Final[Mapping[Cost, str]] = {
    "blocks": "blocks escalated, %",
    "clips": "clips that wake the cloud, %",
    "time": "the cloud's time, % of cloud-only's",
}
_SPENT: Final[Mapping[Cost, str]] = {
    "blocks": "of blocks escalated",
    "clips": "of clips wake the cloud",
    "time": "of cloud-only's time in the cloud",
}

Place = tuple[float, float]
"""A share of a cost, and the share of the gap that is closed."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """A point that has a place; `low` and `high` are its value where it has no interval."""

    label: str
    gate: str
    share: float
    value: float
    low: float
    high: float
    confirmed: bool


@dataclass(frozen=True, slots=True)
class _Scale:
    """From shares to pixels; what lies outside is drawn at the edge."""

    x_end: float
    y_low: float
    y_high: float

    def x(self, share: float) -> float:
        """Of a share of the cost."""
        return _LEFT + (_RIGHT - _LEFT) * min(max(share / self.x_end, 0.0), 1.0)

    def y(self, share: float) -> float:
        """Of a share of the gap."""
        return _BOTTOM - (_BOTTOM - _TOP) * min(max((share - self.y_low) / (self.y_high - self.y_low), 0.0), 1.0)


def frontier_svg(
    points: Sequence[FrontierPoint], *, title: str, cost: Cost = "blocks", oracle: Sequence[Place] = ()
) -> str:
    """An `<svg>` of the settings with their intervals, the diagonal of escalation at random, and the oracle's curve.

    Gates take their colours in the order in which they come. It is usable as a file and inside HTML; all text in it is
    escaped.
    """
    return _panel(points, title, cost, oracle)[0]


def frontier_file(
    points: Sequence[FrontierPoint], *, title: str, oracles: Mapping[Cost, Sequence[Place]] | None = None
) -> str:
    """An `<svg>` with a panel for each cost that was measured, side by side."""
    costs = [cost for cost in COSTS if any(point.spent.get(cost) is not None for point in points)] or ["blocks"]
    made = [_panel(points, f"{title}: {COST_NAMES[cost]}", cost, (oracles or {}).get(cost, ())) for cost in costs]
    width = len(made) * (_WIDTH + _BETWEEN) - _BETWEEN
    height = max(tall for _, tall in made)
    placed = [
        panel.replace("<svg ", f'<svg x="{number * (_WIDTH + _BETWEEN)}" ', 1) for number, (panel, _) in enumerate(made)
    ]
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', *placed, "</svg>"]) + "\n"


def _panel(points: Sequence[FrontierPoint], title: str, cost: Cost, oracle: Sequence[Place]) -> tuple[str, int]:
    """One picture, and its height."""
    marks = list(_marks(points, cost))
    gates = list(dict.fromkeys(mark.gate for mark in marks))
    named = gates if 1 < len(gates) < len(marks) else []  # else every point is named where it stands
    legend, rows = _legend(named, any(not mark.confirmed for mark in marks), bool(oracle))
    height = _HEIGHT + rows * _LEGEND_ROW + 6
    scale = _scale(marks, oracle)
    described = " ".join(_sentence(mark, cost) for mark in marks) or "No setting was measured."
    size = max(9, min(16, int(13 * (_WIDTH - 2 * _MARGIN) / max(1.1 * _text_width(title), 1.0))))  # so that it fits
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="frontier" role="img" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="14">',
        f"<title>{escape(title)}</title><desc>{escape(described)}</desc><style>{STYLE}</style>",
        f'<rect class="f-ground" width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        _text(_MARGIN, 26, title, size=size, weight="600"),
        *_axes(scale, _AXES[cost]),
        *_oracle(scale, oracle),
        *(line for index, gate in enumerate(gates) for line in _gate(scale, marks, gate, index, cost)),
        *_labels(scale, marks),
        *legend,
        "</svg>",
    ]
    return "\n".join(parts) + "\n", height


def _marks(points: Iterable[FrontierPoint], cost: Cost) -> Iterator[_Mark]:
    for point in points:
        gap, share = point.gap_closed, point.spent.get(cost)
        if gap is not None and math.isfinite(gap.value) and share is not None:
            low, high = (gap.value if end is None or not math.isfinite(end) else end for end in (gap.low, gap.high))
            yield _Mark(point.label, point.gate, share, gap.value, low, high, point.confirmed)


def _scale(marks: Sequence[_Mark], oracle: Sequence[Place]) -> _Scale:
    most = max((mark.share for mark in marks), default=1.0)
    ends = [0.0, 1.0, *(end for mark in marks for end in (mark.low, mark.high))]
    x_end = next((end for end in _X_ENDS if end >= most * 1.05), 1.0)
    low = max(-0.5, min(-0.1, math.floor(min(ends) * 4) / 4))
    within = [closed for share, closed in oracle if share <= x_end]
    high = min(1.5, max(1.1, math.ceil(max([*ends, *within]) * 4) / 4))  # 1.1 leaves room for names at the top
    return _Scale(x_end, low, high)


def _axes(scale: _Scale, label: str) -> Iterator[str]:
    for step in range(math.ceil(scale.y_low * 4), math.floor(scale.y_high * 4) + 1):
        y = scale.y(step / 4)
        yield _line(_LEFT, y, _RIGHT, y, "f-axis" if step == 0 else "f-grid")
        yield _text(_LEFT - 8, y + 5, f"{25 * step}", anchor="end", role="f-muted")
    for fifth in range(6):
        share = scale.x_end * fifth / 5
        yield _line(scale.x(share), _TOP, scale.x(share), _BOTTOM, "f-grid")
        yield _text(scale.x(share), _BOTTOM + 19, f"{100 * share:g}", anchor="middle", role="f-muted")
    yield _line(_LEFT, _TOP, _LEFT, _BOTTOM, "f-axis")
    yield _line(scale.x(0), scale.y(0), scale.x(scale.x_end), scale.y(scale.x_end), "f-axis", dash="5 5")
    yield _text((_LEFT + _RIGHT) / 2, _BOTTOM + 42, label, anchor="middle")
    yield _text(18, (_TOP + _BOTTOM) / 2, "gap closed, %", anchor="middle", turn=-90)


def _oracle(scale: _Scale, places: Sequence[Place]) -> Iterator[str]:
    """A dotted line, as far as the picture reaches."""
    shown = [(share, closed) for share, closed in places if share <= scale.x_end and closed <= scale.y_high]
    if len(shown) > 1:
        path = " ".join(f"{scale.x(share):.1f},{scale.y(closed):.1f}" for share, closed in shown)
        yield f'<polyline class="f-axis" points="{path}" stroke="#5d6370" fill="none" {_DOTS}/>'


def _gate(scale: _Scale, marks: Sequence[_Mark], gate: str, index: int, cost: Cost) -> Iterator[str]:
    """The settings of one gate: a thin line through them, their intervals, their signs."""
    mine = sorted((mark for mark in marks if mark.gate == gate), key=lambda mark: mark.share)
    number = index % len(_COLOURS)
    stroke = f'class="f-{number} f-s" stroke="{_COLOURS[number]}" fill="none"'
    if len(mine) > 1:
        path = " ".join(f"{scale.x(mark.share):.1f},{scale.y(mark.value):.1f}" for mark in mine)
        yield f'<polyline points="{path}" {stroke} stroke-width="1.2" opacity="0.6"/>'
    for mark in mine:
        x, low, high = scale.x(mark.share), scale.y(mark.low), scale.y(mark.high)
        if mark.confirmed and abs(low - high) > 1:  # of estimates the tooltip tells it: dozens of bars hide the signs
            bar = f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"
            yield f'<path d="{bar}" {stroke} stroke-width="1.5"/>'
        sign = _sign(x, scale.y(mark.value), index, mark.confirmed)
        yield f"<g><title>{escape(_sentence(mark, cost))}</title>{sign}</g>"


def _sign(x: float, y: float, index: int, confirmed: bool) -> str:
    """A filled sign, or a hollow one for what was only estimated."""
    number = index % len(_COLOURS)
    colour, fill = _COLOURS[number], "f-c" if confirmed else "f-hollow"
    return (
        f'<path class="{fill} f-{number} f-s" transform="translate({x:.1f} {y:.1f})" d="{_SIGNS[number]}" '
        f'fill="{colour if confirmed else "#ffffff"}" stroke="{colour}" stroke-width="1.8"/>'
    )


def _labels(scale: _Scale, marks: Sequence[_Mark]) -> Iterator[str]:
    """Names beside the points; points in one place share a label, and of many only the confirmed have one."""
    chosen = [mark for mark in marks if mark.confirmed] if len(marks) > _LABELLED_MOST else list(marks)
    if len(chosen) > _LABELLED_MOST:
        return
    places = sorted((round(scale.x(m.share)), round(scale.y(m.value)), m.label) for m in chosen)
    taken = [(x - 7, y - 7, x + 7, y + 7) for x, y, _ in places]
    for (x, y), group in groupby(places, key=lambda place: place[:2]):
        label = ", ".join(dict.fromkeys(name for _, _, name in group))
        width = _text_width(label)
        spots = [(left, y + down) for gap, down in ((11, 5), (9, -9), (9, 20)) for left in (x + gap, x - gap - width)]
        for left, base in spots:
            box = (int(left), base - 13, math.ceil(left + width), base + 3)
            inside = left >= _LEFT and box[2] <= _WIDTH - 4 and box[1] >= _TOP - 14 and box[3] <= _BOTTOM
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                yield _text(left, base, label, size=13, role="f-ink f-halo")
                break


def _legend(gates: Sequence[str], estimated: bool, oracle: bool) -> tuple[list[str], int]:
    """Signs and names of the gates and of the diagonal, in rows under the picture, and how many rows."""
    entries = [(gate, _sign(6, -5, index, True)) for index, gate in enumerate(gates)]
    if estimated:
        entries.append(("hollow: estimated, not yet confirmed by runs", _sign(6, -5, 0, False)))
    entries.append(("at random", _line(-4, -5, 14, -5, "f-axis", dash="5 5")))
    if oracle:
        entries.append(("oracle", f'<path class="f-axis" d="M-4 -5H14" stroke="#5d6370" fill="none" {_DOTS}/>'))
    lines: list[str] = []
    x, row = float(_LEFT), 0
    for name, sign in entries:
        width = _text_width(name) + 34
        if x + width > _WIDTH and x > _LEFT:
            x, row = float(_LEFT), row + 1
        y = _HEIGHT + row * _LEGEND_ROW + 4
        lines.append(f'<g transform="translate({x:.1f} {y})">{sign}{_text(18, 0, name, size=13)}</g>')
        x += width
    return lines, row + 1


def _sentence(mark: _Mark, cost: Cost) -> str:
    kind = "" if mark.confirmed else " (estimated)"
    interval = f" ({100 * mark.low:.0f} to {100 * mark.high:.0f})" if mark.high > mark.low else ""
    closed = f"{100 * mark.value:.0f}% of the gap closed{interval}"
    return f"{mark.label}{kind}: {100 * mark.share:.1f}% {_SPENT[cost]}, {closed}."


def _overlap(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _text_width(text: str) -> float:
    """About how wide `text` is at 13 px."""
    return sum(13.0 if ord(char) > 0x2E80 else 7.2 for char in text)
