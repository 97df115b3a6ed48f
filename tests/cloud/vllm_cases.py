"""Pairs of tiny Qwen2-Audio models, clips and settings for a vLLM cloud, each a pure function of its number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from specdec_cli.cloud.vllm import Vllm
from specdec_cli.config import Server
from specdec_cli.decoding.block import Block
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Processor, Prompt
from specdec_cli.types import Finished
from tests.laws.cases import SYNONYMS, Case, Ran
from tests.support.models import near_model, tiny_audio_model, tiny_clip
from tests.tiny import collect

CLOUD = {"seed": 3, "layers": 2, "vocab_size": 288}


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
class VllmCase(Case):
    """A case whose clip and instruction any model can be sent."""

    clip: int = 0
    instruction: str = ""

    def behind(self, pair: Pair) -> Loop:
        """A fresh loop over the clip by models at servers."""
        assert pair.edge is not None
        assert pair.cloud is not None
        mine, theirs = (prompt(each.processor, self.clip, self.instruction) for each in (pair.edge, pair.cloud))
        gate = Gate.of(self.config)
        return pair.new_loop(self.config, (mine, lambda: theirs), gate, synonyms=SYNONYMS, grounding=self.grounding)

    def through(self, link: Vllm) -> Ran:
        """Decodes the clip with the cloud behind `link`."""
        return collect(self.behind(Pair.of(self.edge, link)).events())


def vllm_case(number: int, kind: str, clip: int, instruction: str, given: dict[str, Any]) -> VllmCase:
    """A case with models of this process."""
    models = edge(kind), cloud()
    prompts = (prompt(model.processor, clip, instruction) for model in models)
    return VllmCase(number, Pair.of(*models), *prompts, given, clip=clip, instruction=instruction)


def outcome(rounds: list[Block], finished: Finished) -> tuple[Any, ...]:
    """What must be the same wherever the cloud is."""
    return (
        finished.token_ids,
        finished.finish_reason,
        [(round_.draft_ids, round_.reason, round_.accepted, round_.committed_ids, round_.source) for round_ in rounds],
    )
