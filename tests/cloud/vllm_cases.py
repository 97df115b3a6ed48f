"""Pairs of tiny Qwen2-Audio models, clips and settings for a vLLM cloud, each a pure function of its number."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from specdec_cli.cloud.vllm import Vllm
from specdec_cli.config import Config, Server
from specdec_cli.decoding.block import Block
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.pair import Pair
from specdec_cli.labels import Lexicon
from specdec_cli.labels.class_words import class_words
from specdec_cli.labels.grounding import Grounding
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Processor, Prompt
from specdec_cli.types import Finished, Measured
from tests.laws.cases import CLAIMS, drawn_sound, reading_as
from tests.support.models import near_model, tiny_audio_model, tiny_clip
from tests.tiny import collect, settings

CLOUD = {"seed": 3, "layers": 2, "vocab_size": 288}
_IN_PROCESS: dict[str, tuple[list[Block], Finished]] = {}


@cache
def cloud() -> AudioLM:
    """The model that the server runs."""
    return tiny_audio_model(**CLOUD)


@cache
def edge(kind: str) -> AudioLM:
    """A drafter, padded differently."""
    return near_model(cloud(), 78, {"same": 0.0, "near": 0.05, "far": 0.3}[kind], 272)


def clip(number: int) -> npt.NDArray[np.float32]:
    """Some clips of 16 bits, some of whole floats."""
    samples = tiny_clip(number, 0.3 + 0.21 * (number % 5))
    return samples if number % 2 else (np.round(samples * 20000) / 32768).astype(np.float32)


@cache
def prompt(processor: Processor, number: int, instruction: str) -> Prompt:
    """That of a clip, made once."""
    return processor.prompt(clip(number), instruction)


def configured(url: str, **settings: Any) -> Server:
    """The configuration of a vLLM cloud at `url`."""
    given: dict[str, Any] = {"timeout_s": 300.0, **settings}
    return Server(url=url, served_model="tiny", allow_audio_upload=True, **given)


@dataclass(frozen=True)
class VllmCase:
    """One edge, one clip, some settings by name; `measured`: figures of its sound, beside which tokens are claims."""

    kind: str
    clip: int
    instruction: str
    given: dict[str, Any]
    measured: Measured | None = None

    @property
    def config(self) -> Config:
        """The settings."""
        return settings(**self.given)

    def but(self, **changed: Any) -> VllmCase:
        """The same case with other settings."""
        return replace(self, given={**self.given, **changed})

    def heard(self) -> VllmCase:
        """The same case beside a sound."""
        return replace(self, measured=drawn_sound(random.Random(repr(self))))

    @property
    def grounding(self) -> Grounding | None:
        """The sound."""
        if (measured := self.measured) is None:
            return None
        lexicon, writer = Lexicon.shipped(), reading_as(CLAIMS, edge(self.kind)).processor
        return Grounding(lexicon, "en", measured, class_words(lexicon, lexicon.measured, writer))

    def run(self, link: Vllm | None = None) -> tuple[list[Block], Finished]:
        """Decodes the clip with the cloud behind `link`; or in this process, which is done once."""
        if link is None and repr(self) in _IN_PROCESS:
            return _IN_PROCESS[repr(self)]
        drafter = edge(self.kind)
        pair = Pair.of(drafter, link or cloud())
        mine, theirs = (prompt(each.processor, self.clip, self.instruction) for each in (drafter, link or cloud()))
        gate = Gate.of(self.config)
        ran = collect(pair.new_loop(self.config, (mine, lambda: theirs), gate, grounding=self.grounding).events())
        if link is None:
            _IN_PROCESS[repr(self)] = ran
        return ran


def outcome(rounds: list[Block], finished: Finished) -> tuple[Any, ...]:
    """What must be the same wherever the cloud is."""
    return (
        finished.token_ids,
        finished.finish_reason,
        [(round_.draft_ids, round_.reason, round_.accepted, round_.committed_ids, round_.source) for round_ in rounds],
    )
