"""Ahead law: drafting ahead, a cloud beside the edge and a link change the speed, never the text; nor does running on
where the cloud's text is promised, and where it is not, the text is the reference's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
import torch

from specdec_cli.decoding.acceptance import Verdict
from specdec_cli.decoding.build import build_engine
from specdec_cli.decoding.draft import Draft
from specdec_cli.decoding.engine import Engine
from specdec_cli.decoding.imitation import Imitation
from specdec_cli.decoding.threaded import ThreadedVerifier
from specdec_cli.errors import SpecdecError
from specdec_cli.models.session import Pass, Session, Wait
from specdec_cli.types import Event, Finished, Round, Sent
from tests.laws.cases import CHUNK, Case, collect, generate, make_case
from tests.laws.reference import reference_text
from tests.laws.test_batch_law import _decode

CASES = 300


def engine_of(case: Case) -> Engine:
    return build_engine(case.pair, case.options, case.edge_inputs, case.cloud_inputs)


class Late(Future[Verdict]):
    """A verdict that arrives when the edge has made so many forwards ahead, or when somebody wants to see it.

    So how far the edge gets does not depend on the machine.
    """

    def __init__(self, verdict: Future[Verdict], session: Session, forwards: int) -> None:
        super().__init__()
        self._verdict, self._session = verdict, session
        self._until = session.work.forwards + forwards

    def done(self) -> bool:
        if not super().done() and self._session.work.forwards >= self._until:
            self.set_result(self._verdict.result())
        return super().done()

    def result(self, timeout: float | None = None) -> Verdict:
        if not super().done():
            self.set_result(self._verdict.result(timeout))
        return super().result()


def slowed(case: Case, forwards: int) -> Engine:
    """An engine whose cloud answers only after the edge has made so many forwards ahead, or wants the answer."""
    engine = engine_of(case)
    verifier, session = engine._cloud._verifier, engine._drafter.session  # type: ignore[attr-defined]
    assert isinstance(verifier, ThreadedVerifier)
    start = verifier.start

    def late(text: Sequence[int], draft: Draft, run_on: int = 0) -> Future[Verdict]:
        return Late(start(text, draft, run_on), session, forwards)

    verifier.start = late  # type: ignore[method-assign]
    return engine


def taken(step: Pass | Wait | Event) -> torch.Tensor | None:
    """What an engine that stopped at `step` wants to be sent."""
    if isinstance(step, Pass):
        return step.run()
    if isinstance(step, Wait) and not isinstance(step.future, Late):
        step.run()
    return None


def run_slowed(case: Case, forwards: int) -> tuple[list[Round], Finished]:
    """The rounds and the end of a run with such a cloud."""
    steps, seen = slowed(case, forwards).steps(), list[Event]()
    answer = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            return collect(iter(seen))
        answer = taken(step)
        if isinstance(step, (Round, Finished)):
            seen.append(step)


def ahead_case(number: int, **fixed: Any) -> Case:
    """A case with all of the new options drawn."""
    rng = random.Random(-number)
    drawn: dict[str, Any] = {"draft_ahead": "on", "cloud_prefill": rng.choice(("lazy", "early", "overlap"))}
    if "temperature" not in fixed and rng.random() < 0.25:
        drawn["temperature"] = rng.choice((0.7, 1.2))
    return make_case(number, **{**drawn, **fixed})


def rounds_without_times(rounds: list[Round]) -> list[Round]:
    return [
        replace(round_, entropy=(), score=(), margin=(), logprob=(), candidates=(), **_blank()) for round_ in rounds
    ]


def _blank() -> dict[str, Any]:
    return {"hidden_ms": None, "thrown_away": 0, "draft_ms": 0.0, "verify_ms": None, "network_ms": None, "link": None}


def _numbers(start: int, chunk: int) -> Iterator[int]:
    return iter(range(start + chunk * CHUNK, start + (chunk + 1) * CHUNK))


@pytest.mark.parametrize("chunk", range(CASES // CHUNK))
def test_drafting_ahead_changes_no_round(chunk: int) -> None:
    for number in _numbers(100_000, chunk):
        mode = ("hybrid", "hybrid", "lossless")[number % 3]
        case = ahead_case(number, mode=mode, run_on=(0, 0, 2)[number % 3 - 1])
        apart = replace(case, options=replace(case.options, draft_ahead="off", cloud_prefill="lazy"))
        rounds, finished = run_slowed(case, (0, 1, 2, 3, 5, 9, 30)[number % 7])
        expected, end = apart.run()
        assert rounds_without_times(rounds) == rounds_without_times(expected), number
        assert (finished.token_ids, finished.finish_reason) == (end.token_ids, end.finish_reason), number


@pytest.mark.parametrize("chunk", range(CASES // CHUNK))
def test_lossless_over_a_thread_equals_generate(chunk: int) -> None:
    for number in _numbers(110_000, chunk):
        imitation = Imitation(rtt_ms=0.2) if number % 5 == 0 else Imitation()
        case = ahead_case(number, mode="lossless", temperature=0.0, run_on=number % 5, imitation=imitation)
        assert case.pair.cloud is not None
        expected = generate(case.pair.cloud, case.cloud_inputs, case.pair.vocab_size, case.options)
        _, finished = collect(engine_of(case).run())
        assert list(finished.token_ids) == expected, number


@pytest.mark.parametrize("rule", ["greedy", "rank", "prob", "typical"])
def test_running_on_equals_the_reference(rule: str) -> None:
    base = 120_000 + 100 * len(rule)
    more = 0
    for number in range(base, base + 25):
        ahead = {"draft_ahead": "on"} if number % 2 else {}
        case = make_case(number, mode="hybrid", acceptance=rule, loop_period=0, run_on=1 + number % 4, **ahead)
        rounds, finished = collect(engine_of(case).run())
        expected, escalations = reference_text(case)
        assert list(finished.token_ids) == expected, number
        assert sum(round_.escalated for round_ in rounds) == escalations, number
        more += sum(round_.source.count("cloud") for round_ in rounds)
    assert more > 10


def test_sampled_run_on_equals_the_reference() -> None:
    for number in range(121_000, 121_040):
        case = make_case(number, mode="hybrid", acceptance="sampling", temperature=0.9, loop_period=0, run_on=3)
        assert list(case.run()[1].token_ids) == reference_text(case)[0], number


def test_drafting_ahead_is_used_and_thrown_away() -> None:
    """Guards the tests above against drafting nothing ahead, or never in vain."""
    hidden = useless = sent = 0
    for number in range(130_000, 130_060):
        case = ahead_case(number, mode="hybrid", temperature=0.0, k=3, max_new_tokens=18)
        rounds, _ = run_slowed(case, 30)
        hidden += sum(round_.hidden_ms is not None and round_.hidden_ms > 0 for round_ in rounds)
        useless += sum(round_.thrown_away > 0 for round_ in rounds)
        sent += sum(isinstance(event, Sent) for event in engine_of(case).run())
    assert hidden > 20
    assert useless > 20
    assert sent > 60


def test_nothing_is_fed_twice_to_the_edge() -> None:
    """What was drafted ahead and fits is not drafted again: as many forwards as tokens, guesses and what was lost."""
    for number in range(131_000, 131_030):
        case = ahead_case(number, mode="hybrid", temperature=0.0, loop_period=0, run_on=0)
        rounds, finished = run_slowed(case, 30)
        assert finished.edge is not None
        drafted = sum(len(round_.draft_ids) for round_ in rounds)
        guesses = sum(round_.escalated for round_ in rounds)
        useless = sum(round_.thrown_away for round_ in rounds)
        assert finished.edge.forwards <= drafted + guesses + useless, number


def test_rows_draft_ahead_as_one_clip_does() -> None:
    for number in range(132_000, 132_010):
        batch = [ahead_case(number * 10 + row, mode="hybrid", run_on=row % 3) for row in range(4)]
        for index, events in _decode(batch, 3, 2).items():
            assert not any(isinstance(event, SpecdecError) for event in events)
            alone = [event for event in engine_of(batch[index]).run() if isinstance(event, (Round, Finished))]
            assert _texts(events) == _texts(alone), (number, index)


def _texts(events: Sequence[Any]) -> list[Any]:
    rounds = [event for event in events if isinstance(event, Round)]
    finished = events[-1]
    return [rounds_without_times(rounds), finished.token_ids, finished.finish_reason]


@pytest.mark.parametrize("after", [1, 2, 4])
def test_an_abandoned_flight_leaves_both_sessions_clean(after: int) -> None:
    flown = 0
    for number in range(133_000, 133_030):
        case = ahead_case(number, mode="hybrid", max_new_tokens=18, loop_period=0)
        engine = slowed(case, 4)
        steps, seen = engine.steps(), 0
        step = next(steps, None)
        while step is not None and not (seen == after and isinstance(step, Pass)):
            seen += isinstance(step, Sent)
            answer = taken(step)
            try:
                step = steps.send(answer)
            except StopIteration:
                step = None
        steps.close()
        flown += seen >= after
        verifier: Any = engine._cloud._verifier
        drafter: Any = engine._drafter
        for session in (drafter.session, verifier.session):
            assert session.cached_text == engine.text[: len(session.cached_text)], number
            assert all(layer.get_seq_length() == session.length for layer in session._cache.layers)
        assert not drafter._ahead
    assert flown > 5


def test_cloud_mode_over_a_link_equals_generate() -> None:
    """The cloud writes a piece of text in each exchange, and nothing is loaded of the edge's."""
    exchanges = 0
    for number in range(140_000, 140_060):
        case = make_case(number, mode="cloud", imitation=Imitation(rtt_ms=0.0), max_new_tokens=12 + number % 30)
        assert case.pair.cloud is not None
        expected = generate(case.pair.cloud, case.cloud_inputs, case.pair.vocab_size, case.options)
        rounds, finished = collect(engine_of(case).run())
        assert list(finished.token_ids) == expected, number
        assert finished.edge is None
        assert finished.cloud is not None
        assert finished.cloud.encoder_passes == 1
        assert {source for round_ in rounds for source in round_.source} == {"cloud"}
        assert not any(round_.draft_ids or round_.escalated for round_ in rounds)
        assert all(round_.link is not None and round_.link.simulated for round_ in rounds)
        exchanges += len(rounds)
    assert exchanges > 70
