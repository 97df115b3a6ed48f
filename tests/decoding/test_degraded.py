"""A cloud that fails in the middle of a clip: the edge writes on alone, and says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from specdec_cli.decoding.acceptance import Verdict
from specdec_cli.decoding.build import build_engine
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.engine import Engine
from specdec_cli.decoding.threaded import ThreadedVerifier
from specdec_cli.decoding.verify import SessionVerifier
from specdec_cli.errors import CloudError
from specdec_cli.models.session import Steps, run_alone
from specdec_cli.types import Finished, Round
from tests.laws.cases import Case, collect, make_case

REASON = "the cloud does not answer"


def failing_after(answers: int, case: Case) -> tuple[Engine, list[int]]:
    """An engine whose cloud fails behind so many verdicts, and the number of times that it was asked."""
    engine = build_engine(case.pair, case.options, case.edge_inputs, case.cloud_inputs)
    verifier: Any = engine._cloud._verifier
    if isinstance(verifier, ThreadedVerifier):
        verifier = verifier._inner
    assert isinstance(verifier, SessionVerifier)
    calls = [0]
    verify = verifier.verify

    def failing(text: Sequence[int], draft: Draft, run_on: int = 0) -> Steps[Verdict]:
        calls[0] += 1
        if calls[0] > answers:
            raise CloudError(REASON)
        return (yield from verify(text, draft, run_on))

    verifier.verify = failing
    return engine, calls


@pytest.mark.parametrize("mode", ["hybrid", "lossless"])
@pytest.mark.parametrize("answers", [0, 1, 2])
@pytest.mark.parametrize("ahead", ["auto", "on"])
def test_the_edge_writes_on_alone(mode: Any, answers: int, ahead: Any) -> None:
    degraded = 0
    for number in range(90_000, 90_030):
        case = make_case(number, mode=mode, loop_period=0, max_new_tokens=18, draft_ahead=ahead)
        engine, calls = failing_after(answers, case)
        rounds, finished = collect(engine.run())
        if calls[0] <= answers:
            assert finished.degraded is None
            assert finished == _without_times(case.run()[1], finished)
            continue
        degraded += 1
        assert finished.degraded is not None
        assert finished.degraded.startswith(REASON)
        assert ("not lossless" in finished.degraded) == (mode == "lossless")
        assert calls[0] == answers + 1, "the cloud was asked again"
        assert [round_.escalated for round_ in rounds].count(True) == answers
        _assert_edge_wrote_the_rest(case, rounds, answers)
    assert degraded > 5


def _without_times(expected: Finished, found: Finished) -> Finished:
    """`found` if it says the same text and ending as `expected`."""
    return found if (found.token_ids, found.finish_reason) == (expected.token_ids, expected.finish_reason) else expected


def _assert_edge_wrote_the_rest(case: Case, rounds: list[Round], answers: int) -> None:
    """Behind the last verdict stands what the edge alone would write there."""
    asked = [round_.index for round_ in rounds if round_.escalated]
    start = asked[-1] + 1 if answers else 0
    text = [id_ for round_ in rounds[:start] for id_ in round_.committed_ids]
    rest = [id_ for round_ in rounds[start:] for id_ in round_.committed_ids]
    engine = build_engine(case.pair, case.options, case.edge_inputs, case.cloud_inputs)
    assert list(run_alone(engine._drafter.propose(text, len(rest))).ids) == rest
    assert {source for round_ in rounds[start:] for source in round_.source} <= {"edge"}


def test_a_required_cloud_ends_the_clip() -> None:
    case = make_case(90_100, mode="lossless", require_cloud=True, max_new_tokens=18, min_new_tokens=18, loop_period=0)
    engine, _ = failing_after(1, case)
    with pytest.raises(CloudError, match=REASON):
        list(engine.run())
    session = engine._drafter.session
    assert session.cached_text == engine.text[: len(session.cached_text)]


def test_an_early_prefill_that_fails_counts_too() -> None:
    case = make_case(90_200, mode="hybrid", cloud_prefill="early")
    engine, calls = failing_after(9, case)

    def refused() -> Steps[None]:
        raise CloudError(REASON)
        yield

    engine._cloud._verifier.prefill = refused  # type: ignore[union-attr, method-assign]
    _, finished = collect(engine.run())
    assert finished.degraded == REASON
    assert calls == [0]
