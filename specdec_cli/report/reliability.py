"""The reliability diagram: how often classes of a given probability are right (DeGroot and Fienberg 1983)."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from specdec_cli.calibrate.fit import BINS, CalibrationFound, Fit, Reliability
from specdec_cli.report.drawing import line, text
from specdec_cli.report.frontier import STYLE

_SIDE, _GAP, _LEFT, _TOP, _BELOW = 200, 46, 58, 66, 66
_LEAST: Final = 660
_COLOURS: Final = {False: (1, "#b4500b"), True: (0, "#0b5cad")}
"""Calibrated or not -> number of the colour in frontier.css, and the light one for programs without variables."""


def reliability_svg(found: CalibrationFound, attribute: str) -> str:
    """An `<svg>` with a panel per mode: hollow dots before calibration, filled ones after, sized by their captions."""
    fits = [fit for fit in found.fits if fit.attribute == attribute and fit.mode is not None]
    width = max(_LEFT + len(fits) * (_SIDE + _GAP), _LEAST)  # room for the title
    height = _TOP + _SIDE + _BELOW
    kind = "speakers" if found.by_speaker else "clips"
    title = f"{attribute}: how likely a class is and how often right (filled: calibrated on other {kind})"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="frontier" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{escape(title)}</title><desc>{escape(' '.join(map(_sentence, fits)))}</desc><style>{STYLE}</style>",
        f'<rect class="f-ground" width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        text(14, 24, title, size=13, weight="600"),
        text(18, _TOP + _SIDE / 2, "right, %", anchor="middle", turn=-90, size=13),
    ]
    for index, fit in enumerate(fits):
        parts += _panel(_LEFT + index * (_SIDE + _GAP), fit)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(left: float, fit: Fit) -> Iterator[str]:
    bottom = _TOP + _SIDE
    yield text(left, _TOP - 10, f"mode {fit.mode}, {fit.raw.captions} captions", size=13)
    for step in range(0, BINS + 1, 2):
        along = _SIDE * step / BINS
        yield line(left, bottom - along, left + _SIDE, bottom - along, "f-grid")
        yield text(left - 6, bottom - along + 4, f"{10 * step}", anchor="end", role="f-muted", size=11)
        yield text(left + along, bottom + 16, f"{10 * step}", anchor="middle", role="f-muted", size=11)
    yield line(left, bottom, left + _SIDE, _TOP, "f-axis", dash="4 4")
    yield text(left + _SIDE / 2, bottom + 32, "probability, %", anchor="middle", size=12)
    for calibrated, measured in ((False, fit.raw), (True, fit.calibrated)):
        if measured is not None:
            yield from _dots(left, measured, calibrated)
    after = "" if fit.calibrated is None else f" \u2192 calibrated {100 * fit.calibrated.ece:.1f}"
    yield text(left + _SIDE / 2, bottom + 52, f"ECE {100 * fit.raw.ece:.1f}{after}", anchor="middle", size=12)


def _dots(left: float, measured: Reliability, calibrated: bool) -> Iterator[str]:
    number, colour = _COLOURS[calibrated]
    shape, inside = ("f-c", colour) if calibrated else ("f-hollow", "#ffffff")
    places = []
    for each in measured.bins:
        x, y = left + _SIDE * each.probability, _TOP + _SIDE * (1 - each.accuracy)
        places.append(f"{x:.1f},{y:.1f}")
        radius = 2.5 + 7 * (each.captions / measured.captions) ** 0.5
        note = f"{100 * each.probability:.0f}% probable, {100 * each.accuracy:.0f}% right, {each.captions} captions"
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" class="{shape} f-{number} f-s" fill="{inside}" '
            f'stroke="{colour}"><title>{note}</title></circle>'
        )
    yield (
        f'<polyline points="{" ".join(places)}" class="f-{number} f-s" stroke="{colour}" fill="none" opacity="0.6"/>'
    )


def _sentence(fit: Fit) -> str:
    after = "" if fit.calibrated is None else f", {100 * fit.calibrated.ece:.1f}% calibrated"
    return f"Mode {fit.mode}: expected calibration error {100 * fit.raw.ece:.1f}%{after}."
