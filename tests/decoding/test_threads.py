"""A loop with its cloud beside it: what its thread inherits, and that a clip leaves no thread behind."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from specdec_cli.decoding.draft import LocalDrafter
from specdec_cli.decoding.verify import LocalVerifier
from specdec_cli.errors import CloudError
from tests.decoding.test_degraded import failing_after
from tests.laws.cases import collect, make_case

OVERLAP = {"mode": "lossless", "cloud_prefill": "overlap", "gate": "always"}


def test_a_failed_clip_leaves_no_thread():
    before = set(threading.enumerate())  # threads of other tests may end meanwhile
    case = make_case(90_100, max_new_tokens=18, loop_period=0, **OVERLAP)
    for _ in range(5):
        with pytest.raises(CloudError):
            list(failing_after(0, case)[0].events())
    assert set(threading.enumerate()) <= before


def test_an_abandoned_stream_ends_its_thread():
    before = set(threading.enumerate())
    for number in range(133_000, 133_004):
        loop = make_case(number, max_new_tokens=18, loop_period=0, **OVERLAP).loop()
        events = loop.events()
        next(events)
        events.close()
        assert set(threading.enumerate()) <= before
        for session in (loop.drafter.session, loop.verifier.session):
            if session.cache is not None and session.fed:
                assert {layer.get_seq_length() for layer in session.cache.layers} == {session.length}


def test_the_number_of_torch_threads_holds_beside_the_loop():
    """`torch.set_num_threads` counts for the thread that calls it alone."""
    case, seen = make_case(90_400, **OVERLAP), list[int]()
    loop = case.loop()
    verifier: Any = loop.verifier
    prefill = verifier.prefill

    def counting() -> None:
        seen.append(torch.get_num_threads())
        prefill()

    verifier.prefill = counting
    collect(loop.events())
    assert seen == [torch.get_num_threads()]


@pytest.mark.parametrize("mode", ["hybrid", "lossless"])
def test_other_clips_wait_for_no_answer_of_a_remote_model(mode, monkeypatch):
    """Neither for a draft of a remote edge, nor for a remote cloud that reads the clip early or verifies."""
    case = make_case(90_700, mode=mode, gate="always", cloud_prefill="early", max_new_tokens=8)
    outside, called, free = list[str](), set[str](), [False]

    @contextmanager
    def releasing() -> Iterator[None]:
        free[0] = True
        yield
        free[0] = False

    def watch(owner: type, name: str) -> None:
        call = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            called.add(name)
            if not free[0]:
                outside.append(name)
            return call(*args, **kwargs)

        monkeypatch.setattr(owner, name, watched)

    for owner, names in ((LocalDrafter, ("propose",)), (LocalVerifier, ("prefill", "verify"))):
        monkeypatch.setattr(owner, "is_remote", True)
        monkeypatch.setattr(owner, "close", lambda _: None, raising=False)
        for name in names:
            watch(owner, name)
    loop = case.loop()
    loop.cloud_prefill.step_aside = releasing
    collect(loop.events())
    assert (outside, called) == ([], {"propose", "prefill", "verify"})
