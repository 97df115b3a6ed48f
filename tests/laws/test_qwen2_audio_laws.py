"""The edge and cloud laws over Qwen2-Audio."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
import torch

from specdec_cli.decoding.build import Pair
from specdec_cli.errors import TokenizerMismatchError
from specdec_cli.models.family import PromptInputs
from specdec_cli.models.qwen2_audio import Qwen2Audio
from tests.laws.cases import CHUNK, INSTRUCTIONS, Case, drawn_options, generate
from tests.tiny import tiny_clip, tiny_model
from tests.tiny_qwen2_audio import audio_processor, near_audio_model, tiny_audio_model

CASES = 200


@cache
def _cloud(seed: int) -> Qwen2Audio:
    model = tiny_audio_model(
        seed,
        vocab_size=(272, 288, 320)[seed % 3],
        layers=1 + seed % 3,
        scale=(0.15, 0.3, 0.5)[(seed // 3) % 3],
    )
    if seed % 2:
        model.eos_ids = tuple(sorted({256, *range(seed % 5, 256, 23)}))
    return model


@cache
def _edge(seed: int, kind: str) -> Qwen2Audio:
    padded = (304, 272, 288)[seed % 3]
    if kind == "unrelated":
        model = tiny_audio_model(500 + seed, vocab_size=padded, layers=1)
    else:
        model = near_audio_model(_cloud(seed), 900 + seed, {"same": 0.0, "near": 0.05, "far": 0.3}[kind], padded)
    model.eos_ids = _cloud(seed).eos_ids
    return model


def _seconds(clip: int) -> float:
    return 0.3 + 0.257 * (clip % 4)


@cache
def _inputs(model: Qwen2Audio, clip: int, instruction: int) -> PromptInputs:
    return model.build_prompt(INSTRUCTIONS[instruction], model.features(tiny_clip(clip, _seconds(clip))))


@cache
def _heard(clip: int) -> dict[str, torch.Tensor]:
    """What transformers' processor makes of a clip: the whole window, and a mask."""
    found: Any = audio_processor().feature_extractor(
        tiny_clip(clip, _seconds(clip)),
        sampling_rate=16000,
        padding="max_length",
        return_attention_mask=True,
        return_tensors="pt",
    )
    return {"input_features": found.input_features, "feature_attention_mask": found.attention_mask}


def _case(number: int, **fixed: Any) -> tuple[Case, int]:
    """Case `number`, and its clip."""
    rng = random.Random(number)
    seed, kind = rng.randrange(9), rng.choice(("same", "near", "far", "unrelated"))
    clip, instruction = rng.randrange(8), rng.randrange(len(INSTRUCTIONS))
    options, weights = drawn_options(rng, **fixed)
    edge, cloud = _edge(seed, kind), _cloud(seed)
    inputs = (_inputs(edge, clip, instruction), _inputs(cloud, clip, instruction))
    return Case(number, Pair.of(edge, cloud), *inputs, options, weights), clip


def _mismatch(number: int, **fixed: Any) -> str | None:
    case, clip = _case(number, **fixed)
    model, inputs = case.pair.cloud, case.cloud_inputs
    if case.options.mode == "edge":
        model, inputs = case.pair.edge, case.edge_inputs
    assert isinstance(model, Qwen2Audio)
    rounds, finished = case.run()
    expected = generate(model, inputs, case.pair.vocab_size, case.options, _heard(clip))
    if list(finished.token_ids) != expected:
        return f"case {number}: {finished.token_ids} != {expected}"
    if any(round_.escalated != (case.options.mode == "lossless") for round_ in rounds):
        return f"case {number}: escalated where it should not have been, or the other way round"
    return None


@pytest.mark.parametrize("chunk", range(CASES // CHUNK))
def test_edge_alone_equals_generate(chunk: int) -> None:
    numbers = range(chunk * CHUNK, (chunk + 1) * CHUNK)
    assert [m for n in numbers if (m := _mismatch(n, mode="edge", loop_period=0))] == []


@pytest.mark.parametrize("chunk", range(CASES // CHUNK))
def test_lossless_equals_generate(chunk: int) -> None:
    numbers = range(20_000 + chunk * CHUNK, 20_000 + (chunk + 1) * CHUNK)
    assert [m for n in numbers if (m := _mismatch(n, mode="lossless"))] == []


def test_cloud_mode_equals_generate() -> None:
    assert [m for n in range(30_000, 30_050) if (m := _mismatch(n, mode="cloud"))] == []


def test_k_changes_the_speed_and_never_the_text() -> None:
    for number in range(32_000, 32_010):
        for mode in ("lossless", "edge", "cloud"):
            texts = {_case(number, mode=mode, k=k, loop_period=0)[0].run()[1].token_ids for k in (1, 2, 5, 8)}
            assert len(texts) == 1, (number, mode)


def test_the_audio_is_encoded_once_a_model() -> None:
    for number in range(33_000, 33_010):
        _, finished = _case(number, mode="lossless")[0].run()
        assert finished.edge is not None
        assert finished.cloud is not None
        assert (finished.edge.encoder_passes, finished.cloud.encoder_passes) == (1, 1)


def test_families_mix_where_their_tokenizers_are_the_same_and_nowhere_else() -> None:
    thinker = tiny_model(1)
    assert Pair.of(thinker, _cloud(0)).vocab_size == 266
    with pytest.raises(TokenizerMismatchError, match="have different tokenizers"):
        Pair.of(tiny_model(1, merges=3), _cloud(0))
