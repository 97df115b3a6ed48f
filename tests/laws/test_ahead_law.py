"""Ahead law: drafting ahead, and a cloud beside the edge, change the speed and never a round."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from specdec_cli.decoding.block import Block, Draft, Verdict
from specdec_cli.decoding.loop import Loop
from specdec_cli.types import Finished, Sent
from tests.laws.cases import Case, collect, make_case
from tests.laws.reference import assert_rounds
from tests.laws.tolerance import ENOUGH, cases, numbers
from tests.tiers import few


def ahead_case(number: int, **fixed: Any) -> Case:
    """A case whose cloud works beside the edge."""
    rng = random.Random(-number)
    drawn: dict[str, Any] = {"draft_ahead": "on", "cloud_prefill": rng.choice(("lazy", "early", "overlap"))}
    if "temperature" not in fixed and rng.random() < 0.25:
        drawn["temperature"] = rng.choice((0.7, 1.2))
    return make_case(number, **{**drawn, **fixed})


def slowed(case: Case, forwards: int) -> Loop:
    """A loop whose cloud answers after the edge has made so many forwards ahead, or waits for the answer.

    So how far the edge gets does not depend on the machine.
    """
    loop = case.remember().loop()
    verifier: Any = loop.verifier
    session: Any = loop.drafter.session
    verify, state = verifier.verify, {"waits": False, "forwards": 0}

    def late(text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        until = state["forwards"] + forwards
        while session.work.forwards < until and not state["waits"]:
            time.sleep(1e-3)
        return verify(text, draft, run_on)

    submit = loop.calls.submit

    def submitted(call: Any, *args: Any) -> Any:
        state["waits"], state["forwards"] = False, session.work.forwards
        return submit(call, *args)

    @contextmanager
    def waiting() -> Iterator[None]:
        state["waits"] = True
        yield

    verifier.verify = late
    loop.calls.submit, loop.calls.step_aside = submitted, waiting
    return loop


def run_slowed(case: Case, forwards: int) -> tuple[list[Block], Finished]:
    """The rounds and the end of a run with such a cloud."""
    case.ran.append(collect(slowed(case, forwards).run()))
    return case.ran[-1]


def slowed_law(case: Case) -> str | None:
    """Every round is the reference's, however far the edge drafts ahead."""
    return assert_rounds(case, *run_slowed(case, (0, 1, 2, 3, 5, 9, 30)[case.number % 7]))


def mode_case(number: int) -> Case:
    """Two hybrid cases for each lossless one."""
    return ahead_case(number, mode=("hybrid", "hybrid", "lossless")[number % 3], run_on=(0, 0, 2)[number % 3 - 1])


def test_drafting_ahead_changes_no_round(law):
    ran = law("ahead", map(mode_case, numbers(100_000, 0.4)), slowed_law)
    if cases() >= ENOUGH:  # else something may be drafted ahead nowhere, or nowhere in vain
        rounds = [round_ for case in ran for round_ in case.ran[0][0]]
        assert sum((round_.hidden_ms or 0) > 0 for round_ in rounds) > 4  # what was guessed before takes no time
        assert sum(round_.thrown_away > 0 for round_ in rounds) > 10


def test_what_was_drafted_ahead_and_fits_is_not_drafted_again():
    """As many forwards as tokens, guesses and what was lost."""
    for number in numbers(131_000, 0.2):
        case = ahead_case(number, mode="hybrid", temperature=0.0, loop_period=0, run_on=0)
        rounds, finished = run_slowed(case, 30)
        drafted = sum(len(round_.draft_ids) for round_ in rounds)
        guesses = sum(round_.escalated for round_ in rounds)
        useless = sum(round_.thrown_away for round_ in rounds)
        assert finished.edge.forwards <= drafted + guesses + useless, number


def test_without_drafting_ahead_nothing_is_hidden():
    for prefill in ("lazy", "overlap"):
        case = make_case(131_100, mode="lossless", draft_ahead="off", cloud_prefill=prefill)
        assert {round_.hidden_ms for round_ in case.run()[0]} == {None}


@pytest.mark.parametrize("after", few([2, 1, 4]))
def test_an_abandoned_stream_ends_its_thread(after):
    abandoned = 0
    for number in range(133_000, 133_008):
        loop = slowed(ahead_case(number, mode="hybrid", max_new_tokens=18, loop_period=0), 4)
        events, seen = loop.run(), 0
        for event in events:
            seen += isinstance(event, Sent)
            if seen == after:
                break
        abandoned += seen == after
        events.close()
        executor = loop.calls._executor
        assert executor is None or not any(thread.is_alive() for thread in executor._threads)
        for session in (loop.drafter.session, loop.verifier.session):
            if session.cache is not None and session.fed:
                assert {layer.get_seq_length() for layer in session.cache.layers} == {session.length}
    assert abandoned > 2
