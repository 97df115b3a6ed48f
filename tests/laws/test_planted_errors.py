"""The laws find what they are there to find: noise in the scores, and a rollback that is off by one token.

The edge alone never rolls back, so that its law is given noise only; that nothing is fed twice is no matter of scores,
so that its law is given rollbacks only. Of a cloud that verifies greedily no score is recorded: noise shows where it
changes the best token, and it is given more.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from specdec_cli.decoding import draft
from specdec_cli.labels.class_words import class_words
from tests.laws import planted
from tests.laws.cases import Case
from tests.laws.checks import Check, reference_law
from tests.laws.makers import gated_case
from tests.laws.planted import NOISE, found
from tests.laws.registry import LAWS as OF_CLIPS
from tests.laws.test_batch_law import batch_law, batch_of
from tests.laws.test_cache_law import clean_law, fed_once_law, once_case
from tests.tiers import slow

Make = Callable[[int], Case]
Plant = Callable[[Case], AbstractContextManager[object]]

NAMES = ("edge", "edge, sampled", "cloud", "cloud, alone", "reference", "reference, everything", "sampling", "guess")
LAWS: dict[str, tuple[Make, Check]] = {
    **{name: OF_CLIPS[name][:2] for name in NAMES},
    "cache": (once_case, fed_once_law),
    "cache, clean": (once_case, clean_law),
}
CASES = range(200_080, 200_480)
"""To try. Most errors are found in the first few, wherever one begins."""
ERRORS: dict[str, Plant] = {
    "noise in the edge": lambda case: planted.noise(case.edge),
    "noise in the cloud": lambda case: planted.noise(
        case.cloud, NOISE if case.config.decoding.mode == "cloud" else 20 * NOISE
    ),
    "one token too many kept": lambda _: planted.rollback(1),
    "one token too few kept": lambda _: planted.rollback(-1),
    "a guess taken one place off": lambda _: planted.misplaced_guess(-1),
    "a guess taken for the choice": lambda _: planted.trusted_guess(),
    "a memory that is one token off": lambda _: planted.forgotten_token(),
}
IRRELEVANT = {
    ("edge", "noise in the cloud"),
    ("edge, sampled", "noise in the cloud"),
    ("cloud, alone", "noise in the edge"),
    *((law, error) for law in ("edge", "edge, sampled", "cloud, alone") for error in list(ERRORS)[2:4]),
    *((law, error) for law in ("cache", "cache, clean") for error in ERRORS if "kept" not in error),
    *((law, "a memory that is one token off") for law in LAWS if law != "guess"),
}


def whole_batch_law(batch: list[Case]) -> None:
    """All clips of a batch at a time."""
    batch_law(batch, len(batch))


PLANTED = [(law, error) for law in LAWS for error in ERRORS if (law, error) not in IRRELEVANT]


@pytest.mark.slow
@pytest.mark.parametrize(("law", "error"), PLANTED)
def test_a_planted_error_breaks_the_law(law, error):
    make, check = LAWS[law]
    assert found(check, ERRORS[error], map(make, CASES))


@pytest.mark.slow
@pytest.mark.parametrize("error", list(ERRORS)[:-1])
def test_a_planted_error_breaks_the_batch_law(error):
    assert found(whole_batch_law, lambda batch: ERRORS[error](batch[0]), map(batch_of, range(50)))


IN_SLOTS: dict[str, Callable[[Any], AbstractContextManager[object]]] = {
    "a slot one token too long": lambda _: planted.misplaced_start(1),
    "a slot one token too short": lambda _: planted.misplaced_start(-1),
    "a neighbour's slot": lambda _: planted.neighbours_slot(),
    "a stale input": lambda _: planted.stale_input(),
}


@pytest.mark.slow
@pytest.mark.parametrize("error", IN_SLOTS)
def test_an_error_planted_in_slots_breaks_the_laws(error):
    clips = (case for case in map(gated_case, range(400)) if case.edge.slots is not None)
    assert found(reference_law, IN_SLOTS[error], clips)
    batches = (batch for batch in map(batch_of, range(400)) if batch[0].edge.slots is not None)
    assert found(whole_batch_law, IN_SLOTS[error], batches)


@pytest.mark.parametrize("error", [planted.misfed, planted.unfollowed])
def test_an_error_planted_in_unread_tokens_breaks_a_law(error, monkeypatch):
    monkeypatch.setitem(draft.UNREAD_TOKENS, "cpu", 8)
    make, check = OF_CLIPS["reference"][:2]
    assert found(check, lambda _: error(), map(make, CASES))


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("edge", planted.banned_noun),
        ("edge", planted.stale_history),
        ("guess", planted.row_behind_a_guess),
        ("reference", planted.ban_of_the_edge),
        slow(("cloud", planted.banned_noun)),
        slow(("reference, everything", planted.stale_history)),
        slow(("cloud", planted.ban_of_the_edge)),
    ],
)
def test_an_error_planted_in_the_sound_breaks_a_law(name, error):
    make, check = OF_CLIPS[name][:2]

    def afresh(case: Case) -> None:
        class_words.cache_clear()  # which keeps what words name
        check(case.heard())

    assert found(afresh, lambda _: error(), map(make, range(600_000, 600_100)))
