"""The parts of client and server by themselves."""

from __future__ import annotations

import http.client
import json
import threading
import time
from concurrent.futures import Future, wait
from typing import Any

import numpy as np
import pytest
import torch

from specdec_cli.cloud.breaker import Breaker
from specdec_cli.cloud.protocol import (
    MalformedError,
    Question,
    pack,
    pack_features,
    pack_rows,
    unpack,
    unpack_features,
    unpack_rows,
)
from specdec_cli.decoding.draft import Draft
from specdec_cli.errors import DecodingError
from specdec_cli.models.family import AudioLanguageModel
from specdec_cli.models.session import Pass, Session, Steps
from specdec_cli.serve.feeder import Feeder
from tests.cloud.serving import ServerThread, linked, serving
from tests.laws.cases import cloud, inputs, make_case


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_breaker_lets_one_through_when_the_time_has_come() -> None:
    clock = Clock()
    breaker = Breaker(10.0, clock)
    assert breaker.admits()
    breaker.failed("gone")
    assert not breaker.admits()
    clock.now = 9.9
    assert not breaker.admits()
    clock.now = 10.0
    assert [breaker.admits(), breaker.admits()] == [True, False]  # one goes and sees
    breaker.failed("gone still")
    clock.now = 19.9
    assert not breaker.admits()
    clock.now = 20.0
    assert breaker.admits()
    breaker.succeeded()
    assert [breaker.admits(), breaker.admits()] == [True, True]


def test_a_call_that_says_nothing_leaves_the_breaker_as_it_was() -> None:
    clock = Clock()
    breaker = Breaker(1.0, clock)
    breaker.failed("gone")
    clock.now = 1.0
    assert breaker.admits()
    breaker.undecided()
    assert breaker.admits()


def test_what_is_packed_comes_out() -> None:
    values = np.random.default_rng(0).standard_normal((16, 33)).astype(np.float32)
    found = unpack_features(memoryview(pack_features(values)), 16, 33)
    assert np.array_equal(found, values.astype(np.float16).astype(np.float32))
    rows = torch.randn(3, 50, generator=torch.Generator().manual_seed(0)).softmax(-1).numpy()
    rows[1] = 0
    rows[1, [3, 7]] = (0.25, 0.75)
    counts, data = pack_rows(rows)
    assert counts == [50, 2, 50]
    assert np.array_equal(unpack_rows(memoryview(data), counts, 50), rows)
    question = Question(text=[1], draft=[2, 3], more=4, rows=counts)
    again, numbers = unpack(Question, pack(question, data))
    assert (again, bytes(numbers)) == (question, data)


@pytest.mark.parametrize("change", [[0.5, 0.6], [-0.5, 1.5], [float("nan"), 1.0], [0.0, 1.0]])
def test_what_is_no_distribution_is_refused(change: list[float]) -> None:
    data = np.array([1, 2], "<u4").tobytes() + np.array(change, "<f4").tobytes()
    with pytest.raises(MalformedError):
        unpack_rows(memoryview(data), [2], 10)
    good = np.array([1, 2], "<u4").tobytes() + np.array([0.5, 0.5], "<f4").tobytes()
    assert unpack_rows(memoryview(good), [2], 10)[0, 1] == 0.5
    with pytest.raises(MalformedError):
        unpack_rows(memoryview(good), [2], 2)


class Counted:
    """Counts forwards, and holds the model's thread up until told to go on."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.gate = threading.Event()

    def fed(self, clips: int, seconds: float) -> None:
        assert seconds >= 0
        self.groups.append(clips)
        self.gate.wait(20)

    def reached(self, forwards: int) -> bool:
        """Whether so many are made within 20 seconds."""
        until = time.monotonic() + 20
        while len(self.groups) < forwards and time.monotonic() < until:
            time.sleep(0.01)
        return len(self.groups) >= forwards


def _scores(session: Session, text: tuple[int, ...]) -> Any:
    def begin() -> Steps[torch.Tensor]:
        session.rollback(text)
        wanted: Pass = session.ask(text, 1)
        return (yield wanted)

    return begin


def test_sessions_that_wait_share_a_forward_and_score_as_alone() -> None:
    model = cloud(1)
    prompts = [inputs(("cloud", 1), clip, 0) for clip in range(6)]
    apart = [Session(model, prompt, 20) for prompt in prompts]
    for session in apart:
        session.prefill()
    alone = [session.advance((5, 6), 1) for session in apart]
    sessions = [Session(model, prompt, 20) for prompt in prompts]
    watcher = Counted()
    watcher.gate.set()
    feeder = Feeder(4, watcher)
    wait([feeder.submit(session, session_prefill(session)) for session in sessions], timeout=60)
    watcher.gate.clear()
    first = feeder.submit("x", _scores(Session(model, prompts[0], 20), (1,)))
    assert watcher.reached(len(sessions) + 1)  # the model's thread is held up with it
    assert feeder.waiting == 1
    found: list[Future[torch.Tensor]] = [feeder.submit(s, _scores(s, (5, 6))) for s in sessions]
    watcher.gate.set()
    wait([first, *found], timeout=60)
    feeder.close()
    for scores, expected in zip(found, alone, strict=True):
        assert torch.equal(scores.result(), expected)
    assert watcher.groups[-2:] == [4, 2]


def session_prefill(session: Session) -> Any:
    def begin() -> Steps[None]:
        wanted = session.ask_prefill()
        assert wanted is not None
        yield wanted

    return begin


def test_a_culprit_fails_alone() -> None:
    model = cloud(1)
    prompt = inputs(("cloud", 1), 0, 0)
    watcher = Counted()
    watcher.gate.set()
    feeder = Feeder(8, watcher)
    good, small = Session(model, prompt, 20), Session(model, prompt, 1)
    bad = feeder.submit(small, _scores(small, (1, 2, 3, 4)))
    fine = feeder.submit(good, _scores(good, (1, 2, 3, 4)))
    with pytest.raises(DecodingError):
        bad.result(60)
    assert fine.result(60).shape[0] == 1
    feeder.close()
    with pytest.raises(DecodingError, match="shutting down"):
        feeder.submit(good, _scores(good, (1,)))


def test_what_waits_is_finished_before_the_end() -> None:
    model = cloud(1)
    assert isinstance(model, AudioLanguageModel)
    watcher = Counted()
    feeder = Feeder(8, watcher)
    session = Session(model, inputs(("cloud", 1), 1, 0), 20)
    futures = [feeder.submit(session, _scores(session, (1,) * n)) for n in range(1, 6)]
    watcher.gate.set()
    feeder.close()
    assert all(future.done() and future.exception() is None for future in futures)


def test_what_is_being_answered_is_answered_before_the_server_ends() -> None:
    case = make_case(91_000, mode="lossless")
    assert isinstance(case.pair.cloud, AudioLanguageModel)
    assert case.pair.edge is not None
    thread = ServerThread(case.pair.cloud)
    reached, go_on = threading.Event(), threading.Event()

    def fed(clips: int, seconds: float) -> None:
        reached.set()
        go_on.wait(20)

    thread.served.service.metrics.fed = fed  # type: ignore[method-assign]
    with linked(thread.served.url, case.pair.edge) as link:
        verifier = link.verifier(
            case.cloud_inputs, case.options, 30, case.pair.vocab_size, torch.Generator(), link.eos_ids
        )
        verdict = verifier.start((), Draft((5, 6), torch.empty(2, 0)))
        assert reached.wait(60)
        ending = threading.Thread(target=thread.stop)
        ending.start()
        threading.Event().wait(0.3)
        assert not verdict.done()
        go_on.set()
        assert verdict.result(60).link is not None
        ending.join(60)
    assert not ending.is_alive()


def test_the_server_describes_itself() -> None:
    model = cloud(2)
    with serving(model) as served:
        connection = http.client.HTTPConnection("127.0.0.1", served.port)
        connection.request("GET", "/openapi.json")
        told = json.loads(connection.getresponse().read())
        connection.close()
    assert set(told["paths"]) == {
        "/v1/info",
        "/v1/sessions/{id_}",
        "/v1/sessions/{id_}/verify",
        "/healthz",
        "/metrics",
    }
    body = told["paths"]["/v1/sessions/{id_}/verify"]["post"]["requestBody"]
    assert set(body["content"]["application/octet-stream"]["schema"]["x-json-schema"]["properties"]) == set(
        Question.model_fields
    )
