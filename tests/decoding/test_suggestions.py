"""What a checkpoint's generation_config.json suggests holds where a setting is left open, and yields to one given."""

from typing import Any

import pytest
from transformers import GenerationConfig

from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from tests.laws.cases import Case, generate, make_case
from tests.laws.checks import cloud_law, edge_law, reference_law
from tests.support.models import as_audio_lm, tiny_module, tiny_processor

OPEN = {"repetition_penalty": None, "no_repeat_ngram": None, "min_new_tokens": None}
SUGGESTED: list[dict[str, Any]] = [
    {"repetition_penalty": 1.5},
    {"repetition_penalty": 0.7},
    {"no_repeat_ngram_size": 1},
    {"min_new_tokens": 9},
    {"suppress_tokens": list(range(0, 256, 2))},
    {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 6, "suppress_tokens": [5, 300, 400]},
]


def suggesting(seed: int, **suggested: Any) -> AudioLM:
    """A tiny model whose checkpoint suggests something."""
    module = tiny_module(seed)
    eos = tiny_processor().tokenizer.eos_token_id
    module.generation_config = GenerationConfig(eos_token_id=[eos, *range(3, 256, 29)], pad_token_id=257, **suggested)
    return as_audio_lm(module, f"suggesting-{seed}")


def suggested_case(number: int, edge: AudioLM, cloud: AudioLM, **given: Any) -> Case:
    """A case on these two models."""
    case = make_case(number, **{"loop_period": 0, "max_new_tokens": 12, **given})
    prompts = [model.processor.prompt(case.edge_prompt.waveform, "say how") for model in (edge, cloud)]
    return Case(number, Pair.of(edge, cloud), *prompts, case.given)


@pytest.mark.slow
@pytest.mark.parametrize("suggested", SUGGESTED, ids=lambda found: "+".join(found))
def test_an_open_setting_follows_the_checkpoint(suggested):
    plain, model = suggesting(31), suggesting(31, **suggested)
    other = 0
    for number in range(96_000, 96_002):
        for mode, law in (("edge", edge_law), ("cloud", cloud_law), ("lossless", cloud_law)):
            case = suggested_case(number, model, model, mode=mode, **OPEN)
            assert law(case) is None
        text = case.run()[1].token_ids
        without = generate(
            plain,
            case.cloud_prompt,
            case.pair.vocab_size,
            case.but(repetition_penalty=1.0, no_repeat_ngram=0, min_new_tokens=0).config.decoding,
        )
        other += list(text) != without
    assert other, "the suggestion changes something"


def test_a_setting_that_is_given_wins():
    model = suggesting(32, repetition_penalty=1.3, no_repeat_ngram_size=2, min_new_tokens=6)
    plain = suggesting(32)
    off = {"repetition_penalty": 1.0, "no_repeat_ngram": 0, "min_new_tokens": 0}
    for number in range(96_100, 96_102):
        for mode, law in (("edge", edge_law), ("lossless", cloud_law)):
            case = suggested_case(number, model, model, mode=mode, **off)
            assert law(case) is None
            assert case.run()[1].token_ids == suggested_case(number, plain, plain, mode=mode, **OPEN).run()[1].token_ids
            assert law(suggested_case(number, model, model, mode=mode, **{**OPEN, "repetition_penalty": 0.8})) is None


@pytest.mark.slow
def test_each_model_follows_its_own_checkpoint():
    """Hybrid drafts by the edge's suggestion and verifies by the cloud's."""
    edge = suggesting(33, repetition_penalty=1.3, suppress_tokens=[7, 8, 9])
    cloud = suggesting(33, no_repeat_ngram_size=1, min_new_tokens=8)
    for number in range(96_200, 96_208):
        gate = ("entropy", "always", "never", "margin")[number % 4]
        assert reference_law(suggested_case(number, edge, cloud, mode="hybrid", gate=gate, **OPEN)) is None
    assert edge_law(suggested_case(96_300, edge, cloud, mode="edge", **OPEN)) is None
    assert cloud_law(suggested_case(96_300, edge, cloud, mode="lossless", **OPEN)) is None
