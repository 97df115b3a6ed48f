"""The reliability diagram: how often classes of a given probability are right (DeGroot and Fienberg 1983)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec_cli.calibrate.fitting import CalibrationFound, TemperatureFit
from specdec_cli.plot.picture import COLOURS, GROUND, MUTED, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def reliability(found: CalibrationFound, attribute: str, kind: str = "svg") -> bytes:
    """A panel per mode: hollow dots before calibration, filled ones after, sized by their captions."""
    fits = [fit for fit in found.fits if fit.attribute == attribute]
    others = "speakers" if found.by_speaker else "clips"
    title = f"{attribute}: probability of a class, and how often it is right (filled: calibrated on other {others})"
    return picture(lambda figure: _draw(figure, fits, title), kind, title)[0]


def _draw(figure: Figure, fits: list[TemperatureFit], title: str) -> None:
    figure.set_size_inches(max(3.0 * len(fits), 7.5), 3.8)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    for panel, fit in zip(figure.subplots(1, max(len(fits), 1), sharey=True, squeeze=False)[0], fits, strict=False):
        _panel(panel, fit)
        panel.set_ylabel("right, %" if fit is fits[0] else "")


def _panel(panel: Axes, fit: TemperatureFit) -> None:
    panel.set(xlim=(-3, 103), ylim=(-3, 103), aspect="equal")
    panel.grid()
    panel.plot([0, 100], [0, 100], color=MUTED, linewidth=1.2, linestyle=(0, (4, 4)))
    for measured, colour, face in ((fit.raw, COLOURS[1], GROUND), (fit.calibrated, COLOURS[0], COLOURS[0])):
        places = [100 * each.probability for each in measured.bins], [100 * each.accuracy for each in measured.bins]
        sizes = [20 + 260 * each.captions / measured.captions for each in measured.bins]
        panel.plot(*places, color=colour, linewidth=1, alpha=0.6)
        panel.scatter(*places, s=sizes, facecolors=face, edgecolors=colour, zorder=2)
    panel.set_title(f"mode {fit.mode}, {fit.raw.captions} captions", fontsize=10)
    panel.set_xlabel(f"probability, %\nECE {100 * fit.raw.ece:.1f} → calibrated {100 * fit.calibrated.ece:.1f}")
