"""Figures as text, each with its unit, and captions with their flags: the same wherever they are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from specdec_cli.times import NONE
from specdec_cli.transcript.records import Whole
from specdec_cli.types import Claim, Interval, Measured


def marked(caption: str, flags: str) -> str:
    """A caption, followed by what makes it no description: "Hm. [refusal]"."""
    return f"{caption} [{flags}]".lstrip() if flags else caption


def short(value: float | None) -> str:
    """Three figures or more: `0.98`, `2.61`, `12.3`, `208`, `1,234`."""
    if value is None:
        return NONE
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{digits}f}"


def whole(value: float | None) -> str:
    """A count; of repeats the median counts, so that a half may come up."""
    return NONE if value is None else f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def share(value: float | None) -> str:
    """A share as a percentage: `84.2%`."""
    return NONE if value is None else f"{100 * value:.1f}%"


def percent(value: float | None) -> str:
    """A share as a whole percentage: `84%`."""
    return NONE if value is None else f"{100 * value:.0f}%"


def times(value: float) -> str:
    """A ratio: `2.1 times`."""
    return f"{value:.1f} times"


def points(value: float) -> str:
    """A difference of two shares in percentage points: `+4.2`."""
    return f"{100 * value:+.1f}"


def whole_points(value: float) -> str:
    """The same in whole points: `+4`."""
    return f"{100 * value:+.0f}"


def interval(found: Interval | None, written: Callable[[float], str] = short) -> str:
    """Both ends, the unit once: `2.40–2.87`; empty where there is none, or where it is the figure itself."""
    if found is None or found.low is None or found.high is None or found.low == found.high:
        return ""
    low, high = written(found.low), written(found.high)
    unit = high.lstrip("+-0123456789.,")
    return f"{low.removesuffix(unit)}{' to ' if low[0] in '+-' else '–'}{high}"


def with_ends(found: Interval, written: Callable[[float], str], unit: str = "") -> str:
    """A figure with both ends in words: `84% (62% to 103%)`, `+0.8 points (-0.5 to +2.1)`; alone where it has none."""
    value = written(found.value) + unit
    if found.low is None or found.high is None:
        return value
    return f"{value} ({written(found.low)} to {written(found.high)})"


def shares(whole: Whole) -> str:
    """A recording as a whole, by time: `emotion: neutral 62%, happy 38%; speaker: ann 60%, bob 40%`."""
    named = {**whole.classes, "speaker": whole.speakers}
    found = {
        kind: ", ".join(f"{name} {percent(part)}" for name, part in parts.items()) for kind, parts in named.items()
    }
    return "; ".join(f"{kind}: {listed}" for kind, listed in found.items() if listed)


def count(number: int, noun: str) -> str:
    """`1 round`, `2 rounds`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def volume(size: float | None) -> str:
    """Bytes: `812 B`, `1.4 kB`, `2.0 MB`, `17.9 GB`."""
    if size is None:
        return NONE
    if size >= 1e6:
        return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
    return f"{size:.0f} B" if size < 1000 else f"{size / 1e3:.1f} kB"


WRITTEN: Final[dict[str, str]] = {
    "f0_median_hz": "F0 {:.1f} Hz",
    "f0_range_st": "range {:.2f} st",
    "level_dbfs": "level {:.1f} dBFS",
    "level_relative_db": "{:+.1f} dB to the recording",
    "rate_per_s": "{:.2f} syllables/s",
    "pause_share": "pauses {:.1%}",
}
"""Field of `Measured` -> how it is written: with all the digits that it has, lest it seem to lie within a limit."""


_NAMED: Final = {"f0_range_st": "range", "rate_per_s": "rate", "pause_share": "pauses"}


def measured(figures: Measured) -> list[str]:
    """What was measured, each with its unit: `F0 158.3 Hz`, `range 6.21 st`; `unvoiced` in place of an F0.

    At the end stands what could not be measured: `not measurable: range, pauses`.
    """
    found = {name: getattr(figures, name) for name in WRITTEN}
    voiced = [] if figures.f0_median_hz is not None else ["unvoiced"]
    written = voiced + [form.format(found[name]) for name, form in WRITTEN.items() if found[name] is not None]
    lacking = [word for name, word in _NAMED.items() if found[name] is None and not (voiced and word == "range")]
    if figures.level_dbfs is not None and lacking:
        written.append(f"not measurable: {', '.join(lacking)}")
    return written


def claimed(claim: Claim) -> str:
    """A class beside the figure that it is about: `low pitch · 119.2 Hz`."""
    form = WRITTEN[claim.figure]
    return f"{claim.class_} {claim.attribute} · {form[form.index('{') :].format(claim.value)}"


def setting(value: object) -> str:
    """The value of a setting as a user would write it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ",".join(map(setting, value)) or "none"
    return NONE if value is None else f"{value:g}" if isinstance(value, float) else str(value)
