"""The clips that a server holds, without a client: none is dropped in vain, and those that go are learnt from."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from specdec_cli.errors import DecodingError
from specdec_cli.serve.engine import ServeEngine
from specdec_cli.serve.held_clips import HeldClip, HeldClips
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.verification import Service
from tests.support.models import tiny_model
from tests.support.servers import WAIT_S


def held(id_: str, learnt: list[str], size: int = 1) -> HeldClip:
    rows: Any = SimpleNamespace(learn=lambda *_: learnt.append(id_))
    clip: Any = None
    return HeldClip(id_, clip, SimpleNamespace(next_scores=rows), size)


def test_a_clip_that_finds_no_room_costs_no_other_clip():
    clips, learnt = HeldClips(ServeLimits(sessions=3, memory_bytes=10)), list[str]()
    one, two = held("one", learnt, 4), held("two", learnt, 4)
    clips.add(one)
    clips.add(two)
    with two.lock:
        with pytest.raises(HTTPException, match="all sessions are in use"):
            clips.add(held("large", learnt, 8))  # not even if the free one went
        assert (clips.find("one"), learnt) == (one, [])
        clips.add(held("three", learnt, 5))
    assert (len(clips), clips.find("one"), learnt) == (2, None, ["one"])


def test_the_clip_of_the_same_name_makes_room_first():
    clips, learnt = HeldClips(ServeLimits(sessions=2, memory_bytes=10)), list[str]()
    for id_ in ("one", "two"):
        clips.add(held(id_, learnt, 5))
    clips.add(held("two", learnt, 5))
    assert (len(clips), learnt) == (2, ["two"])


def test_no_clip_is_read_whose_client_left_while_it_waited_for_the_encoder(monkeypatch):
    engine, read, turn = ServeEngine([], 2), list[str](), threading.Barrier(2)
    first, second = (SimpleNamespace(is_read=False, name=name) for name in ("first", "second"))
    left = threading.Event()

    def reads(session: Any, *_: object) -> None:
        read.append(session.name)
        turn.wait(WAIT_S)  # the encoder is busy
        turn.wait(WAIT_S)

    def ask(session: Any, left: threading.Event) -> None:
        with engine.request(left):
            engine.logits(session, (), 1)

    monkeypatch.setattr("specdec_cli.models.session.Session.logits", reads)
    monkeypatch.setattr(engine, "_encoding", threading.BoundedSemaphore(1))
    with engine, ThreadPoolExecutor(2) as threads:
        reading = threads.submit(ask, first, threading.Event())
        turn.wait(WAIT_S)
        waiting = threads.submit(ask, second, left)
        time.sleep(0.05)  # it waits for the encoder, or will soon
        left.set()
        turn.wait(WAIT_S)
        reading.result(WAIT_S)
        with pytest.raises(ClientDisconnect):
            waiting.result(WAIT_S)
    assert read == ["first"]


def test_a_model_with_scores_that_are_not_finite_is_not_served():
    model = tiny_model(1)
    model.module.get_output_embeddings().weight.data.fill_(torch.nan)
    with pytest.raises(DecodingError, match="not finite"):
        Service(model, ServeLimits())
