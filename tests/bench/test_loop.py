"""What is run and timed: forced drafts, single forwards, transformers' generate, memory."""

from __future__ import annotations

import time

import pytest
import torch

from specdec_cli.bench.clips import Clip, Models
from specdec_cli.bench.memory import account, cache_bytes, stored_bytes, weight_bytes
from specdec_cli.bench.timing import caption, generate, measure_steps
from specdec_cli.captioner import Captioner
from specdec_cli.models.session import Session
from tests.bench.clip import TOKENS, K
from tests.mini_pair import mini_pair


def test_single_forwards_are_those_of_a_loop(lossless: Captioner, clip: Clip) -> None:
    text = tuple(range(20, 20 + 11))
    found = list(measure_steps(Models.of(lossless.pair), clip, text, K))
    names = [step.name for step in found]
    assert names[:2] == ["edge-tower", "edge-prefill"]
    assert [names.count(name) for name in ("edge-step", "cloud-step")] == [len(text)] * 2
    verifications = [step for step in found if step.name == "verification"]
    assert [step.tokens for step in verifications] == [K + 1] * 3
    assert all(step.ms > 0 for step in found)


def test_generate_and_our_modes_write_the_same(lossless: Captioner, clip: Clip) -> None:
    models, settings = Models.of(lossless.pair), lossless.config.decoding
    ours, alone = caption(lossless, clip), generate(models.cloud, clip.cloud, settings, TOKENS)
    assert ours.ids == alone.ids
    assert ours.steps_ms is not None
    assert ours.prefill_ms + ours.steps_ms < ours.wall_ms, "more time in the forwards than there was"
    assert 0 < alone.prefill_ms < alone.wall_ms
    assert not models.cloud.module._forward_hooks


def test_putting_the_loop_together_takes_time_of_the_clip(
    lossless: Captioner, clip: Clip, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lossless.loop((clip.edge, clip.cloud))
    monkeypatch.setattr(lossless, "loop", lambda _: time.sleep(1.0) or made)
    found = caption(lossless, clip)
    assert found.wall_ms > 1000
    assert found.overhead is not None
    assert found.overhead > 1000 / (found.wall_ms - 1000) / 2


def test_scores_are_never_those_of_a_whole_prompt(lossless: Captioner, clip: Clip) -> None:
    rows: list[int] = []
    cloud = Models.of(lossless.pair).cloud.module.get_output_embeddings()
    counting = cloud.register_forward_hook(lambda _module, _inputs, scores: rows.append(scores.shape[1]))
    try:
        caption(lossless, clip)
    finally:
        counting.remove()
    assert len(clip.cloud.ids) > K + 1
    assert max(rows) == K + 1


def test_memory_adds_up(lossless: Captioner, clip: Clip) -> None:
    pair = mini_pair()
    assert pair.loaded_cloud is not None
    capacity = TOKENS + K + 1
    models = Models.of(pair)
    found = account(models, clip, capacity, libraries_mb=300.0)
    caches = 0
    for model, prompt in ((models.edge, clip.edge), (models.cloud, clip.cloud)):
        text = model.module.config.get_text_config()
        width = text.num_key_value_heads * text.hidden_size // text.num_attention_heads
        caches += 2 * 4 * text.num_hidden_layers * width * (len(prompt.ids) + capacity)
    assert found.caches_mb * 2**20 == pytest.approx(caches)
    numbers = sum(parameter.numel() for parameter in pair.loaded_cloud.module.parameters())
    assert found.cloud_weights_mb * 2**20 >= 4 * numbers
    held = found.libraries_mb + found.edge_weights_mb + found.cloud_weights_mb + found.caches_mb
    assert found.peak_mb is not None
    assert found.unaccounted_mb == pytest.approx(found.peak_mb - held)


def test_a_session_has_no_cache_before_it_has_read(clip: Clip) -> None:
    pair = mini_pair()
    assert pair.edge is not None
    assert cache_bytes(Session(pair.edge, clip.edge, 8)) == 0


def test_bytes_of_what_is_made_of_several_tensors_are_theirs() -> None:
    assert stored_bytes(torch.zeros(3, 5, dtype=torch.bfloat16)) == 30
    layer = torch.nn.Linear(4, 2)
    assert weight_bytes(layer) == 4 * (8 + 2)
