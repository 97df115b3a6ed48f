"""A cloud that fails in the middle of a clip: the edge writes on alone, and the transcript says so."""

from collections.abc import Sequence
from typing import Any

import pytest

from specdec_cli.decoding.block import Block, Draft, Verdict
from specdec_cli.decoding.draft import LocalDrafter
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.verify import LocalVerifier
from specdec_cli.errors import CloudError, DecodingError, EdgeError
from specdec_cli.types import Finished, ModelWork
from tests.laws.cases import Case, collect, make_case
from tests.laws.reference import edge_oracle
from tests.laws.tolerance import assert_law
from tests.table import certain, table_loop

REASON = "the cloud does not answer"


class Failing:
    """A verifier that fails after so many verdicts."""

    is_remote = True
    scores = None

    def __init__(self, inner: LocalVerifier, answers: int, error: Exception | None = None) -> None:
        self._inner, self._answers, self._error = inner, answers, error or CloudError(REASON)
        self.calls, self.closed = 0, 0

    @property
    def work(self) -> ModelWork:
        return self._inner.work

    def verify(self, text: Sequence[int], draft: Draft, run_on: int = 0) -> Verdict:
        self.calls += 1
        if self.calls > self._answers:
            raise self._error
        return self._inner.verify(text, draft, run_on)

    def prefill(self) -> None:
        if self._answers == 0:
            raise self._error

    def close(self) -> None:
        self.closed += 1


def failing_after(answers: int, case: Case, error: Exception | None = None) -> tuple[Loop, Failing]:
    """A loop whose cloud fails after so many verdicts."""
    loop = case.loop()
    assert isinstance(loop.verifier, LocalVerifier)
    loop.verifier = verifier = Failing(loop.verifier, answers, error)
    return loop, verifier


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["hybrid", "lossless"])
@pytest.mark.parametrize("answers", [0, 1, 2])
@pytest.mark.parametrize("prefill", ["lazy", "overlap"])
def test_the_edge_writes_on_alone(mode, answers, prefill):
    degraded = 0
    for number in range(90_000, 90_008):
        case = make_case(number, mode=mode, loop_period=0, max_new_tokens=14, cloud_prefill=prefill, fallback="on")
        loop, verifier = failing_after(answers, case)
        rounds, finished = collect(loop.events())
        assert verifier.closed == 1
        if verifier.calls <= answers:
            assert finished.degraded is None
            expected = case.run()[1]
            assert (finished.token_ids, finished.finish_reason) == (expected.token_ids, expected.finish_reason)
            continue
        degraded += 1
        assert finished.degraded.startswith(REASON)
        assert ("not lossless" in finished.degraded) == (mode == "lossless")
        assert verifier.calls == answers + 1, "the cloud was called again"
        assert [round_.escalated for round_ in rounds].count(True) == answers
        _assert_edge_wrote_the_rest(case, rounds, finished, answers)
    assert degraded > 2


def _assert_edge_wrote_the_rest(case: Case, rounds: list[Block], finished: Finished, answers: int) -> None:
    """After the last verdict stands what the edge alone would write there."""
    escalated = [round_.index for round_ in rounds if round_.escalated]
    start = escalated[-1] + 1 if answers else 0
    written = sum(len(round_.committed_ids) for round_ in rounds[:start])
    text, oracle = list(finished.token_ids), edge_oracle(case)
    oracle.read(text)
    assert_law(text[written:], lambda prefix: oracle([*text[:written], *prefix]), f"case {case.number}")
    assert {source for round_ in rounds[start:] for source in round_.source} <= {"edge"}
    assert all(round_.verdict is None and round_.reason is None for round_ in rounds[start:])


def test_in_an_adaptive_lossless_run_the_edge_drafts_on_where_the_cloud_wrote_alone():
    lengths = {"max_new_tokens": 18, "min_new_tokens": 18, "loop_period": 0}
    case = make_case(90_300, mode="lossless", k="auto", cost_ratio=5.0, fallback="on", **lengths)
    rounds, finished = collect(failing_after(1, case)[0].events())
    assert not rounds[0].draft_ids
    assert finished.finish_reason == "max_tokens"
    assert all(round_.draft_ids and round_.committed_ids for round_ in rounds[1:])
    assert [round_.index for round_ in rounds] == list(range(len(rounds)))


@pytest.mark.parametrize("prefill", ["lazy", "overlap"])
@pytest.mark.parametrize("error", [CloudError(REASON), DecodingError("a bug")])
def test_lossless_promises_the_clouds_text_and_fails_without_it(error, prefill):
    fixed = {"max_new_tokens": 18, "min_new_tokens": 18, "loop_period": 0}
    case = make_case(90_100, mode="lossless", cloud_prefill=prefill, **fixed)
    loop, verifier = failing_after(1, case, error)
    with pytest.raises(type(error), match=str(error)):
        list(loop.events())
    assert verifier.closed == 1
    assert loop.text_ids


def test_another_error_ends_a_clip_that_may_degrade():
    case = make_case(90_150, mode="lossless", max_new_tokens=18, min_new_tokens=18, loop_period=0, fallback="on")
    with pytest.raises(DecodingError, match="a bug"):
        list(failing_after(1, case, DecodingError("a bug"))[0].events())


def test_an_early_prefill_that_fails_counts_too():
    case = make_case(90_200, mode="hybrid", cloud_prefill="early")
    loop, verifier = failing_after(0, case)
    _, finished = collect(loop.events())
    assert finished.degraded == REASON
    assert verifier.calls == 0
    with pytest.raises(CloudError, match=REASON):
        list(failing_after(0, case.but(fallback="off"))[0].events())


def test_a_prefill_beside_the_edge_that_fails_costs_nothing_until_a_block_escalates():
    case = make_case(90_200, mode="hybrid", cloud_prefill="overlap", gate="never", loop_period=0)
    _, finished = collect(failing_after(0, case)[0].events())
    assert finished.degraded is None
    _, finished = collect(failing_after(0, case.but(gate="always"))[0].events())
    assert finished.degraded == REASON


def test_a_loop_of_the_edge_is_left_without_the_cloud():
    """What the cloud promises to equal is never bent; once it is gone, the edge may break out of a loop."""
    looping = {"^": "a", "a": "b", "b": "a", "c": ""}
    ends = set()
    for seed in range(20):
        loop = table_loop(
            certain(looping, margin=3.0), certain(looping), mode="lossless", k=4, seed=seed, fallback="on"
        )
        assert isinstance(loop.verifier, LocalVerifier)
        loop.verifier = Failing(loop.verifier, 0)
        ends.add(collect(loop.events())[1].finish_reason)
    assert "eos" in ends


@pytest.mark.parametrize("fallback", ["auto", "on"])
def test_an_edge_that_fails_on_the_way_out_of_a_loop(fallback):
    looping = certain({"^": "a", "a": "b", "b": "a"})
    loop = table_loop(looping, looping, mode="hybrid", k=8, fallback=fallback)
    assert isinstance(loop.drafter, LocalDrafter)
    propose, failures = loop.drafter.propose, list[int]()

    def failing(text: Sequence[int], *args: Any, top_k: int | None = None) -> Draft:
        if top_k is not None:  # it draws among the likeliest tokens to leave the loop
            failures.append(len(text))
            raise EdgeError("the edge does not answer")
        return propose(text, *args)

    loop.drafter.propose = failing
    if fallback == "auto":
        with pytest.raises(EdgeError):
            collect(loop.events())
        return
    blocks, finished = collect(loop.events())
    assert len(failures) == 1, "an edge that failed is not asked again"
    assert finished.degraded == "the edge does not answer; from there on the cloud wrote alone"
    assert {token.source for token in blocks[-1].tokens} == {"cloud"}
    assert finished.finish_reason == "loop"
