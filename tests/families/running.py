"""Loaded tiny models of every family, and runs of the loop on them."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
import torch

from specdec_cli.config import CloudConfig, Config, DecodingConfig, EdgeConfig, ModelConfig
from specdec_cli.decoding.assemble import Pair, build_loop, stop_ids_of
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.loading import load_model
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from specdec_cli.models.shared import Shared
from specdec_cli.types import Finished
from tests.families.checkpoints import KINDS, write
from tests.families.equality import Settings, assert_agree

Samples: TypeAlias = npt.NDArray[np.float32]
NOISES = {"same": 0.0, "near": 0.05, "far": 0.3}
SECONDS = (0.1, 0.4, 0.9, 1.7, 3.2)
KINDS_OF_EDGE = tuple(NOISES)
TEXTS = ("say how", "描述声音", "tone? abab abab", "")

_folder = tempfile.TemporaryDirectory(prefix="specdec-families-")  # removed when the process ends


@cache
def model(family: str, seed: int, kind: str = "same") -> AudioLM:
    """A loaded checkpoint; all of one family and seed have nearly the same weights, unless `kind` is "far"."""
    path = Path(_folder.name) / f"{family}-{seed}-{kind}"
    write(path, KINDS[family], seed, NOISES[kind])
    return load_model(ModelConfig(model=str(path), device="cpu"), offline=True)


@cache
def prompt(of: AudioLM, clip: int, instruction: str = "say how") -> Prompt:
    """A clip and an instruction, ready for a model."""
    return of.processor.prompt(sound(clip, SECONDS[clip % len(SECONDS)]), instruction)


def sound(seed: int, seconds: float) -> Samples:
    """A noisy glide at 16 kHz, another one for every seed."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * 16000)) / 16000
    glide = np.sin(2 * np.pi * (rng.uniform(80, 400) * t + rng.uniform(-200, 400) * t**2))
    return (0.3 * glide + 0.05 * rng.standard_normal(len(t))).astype(np.float32)


def config(**decoding: Any) -> Config:
    """Settings without loop rule, so that texts are those of `generate()`."""
    return Config(
        edge=EdgeConfig(model="edge"),
        cloud=CloudConfig(model="cloud"),
        decoding=DecodingConfig(**{"loop_period": 0, "repetition_penalty": 1.0, "no_repeat_ngram": 0} | decoding),
    )


@dataclass(frozen=True)
class Case:
    """One pair, clip and set of options.

    Attributes:
        judge: the model whose `generate()` the text has to equal.
        prompts: the clip's, for edge and cloud.
    """

    name: str
    pair: Pair
    config: Config
    judge: AudioLM
    prompts: tuple[Prompt, Prompt]

    @property
    def prompt(self) -> Prompt:
        """The judge's."""
        return self.prompts[self.judge is self.pair.cloud]

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end the text."""
        return stop_ids_of(self.pair, self.config)

    @property
    def banned(self) -> list[int]:
        """Ids that are never generated: placeholders, and whatever the two models do not share."""
        return banned(self.judge, self.pair.vocab_size)

    def settings(self) -> Settings:
        """For cache-free scores."""
        decoding = self.config.decoding
        return Settings(decoding.repetition_penalty or 1.0, decoding.no_repeat_ngram or 0, self.banned)

    def run(self, shared: Shared | None = None) -> Finished:
        """The loop's last event."""
        edge, cloud = self.prompts
        *_, finished = build_loop(self.pair, self.config, edge, cloud, shared=shared).run()
        assert isinstance(finished, Finished)
        return finished

    def generated(self) -> list[int]:
        """The text of transformers' own `generate()`."""
        decoding = self.config.decoding
        return generate(
            self.judge,
            self.prompt,
            suppress_tokens=self.banned,
            eos_token_id=list(self.stop_ids),
            max_new_tokens=decoding.max_new_tokens,
            repetition_penalty=decoding.repetition_penalty,
            no_repeat_ngram_size=decoding.no_repeat_ngram,
        )


def drawn_case(family: str, number: int, mode: Literal["edge", "lossless"]) -> Case:
    """Case `number` of a family; in mode edge the edge alone, else every block is verified."""
    rng = random.Random(number)
    seed, kind, clip, instruction = rng.randrange(2), rng.choice(KINDS_OF_EDGE), rng.randrange(10), rng.choice(TEXTS)
    settings = {
        "k": rng.randint(1, 8),
        "max_new_tokens": rng.randint(4, 20),
        "repetition_penalty": rng.choice((1.0, 1.0, 1.2, 1.7, 0.8)),
        "no_repeat_ngram": rng.choice((0, 0, 2, 3)),
    }
    edge, cloud = model(family, seed, kind), model(family, seed)
    pair = Pair.of(edge, cloud if mode == "lossless" else None)
    prompts = (prompt(edge, clip, instruction), prompt(cloud, clip, instruction))
    name = f"{family} {number}: {kind}, clip {clip}, {settings}"
    return Case(name, pair, config(mode=mode, **settings), cloud if mode == "lossless" else edge, prompts)


def banned(of: AudioLM, vocab_size: int) -> list[int]:
    """Ids that a model must not generate."""
    return [*of.processor.banned_ids, *range(vocab_size, of.processor.rows)]


@torch.inference_mode()
def generate(of: AudioLM, made: Prompt, **settings: Any) -> list[int]:
    """The new tokens of the module's own `generate()`, greedy."""
    ids = torch.tensor([made.ids])
    output = of.module.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        **made.audio,
        do_sample=False,
        pad_token_id=0,
        **settings,
    )
    tokens: list[int] = output[0, len(made.ids) :].tolist()
    return tokens


@dataclass(frozen=True)
class Scored:
    """One call of `Session.logits`."""

    session: Session
    text: tuple[int, ...]
    positions: int
    scores: torch.Tensor


@contextmanager
def recording() -> Iterator[list[Scored]]:
    """Collects what sessions answer within the block."""
    calls: list[Scored] = []
    original = Session.logits

    def logits(self: Session, text: Sequence[int], positions: int = 1) -> torch.Tensor:
        scores = original(self, text, positions)
        calls.append(Scored(self, tuple(text), positions, scores.clone()))
        return scores

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "logits", logits)
        yield calls


def assert_recorded(calls: Sequence[Scored], judge: AudioLM, whole: torch.Tensor, text: Sequence[int]) -> None:
    """What the judge scored along `text` equals `whole` [len(text) + 1, rows], from one forward without a cache."""
    ours, theirs = [], []
    for call in calls:
        first = len(call.text) - call.positions + 1
        for at in range(first, len(call.text) + 1):
            if call.session.model is judge and at <= len(text) and call.text[:at] == tuple(text[:at]):
                ours.append(call.scores[at - first])
                theirs.append(whole[at, : len(ours[-1])])
    assert ours
    assert_agree(torch.stack(ours), torch.stack(theirs))
