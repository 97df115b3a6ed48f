"""The frontier as a picture: how much of the quality gap is closed, against the share of blocks that are escalated.

The SVG needs nothing else: it carries its own colours for light and dark, and stands alone or inside a page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Final, Protocol


class Interval(Protocol):
    """A figure and its interval, as a share (1.0 is all of it); without ends where there was too little to tell."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


class FrontierPoint(Protocol):
    """One setting.

    Attributes:
        label: its name in the picture.
        gate: what it belongs to; settings of one gate share a sign, a colour and a line.
        escalation_rate: share of blocks that are escalated, 0 to 1.
        gap_closed: share of the edge-cloud gap; None where it was not measured, which leaves the point out.
        confirmed: measured by real runs rather than estimated from recorded ones.
    """

    @property
    def label(self) -> str: ...
    @property
    def gate(self) -> str: ...
    @property
    def escalation_rate(self) -> float: ...
    @property
    def gap_closed(self) -> Interval | None: ...
    @property
    def confirmed(self) -> bool: ...


STYLE: Final = (files("specdec_cli.report") / "assets" / "frontier.css").read_text(encoding="utf-8")
"""The picture's own style; a page whose security policy allows styles by their hash needs it."""

_COLOURS: Final = ("#0b5cad", "#b4500b", "#1a7f37", "#a3218e", "#5b4bc4", "#0b7285")
"""The light colours again, for programs that draw SVG and know no variables."""
_WIDTH, _HEIGHT = 560, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 18, 44, 58
_MARGIN = 14
_LEGEND_ROW = 22
_LABELLED_MOST = 16
_X_ENDS: Final = (0.1, 0.2, 0.3, 0.5, 1.0)
_Y_FAR: Final = (-0.5, 1.5)
_SIGNS: Final = ("circle", "square", "triangle", "diamond", "down", "plus")


@dataclass(frozen=True, slots=True)
class _Scale:
    """From shares to pixels; what lies outside is drawn at the edge."""

    x_end: float
    y_low: float
    y_high: float
    bottom: float

    def x(self, share: float) -> float:
        """Of an escalation rate."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(share / self.x_end, 0.0), 1.0)

    def y(self, share: float) -> float:
        """Of a share of the gap."""
        inside = min(max((share - self.y_low) / (self.y_high - self.y_low), 0.0), 1.0)
        return self.bottom - (self.bottom - _TOP) * inside


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


def frontier_svg(points: Sequence[FrontierPoint], *, title: str) -> str:
    """Draws the settings with their intervals, and the diagonal that escalation at random would reach.

    Args:
        points: in any order; gates take their colours in the order in which they come.
        title: above the picture.

    Returns:
        An `<svg>` element, usable as a file and inside HTML. All text in it is escaped.
    """
    measured = [(point, point.gap_closed) for point in points if point.gap_closed is not None]
    marks = [_mark(point, gap) for point, gap in measured if math.isfinite(gap.value)]
    gates = list(dict.fromkeys(mark.gate for mark in marks))
    named = gates if len(gates) < len(marks) else []  # else every point is named where it stands
    legend, legend_rows = _legend(named, any(not mark.confirmed for mark in marks))
    height = _HEIGHT + legend_rows * _LEGEND_ROW + 6
    scale = _scale(marks)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="frontier" role="img" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="14">',
        f"<title>{escape(title)}</title><desc>{escape(_described(marks))}</desc><style>{STYLE}</style>",
        f'<rect class="f-ground" width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        _text(_MARGIN, 26, title, size=_title_size(title), weight="600"),
        *_axes(scale),
        *(line for index, gate in enumerate(gates) for line in _gate(scale, marks, gate, index)),
        *_labels(scale, marks),
        *legend,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _mark(point: FrontierPoint, gap: Interval) -> _Mark:
    low = gap.value if gap.low is None or not math.isfinite(gap.low) else gap.low
    high = gap.value if gap.high is None or not math.isfinite(gap.high) else gap.high
    return _Mark(point.label, point.gate, point.escalation_rate, gap.value, low, high, point.confirmed)


def _scale(marks: Iterable[_Mark]) -> _Scale:
    shares = [mark.share for mark in marks] or [1.0]
    ends = [end for mark in marks for end in (mark.low, mark.high)]
    x_end = next((end for end in _X_ENDS if end >= max(shares) * 1.05), 1.0)
    low = max(_Y_FAR[0], min(-0.1, math.floor(min(ends, default=0.0) * 4) / 4))
    high = min(_Y_FAR[1], max(1.1, math.ceil(max([1.0, *ends]) * 4) / 4))  # 1.1 leaves room for names at the top
    return _Scale(x_end, low, high, _HEIGHT - _BOTTOM)


def _axes(scale: _Scale) -> Iterable[str]:
    right = _WIDTH - _RIGHT
    for step in range(math.ceil(scale.y_low * 4), math.floor(scale.y_high * 4) + 1):
        y = scale.y(step / 4)
        yield _line(_LEFT, y, right, y, "f-axis" if step == 0 else "f-grid")
        yield _text(_LEFT - 8, y + 5, f"{25 * step}", anchor="end", role="f-muted")
    for fifth in range(6):
        share = scale.x_end * fifth / 5
        x = scale.x(share)
        yield _line(x, _TOP, x, scale.bottom, "f-grid")
        yield _text(x, scale.bottom + 19, f"{100 * share:g}", anchor="middle", role="f-muted")
    yield _line(_LEFT, _TOP, _LEFT, scale.bottom, "f-axis")
    yield _line(scale.x(0), scale.y(0), scale.x(scale.x_end), scale.y(scale.x_end), "f-axis", dash="5 5")
    middle = (_TOP + scale.bottom) / 2
    yield _text((_LEFT + right) / 2, scale.bottom + 42, "blocks escalated, %", anchor="middle")
    yield _text(18, middle, "gap between edge and cloud closed, %", anchor="middle", turn=-90)


def _gate(scale: _Scale, marks: Sequence[_Mark], gate: str, index: int) -> Iterable[str]:
    """The settings of one gate: a thin line through them, their intervals, their signs."""
    mine = sorted((mark for mark in marks if mark.gate == gate), key=lambda mark: mark.share)
    number = index % len(_COLOURS)
    stroke = f'class="f-s{number}" stroke="{_COLOURS[number]}"'
    if len(mine) > 1:
        path = " ".join(f"{scale.x(mark.share):.1f},{scale.y(mark.value):.1f}" for mark in mine)
        yield f'<polyline points="{path}" {stroke} fill="none" stroke-width="1.2" opacity="0.6"/>'
    for mark in mine:
        x, y = scale.x(mark.share), scale.y(mark.value)
        low, high = scale.y(mark.low), scale.y(mark.high)
        if mark.confirmed and abs(low - high) > 1:  # of estimates the tooltip tells it: dozens of bars hide the signs
            bar = f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"
            yield f'<path d="{bar}" {stroke} fill="none" stroke-width="1.5"/>'
        yield f"<g><title>{escape(_sentence(mark))}</title>{_sign(x, y, index, mark.confirmed)}</g>"


def _sign(x: float, y: float, index: int, confirmed: bool) -> str:
    """A filled sign, or a hollow one for what was only estimated."""
    number = index % len(_COLOURS)
    fill = f"f-c{number}" if confirmed else "f-hollow"
    ink = f'class="{fill} f-s{number}" fill="{_COLOURS[number] if confirmed else "#ffffff"}" '
    ink += f'stroke="{_COLOURS[number]}" stroke-width="1.8"'
    shapes = {
        "square": f"M{x - 5:.1f} {y - 5:.1f}h10v10h-10z",
        "triangle": f"M{x:.1f} {y - 6.5:.1f}l6.5 11.5h-13z",
        "diamond": f"M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z",
        "down": f"M{x:.1f} {y + 6.5:.1f}l6.5 -11.5h-13z",
        "plus": f"M{x - 2:.1f} {y - 6:.1f}h4v4h4v4h-4v4h-4v-4h-4v-4h4z",
    }
    shape = _SIGNS[index % len(_SIGNS)]
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" {ink}/>'
        if shape == "circle"
        else f'<path d="{shapes[shape]}" {ink}/>'
    )


def _labels(scale: _Scale, marks: Sequence[_Mark]) -> Iterable[str]:
    """Names beside the points; points in one place share a label, and where there are many only the confirmed speak."""
    chosen = [mark for mark in marks if mark.confirmed] if len(marks) > _LABELLED_MOST else list(marks)
    if len(chosen) > _LABELLED_MOST:
        return
    places = sorted(
        ((round(scale.x(m.share)), round(scale.y(m.value)), m.label) for m in chosen), key=lambda place: place[:2]
    )
    taken = [*_lines_drawn(scale), *((x - 7, y - 7, x + 7, y + 7) for x, y, _ in places)]
    taken += [(scale.x(m.share) - 4, scale.y(m.high), scale.x(m.share) + 4, scale.y(m.low)) for m in marks]
    for (x, y), group in groupby(places, key=lambda place: place[:2]):
        label = ", ".join(dict.fromkeys(name for _, _, name in group))
        width = _text_width(label)
        spots = [(x + 11, y + 5), (x - 11 - width, y + 5), (x + 9, y - 9), (x - 9 - width, y - 9), (x + 9, y + 20)]
        spots.append((x - 9 - width, y + 20))
        for left, base in spots:
            box = (left, base - 13, left + width, base + 3)
            inside = left >= _LEFT and box[2] <= _WIDTH - 4 and box[1] >= _TOP - 14 and box[3] <= scale.bottom
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                yield _text(left, base, label, size=13)
                break


def _lines_drawn(scale: _Scale) -> Iterable[tuple[float, ...]]:
    """Boxes along the zero line and the diagonal, which names keep clear of."""
    yield _LEFT, scale.y(0) - 1, _WIDTH - _RIGHT, scale.y(0) + 1
    for step in range(101):
        x, y = scale.x(scale.x_end * step / 100), scale.y(scale.x_end * step / 100)
        yield x - 2, y - 2, x + 2, y + 2


def _legend(gates: Sequence[str], estimated: bool) -> tuple[list[str], int]:
    """Signs and names of the gates and of the diagonal, in rows under the picture, and how many rows."""
    entries = [(gate, _sign(6, -5, index, True)) for index, gate in enumerate(gates)] if len(gates) > 1 else []
    if estimated:
        entries.append(("hollow: estimated, not yet confirmed by runs", _sign(6, -5, 0, False)))
    entries.append(("escalation at random", _line(-4, -5, 14, -5, "f-axis", dash="5 5")))
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


def _described(marks: Sequence[_Mark]) -> str:
    return " ".join(map(_sentence, marks)) or "No setting was measured."


def _sentence(mark: _Mark) -> str:
    kind = "" if mark.confirmed else " (estimated)"
    interval = f" ({100 * mark.low:.0f} to {100 * mark.high:.0f})" if mark.high > mark.low else ""
    closed = f"{100 * mark.value:.0f}% of the gap closed{interval}"
    return f"{mark.label}{kind}: {100 * mark.share:.1f}% of blocks escalated, {closed}."


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _text_width(text: str) -> float:
    """About how wide `text` is at 13 px."""
    return sum(13.0 if ord(char) > 0x2E80 else 7.2 for char in text)


def _title_size(title: str) -> int:
    """Largest size in px, 16 at most, at which `title` fits the width; bold letters are a tenth wider."""
    return max(9, min(16, int(13 * (_WIDTH - 2 * _MARGIN) / max(1.1 * _text_width(title), 1.0))))


def _line(x1: float, y1: float, x2: float, y2: float, role: str, dash: str | None = None) -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    grey = "#5d6370" if role == "f-axis" else "#dcdfe4"
    return f'<path class="{role}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{grey}" fill="none"{dashed}/>'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    role: str = "f-ink",
    size: int = 14,
    weight: str = "400",
    turn: float = 0.0,
) -> str:
    turned = f' transform="rotate({turn:.1f} {x:.1f} {y:.1f})"' if turn else ""
    ink = "#5d6370" if role == "f-muted" else "#1d1f24"
    return (
        f'<text class="{role}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" fill="{ink}"{turned}>{escape(text)}</text>'
    )
