"""Random cases for the laws: models, clips and settings, each a pure function of its number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from specdec_cli.config.gate_file import LearnedWeights
from specdec_cli.decoding.build import Pair, build_engine
from specdec_cli.decoding.learned import DENSE, SPARSE_KINDS, Classifier
from specdec_cli.decoding.loops import ends_in_loop
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.models.family import PromptInputs
from specdec_cli.models.qwen import QwenAudioModel
from specdec_cli.models.qwen_omni import QwenOmniThinker
from specdec_cli.types import Event, Finished, Round
from tests.tiny import near_model, tiny_clip, tiny_model

CHUNK = 50  # cases per test, so that a failure names a small range
INSTRUCTIONS = ("say how", "描述声音", "tone? abab abab", "x")


@dataclass(frozen=True)
class Case:
    """One pair, one clip, one set of options; `weights` are those of the options' classifier."""

    number: int
    pair: Pair
    edge_inputs: PromptInputs
    cloud_inputs: PromptInputs
    options: DecodingOptions
    weights: LearnedWeights

    def run(self) -> tuple[list[Round], Finished]:
        """Decodes the clip with the engine."""
        return collect(build_engine(self.pair, self.options, self.edge_inputs, self.cloud_inputs).run())


def collect(events: Iterator[Event]) -> tuple[list[Round], Finished]:
    """The rounds and the end of a finished run."""
    seen = list(events)
    finished = seen[-1]
    assert isinstance(finished, Finished)
    return [event for event in seen if isinstance(event, Round)], finished


@cache
def cloud(seed: int) -> QwenOmniThinker:
    """One of the verifying models: depths 1 to 3, three vocabulary paddings, some with many eos ids."""
    model = tiny_model(
        100 + seed,
        f"cloud-{seed}",
        vocab_size=(272, 288, 320)[seed % 3],
        layers=1 + seed % 3,
        scale=(0.15, 0.3, 0.5)[(seed // 3) % 3],
    )
    if seed % 2:
        model.eos_ids = tuple(sorted({256, *range(seed % 5, 256, 23)}))
    return model


@cache
def edge(cloud_seed: int, kind: str) -> QwenOmniThinker:
    """A drafter for `cloud(cloud_seed)`: its own weights, nearly those, or others; always padded differently."""
    target = cloud(cloud_seed)
    padded = (304, 272, 288)[cloud_seed % 3]
    if kind == "unrelated":
        model = tiny_model(500 + cloud_seed, f"edge-{cloud_seed}", vocab_size=padded, layers=1)
    else:
        model = near_model(target, 900 + cloud_seed, {"same": 0.0, "near": 0.05, "far": 0.3}[kind], padded)
    model.eos_ids = target.eos_ids
    return model


@cache
def inputs(model_key: tuple[Any, ...], clip: int, instruction: int) -> PromptInputs:
    """The prompt of a clip for a model named by ("cloud", seed) or ("edge", seed, kind)."""
    model = cloud(model_key[1]) if model_key[0] == "cloud" else edge(model_key[1], model_key[2])
    features = model.features(tiny_clip(clip, 0.3 + 0.25 * (clip % 4)))
    return model.build_prompt(INSTRUCTIONS[instruction], features)


def make_case(number: int, **fixed: Any) -> Case:
    """Case `number`; `fixed` overrides drawn options."""
    rng = random.Random(number)
    seed, kind = rng.randrange(9), rng.choice(("same", "near", "far", "unrelated"))
    clip, instruction = rng.randrange(8), rng.randrange(len(INSTRUCTIONS))
    options, weights = drawn_options(rng, **fixed)
    return Case(
        number,
        Pair.of(edge(seed, kind), cloud(seed)),
        inputs(("edge", seed, kind), clip, instruction),
        inputs(("cloud", seed), clip, instruction),
        options,
        weights,
    )


def drawn_options(rng: random.Random, **fixed: Any) -> tuple[DecodingOptions, LearnedWeights]:
    """Random settings, `fixed` ones as they are, and the weights of their classifier."""
    max_new_tokens = rng.randint(4, 18)
    options: dict[str, Any] = {
        "k": rng.randint(1, 8),
        "max_new_tokens": max_new_tokens,
        "min_new_tokens": min(rng.choice((0, 0, 0, 3, 9)), max_new_tokens),
        "repetition_penalty": rng.choice((1.0, 1.0, 1.2, 1.7, 0.8)),
        "no_repeat_ngram": rng.choice((0, 0, 1, 2, 3)),
        "gate": rng.choice(("entropy", "margin", "logprob", "learned", "random")),
        "loop_period": rng.choice((0, 0, 8)),
        "loop_repeats": rng.choice((2, 3)),
        "seed": rng.randrange(1000),
    }
    options["threshold"] = {
        "entropy": rng.uniform(0.5, 5.0),
        "margin": rng.uniform(0.02, 0.5),
        "logprob": rng.uniform(-4.0, -0.3),
        "learned": rng.uniform(0.3, 0.9),
        "random": rng.uniform(0.1, 0.9),
    }[options["gate"]]
    options["stop_drafting"] = rng.random() < 0.5
    weights = learned_weights(rng)
    options["classifier"] = Classifier(weights, 0.6, "")
    return DecodingOptions(**{**options, **fixed}), weights


def learned_weights(rng: random.Random) -> LearnedWeights:
    """A classifier that nobody fitted: every dense feature, and some of the tokens'."""
    tokens = [f"{kind}={id_}" for kind in SPARSE_KINDS for id_ in rng.sample(range(256), 60)]
    features = (*DENSE, *tokens)
    return LearnedWeights(
        features=features,
        weights=tuple(rng.gauss(0, 0.3) for _ in features),
        bias=rng.uniform(-3, 1),
        slope=rng.uniform(0.5, 1.5),
        offset=rng.uniform(-0.5, 0.5),
        combination=rng.choice(("any", "largest")),
    )


class _EndsInLoop(StoppingCriteria):
    def __init__(self, prompt: int, options: DecodingOptions) -> None:
        self._prompt, self._options = prompt, options

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        text = input_ids[0, self._prompt :].tolist()
        return torch.tensor([ends_in_loop(text, self._options.loop_period, self._options.loop_repeats)])


def generate(
    model: QwenAudioModel,
    prompt: PromptInputs,
    vocab_size: int,
    options: DecodingOptions,
    heard: dict[str, torch.Tensor] | None = None,
) -> list[int]:
    """transformers' own answer for the same settings: the truth that the edge and cloud laws are measured against.

    `heard` is what transformers' processor makes of the clip, for a model that wants it padded to its window.
    """
    length = len(prompt.ids)
    heard = heard or {
        "input_features": prompt.features.values[None],
        "feature_attention_mask": torch.ones(1, prompt.features.frames, dtype=torch.long),
    }
    stops = StoppingCriteriaList()
    if options.loop_period:
        stops.append(_EndsInLoop(length, options))
    sampling: dict[str, Any] = {"do_sample": False}
    if options.sampling:
        sampling = {
            "do_sample": True,
            "temperature": options.temperature,
            "top_k": options.top_k or 0,
            "top_p": options.top_p or 1.0,
        }
    output = model.module.generate(
        input_ids=torch.tensor([prompt.ids]),
        attention_mask=torch.ones(1, length, dtype=torch.long),
        **heard,
        max_new_tokens=options.max_new_tokens,
        min_new_tokens=options.min_new_tokens,
        repetition_penalty=options.repetition_penalty,
        no_repeat_ngram_size=options.no_repeat_ngram,
        eos_token_id=list(model.eos_ids),
        pad_token_id=257,
        suppress_tokens=[*model.placeholder_ids, *range(vocab_size, model.vocab_size)],
        stopping_criteria=stops,
        **sampling,
    )
    tokens: list[int] = output[0, length:].tolist()
    return tokens
