"""The laws find what they are there to find: noise in the scores, and a rollback that is off by one token.

The edge alone never rolls back, so that its law is given noise only; that nothing is fed twice is no matter of scores,
so that its law is given rollbacks only. Of a cloud that verifies greedily no score is recorded: noise shows where it
changes the best token, and it is given more.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.laws.cases import Case, fast, make_case
from tests.laws.checks import Check, cloud_law, edge_law, reference_law
from tests.laws.makers import edge_case, gated_case
from tests.laws.planted import (
    NOISE,
    forgotten_token,
    misplaced_guess,
    misplaced_start,
    neighbours_slot,
    noise,
    rollback,
    stale_input,
    trusted_guess,
)
from tests.laws.registry import LAWS as OF_CLIPS
from tests.laws.test_batch_law import batch_law, batch_of
from tests.laws.test_cache_law import clean_law, fed_once_law, once_case
from tests.laws.tolerance import LawBroken

Make = Callable[[int], Case]
Plant = Callable[[Case], AbstractContextManager[None]]

_OF_CLIPS = ("edge", "edge, sampled", "cloud, alone", "reference", "reference, everything", "sampling", "guess")
LAWS: dict[str, tuple[Make, Check]] = {
    **{name: OF_CLIPS[name][:2] for name in _OF_CLIPS},
    "cloud": (lambda n: make_case(n, mode="lossless"), cloud_law),
    "speed, lossless": (lambda n: make_case(n, mode="lossless", **fast(n)), cloud_law),
    "speed, edge": (lambda n: edge_case(n).but(**fast(n)), edge_law),
    "cache": (once_case, fed_once_law),
    "cache, clean": (once_case, clean_law),
}
CASES = range(200_080, 200_480)
"""To try. Most errors are found in the first few, wherever one begins."""
ERRORS: dict[str, Plant] = {
    "noise in the edge": lambda case: noise(case.edge),
    "noise in the cloud": lambda case: noise(case.cloud, NOISE if case.config.decoding.mode == "cloud" else 20 * NOISE),
    "one token too many kept": lambda _: rollback(1),
    "one token too few kept": lambda _: rollback(-1),
    "a guess taken one place off": lambda _: misplaced_guess(-1),
    "a guess taken for the choice": lambda _: trusted_guess(),
    "a memory that is one token off": lambda _: forgotten_token(),
}
IRRELEVANT = {
    ("edge", "noise in the cloud"),
    ("edge, sampled", "noise in the cloud"),
    ("speed, edge", "noise in the cloud"),
    ("cloud, alone", "noise in the edge"),
    *((law, error) for law in ("edge", "edge, sampled", "speed, edge", "cloud, alone") for error in list(ERRORS)[2:4]),
    *((law, error) for law in ("cache", "cache, clean") for error in ERRORS if "kept" not in error),
    *((law, "a memory that is one token off") for law in LAWS if law != "guess"),
}


PLANTED = [(law, error) for law in LAWS for error in ERRORS if (law, error) not in IRRELEVANT]


@pytest.mark.slow
@pytest.mark.parametrize(("law", "error"), PLANTED)
def test_a_planted_error_breaks_the_law(law, error):
    make, check = LAWS[law]
    for tried, case in enumerate(map(make, CASES), start=1):
        try:
            with ERRORS[error](case):
                check(case)
        except LawBroken as broken:
            print(tried, broken)
            return
    pytest.fail("no case of the law finds it")


@pytest.mark.slow
@pytest.mark.parametrize("error", list(ERRORS)[:-1])
def test_a_planted_error_breaks_the_batch_law(error):
    for number in range(50):
        batch = batch_of(number)
        try:
            with ERRORS[error](batch[0]):
                batch_law(batch, len(batch))
        except LawBroken:
            return
    pytest.fail("no batch finds it")


IN_SLOTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a slot one token too long": lambda: misplaced_start(1),
    "a slot one token too short": lambda: misplaced_start(-1),
    "a neighbour's slot": neighbours_slot,
    "a stale input": stale_input,
}


@pytest.mark.slow
@pytest.mark.parametrize("error", IN_SLOTS)
@pytest.mark.parametrize("law", ["batch", "reference"])
def test_an_error_planted_in_slots_breaks_the_laws(law, error):
    for number in range(400):
        batch = batch_of(number) if law == "batch" else [gated_case(number)]
        if batch[0].edge.slots is None:
            continue
        try:
            with IN_SLOTS[error]():
                if law == "batch":
                    batch_law(batch, len(batch))
                else:
                    reference_law(batch[0])
        except LawBroken as broken:
            print(number, broken)
            return
    pytest.fail("no case finds it")
