"""Lines and text of the pictures, in the classes and colours of frontier.css."""

from __future__ import annotations

from html import escape


def line(x1: float, y1: float, x2: float, y2: float, role: str, dash: str | None = None) -> str:
    """A straight line; `role` is its class in frontier.css, `dash` its pattern."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    grey = "#5d6370" if role == "f-axis" else "#dcdfe4"
    return f'<path class="{role}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{grey}" fill="none"{dashed}/>'


def text(
    x: float,
    y: float,
    content: str,
    *,
    anchor: str = "start",
    role: str = "f-ink",
    size: int = 14,
    weight: str = "400",
    turn: float = 0.0,
) -> str:
    """A line of text, escaped; `turn` in degrees around its place."""
    turned = f' transform="rotate({turn:.1f} {x:.1f} {y:.1f})"' if turn else ""
    ink = "#5d6370" if role == "f-muted" else "#1d1f24"
    return (
        f'<text class="{role}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" fill="{ink}"{turned}>{escape(content)}</text>'
    )
