"""What this project promises of its speed, held against what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from specdec_cli.bench.result import Contender, ContenderTime, Goal, Speedup

OVERHEAD: Final = 0.05
OVER_CLOUD: Final = 2.0
OVER_ASSISTED: Final = 3.0
BEHIND_EDGE: Final = 1.3
OURS: Final[tuple[Contender, ...]] = ("edge", "cloud", "lossless", "hybrid")


def goals(contenders: Sequence[ContenderTime], speedups: Sequence[Speedup]) -> list[Goal]:
    """Every goal with its figure; the speed-ups are those of whole clips, audio towers and prefills included."""
    return [
        *[_overhead(contender) for contender in contenders if contender.name in OURS],
        _at_least("lossless over generate (cloud)", speedups, "lossless", "generate-cloud", OVER_CLOUD),
        _at_least("lossless over generate (assisted)", speedups, "lossless", "generate-assisted", OVER_ASSISTED),
        _at_least("hybrid over cloud-only", speedups, "hybrid", "cloud", 1.0),
        _behind("hybrid's time in edge-only's", speedups),
    ]


def _overhead(contender: ContenderTime) -> Goal:
    measured = contender.overhead.total.value if contender.overhead else None
    return Goal(
        name=f"loop overhead, {contender.name}",
        goal=f"<= {100 * OVERHEAD:g}%",
        measured=None if measured is None else 100 * measured,
        unit="%",
        met=None if measured is None else measured <= OVERHEAD,
    )


def _at_least(name: str, speedups: Sequence[Speedup], own: Contender, other: Contender, factor: float) -> Goal:
    measured = _total(speedups, own, other)
    return Goal(
        name=name,
        goal=f">= {factor:g}x" if factor > 1 else "> 1x",
        measured=measured,
        unit="x",
        met=None if measured is None else measured >= factor if factor > 1 else measured > 1,
    )


def _behind(name: str, speedups: Sequence[Speedup]) -> Goal:
    speedup = _total(speedups, "hybrid", "edge")
    measured = None if speedup is None else 1 / speedup
    return Goal(
        name=name,
        goal=f"<= {BEHIND_EDGE:g}x",
        measured=measured,
        unit="x",
        met=None if measured is None else measured <= BEHIND_EDGE,
    )


def _total(speedups: Sequence[Speedup], own: Contender, other: Contender) -> float | None:
    return next((found.total.value for found in speedups if (found.name, found.against) == (own, other)), None)
