"""What this project promises of its speed, held against what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from specdec_cli.bench.result import Contender, ContenderTime, Goal, Speedup

OVERHEAD: Final = 0.05
OVER_CLOUD: Final = 2.0
OVER_ASSISTED: Final = 3.0
BEHIND_EDGE: Final = 1.3
BEHIND_CLOUD: Final = 1.05
OURS: Final[tuple[Contender, ...]] = ("edge", "cloud", "lossless", "hybrid")


def goals(contenders: Sequence[ContenderTime], speedups: Sequence[Speedup]) -> list[Goal]:
    """Every goal with its figure: that of whole clips, audio towers and prefills included, decides."""
    return [
        *[_overhead(contender) for contender in contenders if contender.name in OURS],
        _at_least("lossless over generate (cloud)", speedups, "lossless", "generate-cloud", OVER_CLOUD),
        _at_least("lossless over generate (assisted)", speedups, "lossless", "generate-assisted", OVER_ASSISTED),
        _at_least("hybrid over cloud-only", speedups, "hybrid", "cloud", 1.0),
        _behind("hybrid's time in edge-only's", speedups, "hybrid", "edge", BEHIND_EDGE),
        _behind("lossless's time in cloud-only's", speedups, "lossless", "cloud", BEHIND_CLOUD),
    ]


def _overhead(contender: ContenderTime) -> Goal:
    overhead = contender.overhead
    measured = overhead.total.value if overhead else None
    return Goal(
        name=f"loop overhead, {contender.name}",
        goal=f"<= {100 * OVERHEAD:g}%",
        measured=None if measured is None else 100 * measured,
        unit="%",
        decoding=100 * overhead.decoding.value if overhead else None,
        met=None if measured is None else measured <= OVERHEAD,
    )


def _at_least(name: str, speedups: Sequence[Speedup], own: Contender, other: Contender, factor: float) -> Goal:
    found = _speedup(speedups, own, other)
    measured = found.total.value if found else None
    return Goal(
        name=name,
        goal=f">= {factor:g}x" if factor > 1 else "> 1x",
        measured=measured,
        unit="x",
        decoding=found.decoding.value if found else None,
        met=None if measured is None else measured >= factor if factor > 1 else measured > 1,
    )


def _behind(name: str, speedups: Sequence[Speedup], own: Contender, other: Contender, factor: float) -> Goal:
    found = _speedup(speedups, own, other)
    measured = 1 / found.total.value if found else None
    return Goal(
        name=name,
        goal=f"<= {factor:g}x",
        measured=measured,
        unit="x",
        decoding=1 / found.decoding.value if found else None,
        met=None if measured is None else measured <= factor,
    )


def _speedup(speedups: Sequence[Speedup], own: Contender, other: Contender) -> Speedup | None:
    return next((found for found in speedups if (found.name, found.against) == (own, other)), None)
