"""Cloud law: with every block escalated under greedy acceptance, the tokens equal the cloud's own `generate()`.

A third of the cases verify blocks of a fixed length in mode lossless; the others run with other settings of mode,
length and speed, none of which may change the text.
"""

from collections.abc import Mapping
from typing import Any, Final

from tests.laws.cases import Case, fast, make_case
from tests.laws.checks import cloud_law
from tests.laws.tolerance import ENOUGH, numbers

COSTS: Final = (0.02, 0.15, 0.5, 0.9, 3.0)
WAYS: Final[tuple[Mapping[str, Any], ...]] = (
    {"mode": "cloud"},
    {"mode": "hybrid", "gate": "always", "threshold": None},
    {"mode": "hybrid", "gate": "entropy", "threshold": 0.0, "wake": 0.0, "defer": True},
    {"defer": True},
    *({"k": "auto", "cost_ratio": cost} for cost in COSTS),
    {"k": "auto"},
    {"k": "auto", "mode": "cloud"},
    {"cloud_prefill": "early"},
    {"cloud_prefill": "overlap"},
    {"k": 1},
    {"k": 8},
)


def way(number: int) -> Mapping[str, Any]:
    """What the case of a number is run with: as drawn, everything for speed at once, or one of `WAYS`."""
    return ({}, fast(number), WAYS[number // 3 % len(WAYS)])[number % 3]


def lossless_case(number: int) -> Case:
    """In mode hybrid the loop breaks out of repetitions, which `generate()` cannot; that has tests of its own."""
    given = {"mode": "lossless", **way(number)}
    return make_case(number, **given, **({"loop_period": 0} if given["mode"] == "hybrid" else {}))


def test_lossless_equals_generate_whatever_is_set_for_speed(law):
    cases = law("cloud", map(lossless_case, numbers(20_000)), cloud_law)
    if len(cases) >= ENOUGH:
        lengths = {cost: set[int]() for cost in COSTS}
        for case in cases:
            if (cost := way(case.number).get("cost_ratio")) in lengths:
                lengths[cost] |= {len(round_.draft_ids) for round_ in case.ran[0][0]}
        assert all(len(found) > 2 if cost < 0.5 else 0 in found for cost, found in lengths.items()), lengths
