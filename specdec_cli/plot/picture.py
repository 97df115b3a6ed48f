"""What all pictures share: matplotlib, the fonts, the colours in light and in dark, and how they are written."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS: Final = ("svg", "png", "pdf")
INK, MUTED, LINE, GROUND = "#1d1f24", "#5d6370", "#dcdfe4", "#ffffff"
COLOURS: Final = ("#0b5cad", "#b4500b", "#1a7f37", "#a3218e", "#5b4bc4", "#0b7285", "#7f5f00", "#5f5f5f")
ALERT: Final = "#c1121f"
_DARK: Final = dict(zip((INK, MUTED, LINE, GROUND), ("#e7e9ee", "#a0a7b4", "#3a414c", "#1d2026"), strict=True)) | dict(
    zip(COLOURS, ("#7db4ff", "#ffb066", "#5fd47f", "#ff8be6", "#b3a6ff", "#4fd3e6", "#d9b34a", "#b8b8b8"), strict=True)
)
"""Colour -> what an SVG has in its place where the reader's system or page is dark."""
_STYLE: Final = "".join(
    f'[style*="{name}: {light}"] {{ {name}: {dark} !important; }}\n'
    for light, dark in (_DARK | {ALERT: "#ff8a7a"}).items()
    for name in ("fill", "stroke")
)
_CHINESE_FONTS: Final = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "Microsoft YaHei", "SimHei", "PingFang SC", "Hiragino Sans GB", "Arial Unicode MS", "Droid Sans Fallback",
    "Noto Sans CJK JP",
)  # fmt: skip
"""For characters that DejaVu Sans, which comes with matplotlib, lacks; an SVG names them for whoever opens it."""
_DPI: Final = 150


def picture(make: Callable[[], Figure], kind: str, description: str) -> tuple[bytes, bool]:
    """What `make` draws, as an image file; the same figure gives the same bytes on one machine.

    Text in an SVG stays text, and its colours follow the reader's choice of light or dark.

    Args:
        make: draws, under this project's settings of matplotlib.
        kind: one of `KINDS`.
        description: of what is drawn, in words.

    Returns:
        The file, and whether the fonts of this machine have all of its characters.
    """
    import matplotlib

    settings: Any = {
        "font.family": ["DejaVu Sans", *_CHINESE_FONTS, "sans-serif"],
        "font.size": 10,
        "text.parse_math": False,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "axes.edgecolor": MUTED,
        "axes.facecolor": GROUND,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": LINE,
        "figure.facecolor": GROUND,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": "specdec",
    }
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # fonts that this machine does not have
    with matplotlib.rc_context(settings), warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        figure = make()
        file = io.BytesIO()
        about = {"Software": "specdec", "Description": description}
        if kind != "png":
            date = {"Date": None, "Description": description} if kind == "svg" else {"CreationDate": None}
            about = {"Creator": "specdec", **date}  # type: ignore[dict-item]
        figure.savefig(file, format=kind, dpi=_DPI, metadata=about)
    whole = not any("missing from" in str(note.message) for note in noted)
    return _themed(file.getvalue()) if kind == "svg" else file.getvalue(), whole


def _themed(svg: bytes) -> bytes:
    """The SVG with colours for dark surroundings, from its root element on."""
    start = svg.index(b"<svg")
    end = svg.index(b">", start) + 1
    style = f"<style>@media (prefers-color-scheme: dark) {{\n{_STYLE}}}</style>".encode()
    return svg[start:end] + style + svg[end:]
