"""The common parts of pictures: matplotlib, fonts, colours, and image files."""

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
_CHINESE_FONTS: Final = (
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei"),
    *("Microsoft YaHei", "SimHei", "PingFang SC", "Hiragino Sans GB", "Arial Unicode MS", "Droid Sans Fallback"),
)
"""For characters that DejaVu Sans, which comes with matplotlib, lacks; an SVG names them for whoever opens it."""
_SETTINGS: Final[Any] = {
    "font.family": ["DejaVu Sans", *_CHINESE_FONTS, "sans-serif"],
    "font.size": 10,
    "text.parse_math": False,
    "axes.edgecolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "specdec",
}


def picture(draw: Callable[[Figure], None], kind: str, description: str) -> bytes:
    """An image file of one of `KINDS` with what `draw` draws, in this project's style, the same bytes each time."""
    import matplotlib
    from matplotlib.figure import Figure

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # fonts that this machine does not have
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about characters that no font here has
        file = io.BytesIO()
        about: dict[str, Any] = {
            "svg": {"Creator": "specdec", "Date": None, "Description": description},
            "png": {"Software": "specdec", "Description": description},
            "pdf": {"Creator": "specdec", "CreationDate": None},
        }
        figure = Figure(layout="constrained")
        draw(figure)
        figure.savefig(file, format=kind, dpi=150, metadata=about[kind])
    start = file.getvalue().index(b"<svg") if kind == "svg" else 0  # without what XML puts before it
    return file.getvalue()[start:]


def mixed(colour: str, share: float) -> str:
    """A colour, `#rrggbb`, of which this share is left, on white."""
    parts = (round(255 - share * (255 - int(colour[at : at + 2], 16))) for at in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in parts)


def is_light(colour: str) -> bool:
    """Whether dark letters are easier to read on a colour, `#rrggbb`, than white ones."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue > 140
