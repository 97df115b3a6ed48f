"""Random cases for the laws: models, clips and settings, each a pure function of its number."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, Final, Self

import torch
from transformers import LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.config.schema import Config
from specdec_cli.decoding.block import Block
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.pair import Pair
from specdec_cli.decoding.rows import Groups
from specdec_cli.decoding.stop import RepetitionRule
from specdec_cli.labels import Lexicon
from specdec_cli.labels.class_words import class_words
from specdec_cli.labels.grounding import Grounding
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import Engine
from specdec_cli.models.processor import Prompt
from specdec_cli.types import Finished, Measured
from tests.laws.sound import Sound, SoundProcessor
from tests.support.models import near_model, tiny_clip, tiny_model
from tests.tiny import collect, settings

__all__ = ["Case", "cloud", "collect", "drawn_settings", "edge", "generate", "make_case", "prompt"]

Ran = tuple[list[Block], Finished]
INSTRUCTIONS = ("say how", "描述声音", "tone? abab abab", "x")
GATES = ("entropy", "margin", "logprob", "class-entropy", "random", "always", "never")

MEMORIES = ("empty", "right", "wrong", "another's")

SYNONYMS = {id_: id_ // 4 for id_ in range(256)}
"""Of the rule `class`: every four neighbours say the same."""

CLASSES = {id_: id_ % 5 for id_ in range(200)}
"""Of the gate class-entropy: token -> its class; all others are one more."""


@dataclass(frozen=True)
class Case:
    """One pair, one clip, some settings by name.

    Attributes:
        measured: figures of the sound that claims are set against, where tokens read as such; None: nothing is.
        ran: what became of it whenever it was decoded, with whichever settings.
    """

    number: int
    pair: Pair
    edge_prompt: Prompt
    cloud_prompt: Prompt
    given: dict[str, Any]
    measured: Measured | None = None  # of the sound; tokens then read as claims about it
    ran: list[Ran] = field(default_factory=list, repr=False, compare=False)

    @property
    def config(self) -> Config:
        """The settings."""
        return settings(**self.given)

    @property
    def edge(self) -> AudioLM:
        """The drafting model."""
        assert self.pair.edge is not None
        return self.pair.edge

    @property
    def cloud(self) -> AudioLM:
        """The verifying model."""
        model = self.pair.local("cloud")
        assert model is not None
        return model

    def but(self, **changed: Any) -> Self:
        """The same case with other settings."""
        return replace(self, given={**self.given, **changed})

    @property
    def grounding(self) -> Grounding | None:
        """The product's sound."""
        if (measured := self.measured) is None:
            return None
        words = class_words(Lexicon.shipped(), tuple(sorted(self.attributes)), self.pair.processor)
        return Grounding(Lexicon.shipped(), "en", measured, words)

    @property
    def sound(self) -> Sound | None:
        """What the sound bans by the reference."""
        if self.measured is None:
            return None
        return Sound(self.measured, self.attributes, self.pair.processor.text)

    @property
    def attributes(self) -> frozenset[str]:
        """Whose classes the sound decides."""
        return frozenset(Lexicon.shipped().limited(self.config.decoding.sound))

    def heard(self) -> Self:
        """The same case beside a sound: its tokens read as claims, and some of them contradict the figures."""
        rng = random.Random(f"sound {self.number}")
        pair = replace(self.pair, edge=reading_as(CLAIMS, self.edge), cloud=reading_as(CLAIMS, self.cloud))
        sound = rng.choice((None, None, None, ("rate", "volume"), ("range", "pitch", "rate")))
        changed = {"sound": sound, "stop_strings": (), "closing": "off"}
        return replace(self, pair=pair, measured=drawn_sound(rng), given={**self.given, **changed}, ran=[])

    def loop(self, engine: Engine | None = None) -> Loop:
        """A fresh loop over the clip."""
        prompts, sound = (self.edge_prompt, lambda: self.cloud_prompt), self.grounding
        return self.pair.new_loop(self.config, prompts, self.gate, engine=engine, synonyms=SYNONYMS, grounding=sound)

    @property
    def gate(self) -> Gate:
        """The gate, with the classes that it sums over."""
        return Gate.of(self.config, Groups.of(CLASSES, self.pair.vocab_size, self.edge.device))

    def run(self, engine: Engine | None = None) -> Ran:
        """Decodes the clip, and lets later ones be guessed from it."""
        self.ran.append(self.decode(engine))
        return self.ran[-1]

    def decode(self, engine: Engine | None = None) -> Ran:
        """The same, but the run is not kept."""
        blocks, finished = collect(self.loop(engine).events())
        if self.config.decoding.guess_tokens:
            tokens = [token for block in blocks for token in block.tokens]
            ids, sources = [token.id for token in tokens], [token.source for token in tokens]
            weights = {role: model.weights for role, model in (("edge", self.edge), ("cloud", self.cloud))}
            self.pair.learn(self.config, self.config.instruction(), ids, sources, weights)
        return blocks, finished

    def remember(self) -> Self:
        """The case, with a memory of earlier captions that is empty, right, wrong or another model's, by its number."""
        memory = MEMORIES[self.number % len(MEMORIES)]
        if memory == "right":
            self.decode()
        if memory in ("empty", "right"):
            return self
        settings = self.config.decoding.model_copy(update={"guess_tokens": 1})
        config = self.config.model_copy(update={"decoding": settings})
        edge, cloud = (self.pair.guesses(role, config.instruction(), config) for role in ("edge", "cloud"))
        assert edge is not None
        rng, text = random.Random(self.number), [random.Random(self.number).randrange(256) for _ in range(500)]
        if memory == "another's" and cloud is not None:
            mode = rng.choice(("edge", "cloud"))
            text = list(collect(self.but(mode=mode, acceptance=None).loop().events())[1].token_ids)
        for guesses in filter(None, (edge, cloud)):
            guesses.table.learn(guesses.key, text, [True] * len(text))
        return self


def graphs(seed: int) -> str:
    """Every third pair has caches of fixed size; on a GPU, so have all."""
    return "on" if seed % 3 == 1 else "auto"


@cache
def cloud(seed: int) -> AudioLM:
    """One of the verifying models: depths 1 and 2, three vocabulary paddings, some with many eos ids."""
    model = tiny_model(
        100 + seed, f"cloud-{seed}", graphs=graphs(seed), vocab_size=(272, 288, 320)[seed % 3],
        layers=(1, 2, 1)[seed % 3], scale=(0.15, 0.3, 0.5)[(seed // 3) % 3],
    )  # fmt: skip
    if seed % 2:
        model.processor.eos_ids = tuple(sorted({256, *range(seed % 5, 256, 23)}))
    return model


@cache
def edge(cloud_seed: int, kind: str) -> AudioLM:
    """A drafter for `cloud(cloud_seed)`: its own weights, nearly those, or others; always padded differently."""
    target = cloud(cloud_seed)
    padded = (304, 272, 288)[cloud_seed % 3]
    fixed = graphs(cloud_seed)
    if kind == "unrelated":
        model = tiny_model(500 + cloud_seed, f"edge-{cloud_seed}", vocab_size=padded, layers=1, graphs=fixed)
    else:
        noise = {"same": 0.0, "near": 0.05, "far": 0.3}[kind]
        model = near_model(target, 900 + cloud_seed, noise, padded, fixed)
    model.processor.eos_ids = target.processor.eos_ids
    return model


WORDS: Final = (
    *("语气平静", " the voice is calm", "，", ", ", "声音低沉", "sad"),
    *("。", ". ", "？", "? ", "…", '"', "“", "”", "\n"),
    *("你", "您", " you", "If you", "随时告诉我", " let me know", "希望", "What do", "欢迎", "加油"),
    *("Human", ":", "抱歉", "无法判断", "I'm sorry, but", " I can't hear", "没有音频"),
    *("他", "the speaker ", "嗯", "well", "x"),
)


@cache
def wordy_edge(cloud_seed: int, kind: str) -> AudioLM:
    """The drafter, whose token ids read as pieces of descriptions, refusals and chatter in both languages."""
    return reading_as(WORDS, edge(cloud_seed, kind))


@lru_cache(maxsize=64)
def reading_as(pieces: Sequence[str], of: AudioLM) -> AudioLM:
    """A model, whose token ids read as some pieces of text."""
    model = copy(of)
    model.processor = copy(model.processor)
    model.processor.text = lambda ids: "".join(pieces[id_ * 7 % len(pieces)] for id_ in ids if id_ < 256)
    return model


CLAIMS: Final = (
    *(" slow", " fast", " slowly", " quickly", " leis", "urely", " rapid", " rapidly", " moderately paced"),
    *(" mod", "erate pace", " loud", " loudly", " softly", " whispering", " low pitch", " low", "-key", " monotone"),
    *(" lively", " pitch", " not", " he", " a male voice", ",", "."),
)
"""Pieces of claims and of their words; of one figure there are enough that models often part in its class."""


def drawn_sound(rng: random.Random) -> Measured:
    """Figures that fit some classes and not others; some are not known."""
    return Measured(
        f0_median_hz=rng.choice((None, 90.0, 140.0, 300.0)),
        f0_range_st=rng.choice((None, 2.0, 12.0)),
        level_dbfs=rng.choice((-45.0, -26.0, -10.0)),
        rate_per_s=rng.choice((1.5, 4.5, 7.5)),
        pause_share=rng.choice((0.0, 0.4)),
    )


@cache
def prompt(model_key: tuple[Any, ...], clip: int, instruction: int) -> Prompt:
    """The prompt of a clip for a model named by ("cloud", seed) or ("edge", seed, kind)."""
    model = cloud(model_key[1]) if model_key[0] == "cloud" else edge(model_key[1], model_key[2])
    return model.processor.prompt(tiny_clip(clip, 0.3 + 0.25 * (clip % 4)), INSTRUCTIONS[instruction])


def make_case(number: int, **fixed: Any) -> Case:
    """Case `number`; `fixed` overrides drawn settings. Tokens read as words with `closing`."""
    rng = random.Random(number)
    seed, kind = rng.randrange(9), rng.choice(("same", "near", "far", "unrelated"))
    clip, instruction = rng.randrange(8), rng.randrange(len(INSTRUCTIONS))
    given = drawn_settings(rng, **fixed)
    speaking = wordy_edge if given.get("closing") == "on" else edge
    return Case(
        number, Pair.of(speaking(seed, kind), cloud(seed)), prompt(("edge", seed, kind), clip, instruction),
        prompt(("cloud", seed), clip, instruction), given,
    )  # fmt: skip


def drawn_settings(rng: random.Random, **fixed: Any) -> dict[str, Any]:
    """Random settings by name, `fixed` ones as they are."""
    max_new_tokens = rng.randint(4, 14)
    given: dict[str, Any] = {
        "k": rng.randint(1, 8),
        "max_new_tokens": max_new_tokens,
        "min_new_tokens": min(rng.choice((0, 0, 0, 3, 9)), max_new_tokens),
        "repetition_penalty": rng.choice((1.0, 1.0, 1.2, 1.7, 0.8)),
        "no_repeat_ngram": rng.choice((0, 0, 1, 2, 3)),
        "gate": rng.choice(("entropy", "margin", "logprob", "class-entropy", "random")),
        "loop_period": rng.choice((0, 0, 8)),
        "seed": rng.randrange(1000),
    }
    given["threshold"] = threshold(rng, given["gate"])
    given["stop_drafting"] = rng.random() < 0.5
    if "gate" in fixed and "threshold" not in fixed:
        given["threshold"] = threshold(rng, fixed["gate"])
    if fixed.get("defer"):
        given["wake"] = rng.choice((None, threshold(rng, fixed.get("gate", given["gate"]))))
    return {**given, **fixed}


def threshold(rng: random.Random, gate: str) -> float | None:
    """One at which a gate escalates some blocks and keeps others; None for a gate that has none."""
    drawn = {
        "entropy": rng.uniform(0.5, 5.0),
        "margin": rng.uniform(0.02, 0.5),
        "logprob": rng.uniform(-4.0, -0.3),
        "class-entropy": rng.uniform(0.3, 1.7),
        "random": rng.uniform(0.1, 0.9),
    }
    return drawn.get(gate)


def mixed(rng: random.Random) -> dict[str, Any]:
    """Everything that `make_case` does not draw: modes, rules, sampling, stop rules, loops, lengths, threads."""
    mode = rng.choice(("hybrid", "hybrid", "hybrid", "lossless", "edge", "cloud"))
    temperature = rng.choice((0.0, 0.0, 0.7, 1.2))
    rule = None
    if mode == "hybrid":
        rule = rng.choice(("sampling" if temperature else "greedy", "rank", "prob", "typical", "class"))
    drawn: dict[str, Any] = {
        "mode": mode,
        "acceptance": rule,
        "temperature": temperature,
        "top_k": rng.choice((None, 12)),
        "top_p": rng.choice((None, 0.9)),
        "cloud_prefill": rng.choice(("lazy", "early", "overlap")),
        "stop_strings": rng.choice(((), (), tuple("aeiou"), ("Q", "zz"))),
        "sentences": rng.choice((None, None, 1)),
    }
    if rng.random() < 0.2:
        drawn["gate"] = rng.choice(("always", "never"))
    if rng.random() < 0.25:  # inclined to loop
        drawn |= {"loop_period": 8, "repetition_penalty": 0.6, "no_repeat_ngram": 0}
        drawn |= {"max_new_tokens": 18, "stop_strings": (), "sentences": None}
    if rng.random() < 0.2:
        drawn |= {"k": "auto", "cost_ratio": rng.choice((0.05, 0.2, 0.8, 2.0))}
    drawn["defer"] = rng.random() < 0.3
    return drawn


def fast(number: int) -> dict[str, Any]:
    """All settings that are there for speed at once: blocks as long as pays, and a cloud that works beside the edge."""
    rng = random.Random(f"speed {number}")
    return {
        "k": "auto",
        "cost_ratio": rng.choice((0.02, 0.15, 0.2, 0.9)),
        "cloud_prefill": rng.choice(("lazy", "early", "overlap")),
    }


class _EndsInLoop(StoppingCriteria):
    def __init__(self, length: int, decoding: DecodingConfig) -> None:
        self._length = length
        self._rule = RepetitionRule(decoding.loop_period)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        text = input_ids[0, self._length :].tolist()
        return torch.tensor([self._rule.end(text, len(text) - 1) is not None], device=input_ids.device)


def on(device: torch.device, given: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors where a module needs them."""
    return {name: values.to(device) for name, values in given.items()}


def generate(
    model: AudioLM, clip: Prompt, vocab_size: int, decoding: DecodingConfig, sound: Sound | None = None
) -> list[int]:
    """transformers' own answer for the same settings: the truth that the edge and cloud laws are measured against."""
    length = len(clip.ids)
    stops = StoppingCriteriaList()
    if decoding.loop_period:
        stops.append(_EndsInLoop(length, decoding))
    given: dict[str, Any] = {"do_sample": False}
    if decoding.sampling:
        given = {
            "do_sample": True,
            "temperature": decoding.temperature,
            "top_k": decoding.top_k or 0,
            "top_p": decoding.top_p or 1.0,
        }
    if decoding.min_new_tokens is not None:
        given["min_new_tokens"] = decoding.min_new_tokens
    if decoding.repetition_penalty is not None:
        given["repetition_penalty"] = decoding.repetition_penalty
    if decoding.no_repeat_ngram is not None:
        given["no_repeat_ngram_size"] = decoding.no_repeat_ngram
    ids = {"input_ids": torch.tensor([clip.ids]), "attention_mask": torch.ones(1, length, dtype=torch.long)}
    output = model.module.generate(
        **on(model.device, {**ids, **clip.audio}),
        max_new_tokens=decoding.max_new_tokens,
        eos_token_id=list(model.processor.eos_ids),
        pad_token_id=257,
        suppress_tokens=[*model.processor.banned_ids, *range(vocab_size, model.processor.logits_size)],
        stopping_criteria=stops,
        logits_processor=LogitsProcessorList([] if sound is None else [SoundProcessor(sound, length)]),
        **given,
    )
    tokens: list[int] = output[0, length:].tolist()
    return tokens
