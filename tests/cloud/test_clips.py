"""The clips that a server holds, without a client: none is dropped in vain, and those that go are learnt from."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from starlette.exceptions import HTTPException

from specdec_cli.errors import DecodingError
from specdec_cli.serve.clips import HeldClip, HeldClips, Service
from specdec_cli.serve.limits import ServeLimits
from tests.tiny import tiny_model


def held(id_: str, learnt: list[str], size: int = 1) -> HeldClip:
    rows: Any = SimpleNamespace(learn=lambda *_: learnt.append(id_))
    clip: Any = None
    return HeldClip(id_, clip, SimpleNamespace(scores=rows), size)


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


def test_a_model_with_scores_that_are_not_finite_is_not_served():
    model = tiny_model(1)
    model.module.get_output_embeddings().weight.data.fill_(torch.nan)
    with pytest.raises(DecodingError, match="not finite"):
        Service(model, ServeLimits())
