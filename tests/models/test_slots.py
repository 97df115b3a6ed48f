"""Recorded forwards over caches of fixed size score as transformers does, whatever else is in their memory."""

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from specdec_cli.models import compiled_steps
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import forward_together
from specdec_cli.models.processor import Prompt
from specdec_cli.models.selftest import self_test
from specdec_cli.models.session import Session
from specdec_cli.models.slots import JOINT_SIZES, ROOMS, SIZES, Forward, SlotLayer, Slots
from tests.support.checkpoints import assert_agree
from tests.support.models import as_audio_lm, tiny_clip, tiny_model, tiny_module
from tests.tiers import few

TEXT = tuple(random.Random(1).randrange(256) for _ in range(120))


def record(forward: Forward) -> Forward:
    """As a CUDA graph on a GPU, repeats the operations and the memory of a forward, and none of the Python.

    Reading a value back to the host raises, as in a capture. It is recorded when it is first wanted.
    """
    unused = torch.zeros(1)
    recorded = cache(lambda: make_fx(lambda _: forward())(unused))
    return lambda: recorded()(unused)


def recordable(model: AudioLM) -> AudioLM:
    """The model, with forwards over slots of fixed memory that `self_test` records."""
    model.slots = Slots(model.module, len(model.new_cache(1).layers), 1, record)
    return model


def recorded(model: AudioLM, slots: int = 1) -> AudioLM:
    """The model, with recorded forwards over slots of fixed memory."""
    model.slots = Slots(model.module, len(model.new_cache(1).layers), slots, record)
    model.slots.record()
    return model


def _prompt(model: AudioLM, clip: int = 0) -> Prompt:
    return model.processor.prompt(tiny_clip(clip), "say how")


def _assert_grown(model: AudioLM, prompt: Prompt, text: Sequence[int], found: torch.Tensor) -> None:
    """The rows are those of one pass over a cache that grows."""
    slots, model.slots = model.slots, None
    assert_agree(found, Session(model, prompt, len(text)).logits(text, len(found)))
    model.slots = slots


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_recorded_forwards_of_every_size_follow_a_walk_of_drafts_and_rollbacks(seed):
    model, rng = recorded(tiny_model(seed)), random.Random(seed)
    prompt = _prompt(model)
    session, text = Session(model, prompt, 300), list[int]()
    for fed in (1, 1, 3, 9, 1, 12, 17, 40, 1, 65, 2, 70, 9, 1):  # 70: none is recorded, and the cache serves as it is
        text = text[: max(len(text) - rng.randrange(6), 0)] + [rng.randrange(256) for _ in range(fed)]
        _assert_grown(model, prompt, text, session.logits(text, fed))
    (layer,) = {type(layer) for layer in session.cache.layers} if session.cache else ()
    assert layer is SlotLayer
    recordings = {(shape.tokens, shape.room) for shape in model.slots._recorded}
    assert recordings == {(size, room) for size in SIZES for room in ROOMS}


@pytest.mark.parametrize("clips", few([2, 1, 5, 16]))
@pytest.mark.parametrize("spare", few([0, 1]))
def test_joint_forwards_over_slots_follow_walks_of_drafts_and_rollbacks(clips, spare):
    """Some clips wait at a time, end early and leave their slots to others, in whichever order."""
    model, rng = tiny_model(clips, layers=1, graphs="on"), random.Random(clips)
    model.reserve(clips + spare)
    texts: dict[Session, list[int]] = {}
    for _ in range(6):
        while len(texts) < clips:
            session = Session(model, _prompt(model, rng.randrange(4)), 300)
            session.logits(())
            texts[session] = []
        waiting = rng.sample([*texts], rng.randint(1, clips))
        feeds = {session: rng.choice((1, 1, 3, 9, 12)) for session in waiting}
        for session, fed in feeds.items():
            text = texts[session]
            texts[session] = text[: max(len(text) - rng.randrange(4), 0)] + [rng.randrange(256) for _ in range(fed)]
        found = forward_together([(session, texts[session], fed) for session, fed in feeds.items()])
        for session, scores in zip(waiting, found, strict=True):
            assert isinstance(session.cache.layers[0], SlotLayer)
            _assert_grown(model, session.prompt, texts[session], scores)
        for session in rng.sample(waiting, len(waiting) // 3):
            session.close()
            del texts[session]


def test_more_slots_leave_earlier_caches_as_they_are():
    model = recorded(tiny_model(2))
    session = Session(model, _prompt(model), 90)
    session.logits(TEXT[:4])
    model.reserve(3)
    assert model.slots.count == 3
    _assert_grown(model, session.prompt, TEXT[:9], session.logits(TEXT[:9], 6))
    sizes = {(shape.clips, shape.tokens) for shape in model.slots._recorded}
    assert sizes == {(1, size) for size in SIZES} | {(clips, size) for clips in (2, 3) for size in JOINT_SIZES}


def test_a_text_longer_than_a_room_is_read_in_the_next_one():
    model = recorded(tiny_model(3, layers=1), 2)
    sessions = [Session(model, _prompt(model, clip), 1200) for clip in range(2)]
    rng = random.Random(0)
    text = [rng.randrange(256) for _ in range(1100)]
    for end in (380, 1000):
        for session in sessions:
            session.logits(text[:end])
        found = forward_together([(session, text[: end + 9], 9) for session in sessions])
        for session, scores in zip(sessions, found, strict=True):
            _assert_grown(model, session.prompt, text[: end + 9], scores)


@pytest.mark.slow
def test_the_self_test_compares_recorded_forwards_as_well():
    model = recordable(as_audio_lm(tiny_module(1).bfloat16(), "recorded"))
    self_test(model)
    assert model.self_test == "passed"
    assert model.slots is not None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_graphs_follow_a_walk_as_recordings_do():
    model = as_audio_lm(tiny_module(1), "graphs", device="cuda")
    self_test(model)
    assert (model.self_test, model.describe()["graphs"]) == ("passed", "cuda")
    prompt = _prompt(model)
    session = Session(model, prompt, 200)
    for end, positions in ((1, 1), (9, 8), (5, 2), (70, 65), (71, 1), (60, 17)):
        _assert_grown(model, prompt, TEXT[:end], session.logits(TEXT[:end], positions))


def test_a_model_whose_recorded_forwards_fail_runs_without():
    model = tiny_model(1)
    model.slots = Slots(model.module, len(model.new_cache(1).layers), 1, lambda _: lambda: torch.empty(1).view(2))
    self_test(model)
    assert (model.self_test, model.slots) == ("passed; without graphs", None)


def test_a_model_that_cannot_be_recorded_runs_without(caplog):
    def at_once(forward: Forward) -> Forward:
        repeat = record(forward)
        repeat()
        return repeat

    model = tiny_model(1)
    model.slots = Slots(model.module, len(model.new_cache(1).layers), 1, at_once)
    model.module.get_output_embeddings().register_forward_hook(lambda *args: float(args[2].sum()) and None)
    self_test(model)
    assert model.self_test == "passed"
    assert model.slots is None
    assert "graphs" not in model.describe()
    assert "runs without graphs" in caplog.text


def test_a_step_that_cannot_be_compiled_is_recorded_as_it_is(monkeypatch, caplog):
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(compiled_steps, "_layer", refuse)
    monkeypatch.setattr(torch, "compile", lambda call, **_: call)
    model = tiny_model(1, graphs="on", compiled=True)
    assert "without compiled steps: no compiler" in caplog.text
    assert not model.slots.compiled
    assert model.describe()["graphs"] == "eager"
    assert model.slots._recorded
