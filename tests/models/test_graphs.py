"""Recorded forwards over caches of fixed size score as transformers does, whatever else is in their memory."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from specdec_cli.decoding.pick import choices
from specdec_cli.errors import DecodingError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.graphs import ROOM, SIZES, FixedLayer, Forward, Graphs
from specdec_cli.models.processor import Prompt
from specdec_cli.models.selftest import self_test
from specdec_cli.models.session import Session
from tests.models.checkpoints import assert_agree
from tests.tiny import as_audio_lm, tiny_clip, tiny_model, tiny_module

TEXT = tuple(random.Random(1).randrange(256) for _ in range(120))


def record(forward: Forward) -> Forward:
    """As a CUDA graph on a GPU, repeats the operations and the memory of a forward, and none of the Python.

    Reading a value back to the host raises, as in a capture.
    """
    recorded, unused = make_fx(lambda _: forward())(torch.zeros(1)), torch.zeros(1)
    return lambda: recorded(unused)


def recordable(model: AudioLM) -> AudioLM:
    """The model, with forwards over caches of fixed size that `self_test` records."""
    model.graphs = Graphs(model.module, model.layers, record)
    return model


def recorded(model: AudioLM) -> AudioLM:
    """The model, with recorded forwards over caches of fixed size."""
    model.graphs = Graphs(model.module, model.layers, record)
    model.graphs.record()
    return model


def _prompt(model: AudioLM, clip: int = 0) -> Prompt:
    return model.processor.prompt(tiny_clip(clip), "say how")


def _assert_grown(model: AudioLM, prompt: Prompt, text: Sequence[int], found: torch.Tensor) -> None:
    """The rows are those of one pass over a cache that grows."""
    graphs, model.graphs = model.graphs, None
    assert_agree(found, Session(model, prompt, len(text)).logits(text, len(found)))
    model.graphs = graphs


@pytest.mark.parametrize("seed", range(2))
def test_recorded_forwards_of_every_size_follow_a_walk_of_drafts_and_rollbacks(seed: int) -> None:
    model, rng = recorded(tiny_model(seed)), random.Random(seed)
    prompt = _prompt(model)
    session, text = Session(model, prompt, 300), list[int]()
    for fed in (1, 1, 3, 9, 1, 12, 17, 40, 1, 65, 2, 70, 9, 1):  # 70: none is recorded, and the cache serves as it is
        text = text[: max(len(text) - rng.randrange(6), 0)] + [rng.randrange(256) for _ in range(fed)]
        _assert_grown(model, prompt, text, session.logits(text, fed))
    (layer,) = {type(layer) for layer in session.cache.layers} if session.cache else ()
    assert layer is FixedLayer
    assert set(model.graphs._recorded) == set(SIZES)  # type: ignore[union-attr]


def test_a_clip_leaves_its_memory_to_the_next_one_clean() -> None:
    model = recorded(tiny_model(3))
    prompt = _prompt(model)
    first = Session(model, prompt, 90)
    first.logits(TEXT[:40], 40)
    memory = first.cache.layers[0].keys if first.cache else None
    assert memory is not None
    with torch.inference_mode():
        memory.fill_(torch.nan)  # as float16 may leave it
    with pytest.raises(DecodingError, match="not finite"):
        choices(first.logits(TEXT[:41]), "it")
    first.cache = None
    _assert_grown(model, prompt, TEXT[:41], first.logits(TEXT[:41]))
    del first
    gc.collect()
    second = Session(model, _prompt(model, 1), 90)
    _assert_grown(model, second.prompt, TEXT[:9], second.logits(TEXT[:9], 9))
    assert second.cache is not None
    assert second.cache.layers[0].keys is memory


def test_a_second_clip_at_a_time_and_a_long_one_grow() -> None:
    model = recorded(tiny_model(4))
    sessions = [Session(model, _prompt(model, clip), 20) for clip in range(2)]
    for length in range(3):
        for session in sessions:
            _assert_grown(model, session.prompt, TEXT[:length], session.logits(TEXT[:length]))
    assert [type(session.cache.layers[0]) is FixedLayer for session in sessions if session.cache] == [True, False]
    del sessions, session
    gc.collect()
    assert model.graphs is not None
    with torch.inference_mode():
        assert model.graphs.cache(ROOM) is None
        assert model.graphs.cache(100) is not None


def test_the_self_test_compares_recorded_forwards_as_well() -> None:
    model = recordable(as_audio_lm(tiny_module(1).bfloat16(), "recorded"))
    self_test(model)
    assert model.self_test == "passed"
    assert model.graphs is not None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_graphs_follow_a_walk_as_recordings_do() -> None:
    model = as_audio_lm(tiny_module(1), "graphs", device="cuda")
    self_test(model)
    assert (model.self_test, model.describe()["graphs"]) == ("passed", "cuda")
    prompt = _prompt(model)
    session = Session(model, prompt, 200)
    for end, positions in ((1, 1), (9, 8), (5, 2), (70, 65), (71, 1), (60, 17)):
        _assert_grown(model, prompt, TEXT[:end], session.logits(TEXT[:end], positions))


def test_a_model_whose_recorded_forwards_fail_runs_without() -> None:
    model = tiny_model(1)
    model.graphs = Graphs(model.module, model.layers, lambda _: lambda: torch.empty(1).view(2))
    self_test(model)
    assert (model.self_test, model.graphs) == ("passed; without graphs", None)


def test_a_model_that_cannot_be_recorded_runs_without(caplog: pytest.LogCaptureFixture) -> None:
    model = recordable(tiny_model(1))
    model.module.get_output_embeddings().register_forward_hook(lambda *args: float(args[2].sum()) and None)
    self_test(model)
    assert model.self_test == "passed"
    assert model.graphs is None
    assert "graphs" not in model.describe()
    assert "runs without graphs" in caplog.text
