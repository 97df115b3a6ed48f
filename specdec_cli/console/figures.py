"""Figures as text, each with its unit."""

from __future__ import annotations


def milliseconds(value: float | None, none: str = "-") -> str:
    """A short time, at most seven cells: `4.1 ms`, `123 ms`, `12.3 s`; `none` if it was not measured."""
    if value is None:
        return none
    if value < 9.95:
        return f"{value:.1f} ms"
    return f"{value:.0f} ms" if value < 9999.5 else seconds(value / 1000)


def seconds(value: float) -> str:
    """A time in seconds: `0.85 s`, `12.3 s`, `4 min 05 s`."""
    if value < 9.995:
        return f"{value:.2f} s"
    if value < 119.95:
        return f"{value:.1f} s"
    return f"{int(value) // 60} min {int(value) % 60:02d} s"


def percent(part: float, whole: float) -> str:
    """`part` of `whole` as a whole percentage."""
    return f"{100 * part / whole:.0f}%"


def count(number: int, noun: str) -> str:
    """`1 round`, `2 rounds`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def setting(value: object) -> str:
    """The value of a setting as a user would write it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ",".join(map(setting, value)) or "none"
    return str(value)
