"""All laws on tokens that read as claims about a sound: contradictions escalate, and classes that fit it may stand."""

import random
from collections import Counter
from typing import Any

import pytest

from tests.laws.cases import Case, drawn_sound, make_case, mixed
from tests.laws.checks import cloud_law, edge_law, reference_law
from tests.laws.test_batch_law import batches_law
from tests.laws.test_cloud_law import lossless_case
from tests.laws.test_edge_law import edge_case
from tests.laws.test_wire_law import over_the_wire, servers  # noqa: F401 - fixtures
from tests.laws.tolerance import ENOUGH, cases, numbers


def claiming(number: int, **given: Any) -> Case:
    """A case whose tokens read as claims, beside a sound that some of them contradict."""
    rng = random.Random(f"sound {number}")
    drawn = mixed(rng) | {"max_new_tokens": rng.choice((7, 10, 20)), "min_new_tokens": 0, "stop_strings": ()}
    switches = {"grounded": rng.random() < 0.9, "arbitrates": rng.random() < 0.8, "sentences": None}
    if rng.random() < 0.6:  # as much as possible is judged, by models that differ
        switches |= {"mode": "hybrid", "temperature": 0.0, "top_k": None, "top_p": None, "gate": "always"}
        switches |= {"acceptance": rng.choice(("greedy", "greedy", "rank", "class")), "defer": rng.random() < 0.6}
    return make_case(number, **drawn | switches | given, measured=drawn_sound(rng))


def test_the_edge_alone_and_the_cloud_alone_and_lossless_are_untouched(law):
    def grounded(case: Case, **given: Any) -> Case:
        return make_case(case.number, **case.given | given, measured=drawn_sound(random.Random(case.number)))

    law("sound, edge", (grounded(edge_case(n), mode="edge") for n in numbers(0, 0.1)), edge_law)
    law("sound, lossless", (grounded(lossless_case(n)) for n in numbers(20_000, 0.1)), cloud_law)


def test_the_reference(law):
    ran = law("sound, reference", map(claiming, numbers(310_000, 0.6)), reference_law)
    if cases() < ENOUGH:
        return
    blocks = [(case, round_) for case in ran for rounds, _ in case.ran for round_ in rounds]
    assert Counter(round_.reason for _, round_ in blocks)["sound"] > 5
    stood = [case for case, round_ in blocks if round_.verdict is not None and round_.verdict.stood]
    assert len(stood) > 3
    assert {case.config.acceptance_rule for case in stood} > {"greedy"}
    assert all(case.config.arbitrates for case in stood)


@pytest.mark.ci
def test_a_batch():
    batches_law(970, 0.1, lambda number: {"measured": drawn_sound(random.Random(number)), "max_new_tokens": 20})


@pytest.mark.ci
def test_the_wire(over_the_wire):  # noqa: F811 - a fixture
    ran = [claiming(n, mode="hybrid", temperature=0.0, acceptance=None) for n in numbers(330_000, 0.2)]
    over_the_wire("sound", ran)
