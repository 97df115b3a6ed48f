"""Pairs of tiny Qwen2-Audio models, clips and settings for a vLLM cloud, each a pure function of its number."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from specdec_cli.cloud.link import CloudLink
from specdec_cli.config import CloudConfig
from specdec_cli.decoding.build import Pair, build_engine
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.models.qwen2_audio import Qwen2Audio
from specdec_cli.types import Finished, Round
from tests.laws.cases import INSTRUCTIONS, collect, drawn_options
from tests.tiny import tiny_clip
from tests.tiny_qwen2_audio import near_audio_model, tiny_audio_model

CLOUD = {"seed": 3, "layers": 2, "vocab_size": 288}
KINDS = ("same", "near", "far", "unrelated")


@cache
def cloud() -> Qwen2Audio:
    """The model that the server runs."""
    return tiny_audio_model(**CLOUD)


@cache
def edge(kind: str) -> Qwen2Audio:
    """A drafter, padded differently."""
    if kind == "unrelated":
        return tiny_audio_model(77, layers=1, vocab_size=304)
    return near_audio_model(cloud(), 78, {"same": 0.0, "near": 0.05, "far": 0.3}[kind], 272)


def clip(number: int) -> npt.NDArray[np.float32]:
    """Some clips of 16 bits, some of whole floats."""
    samples = tiny_clip(number, 0.3 + 0.21 * (number % 5))
    return samples if number % 2 else (np.round(samples * 20000) / 32768).astype(np.float32)


def configured(url: str, **settings: Any) -> CloudConfig:
    """The configuration of a vLLM cloud at `url`."""
    given: dict[str, Any] = {"timeout_s": 60.0, **settings}
    return CloudConfig(engine="vllm", url=url, model="tiny", allow_audio_upload=True, **given)


@dataclass(frozen=True)
class VllmCase:
    """One edge, one clip, one set of options."""

    kind: str
    clip: int
    instruction: str
    options: DecodingOptions

    def run(self, link: CloudLink | None = None) -> tuple[list[Round], Finished]:
        """Decodes the clip with the cloud behind `link`, or in this process."""
        drafter, waveform = edge(self.kind), clip(self.clip)
        inputs = drafter.build_prompt(self.instruction, drafter.features(waveform))
        heard = replace(inputs, waveform=waveform)
        if link is None:
            heard = cloud().build_prompt(self.instruction, cloud().features(waveform))
        pair = Pair.of(drafter, link or cloud())
        return collect(build_engine(pair, self.options, inputs, heard).run())


def case(number: int, **fixed: Any) -> VllmCase:
    """Case `number`; `fixed` overrides drawn options."""
    rng = random.Random(number)
    served: dict[str, Any] = {"repetition_penalty": 1.0, "no_repeat_ngram": 0, "min_new_tokens": 0}
    served["mode"] = rng.choice(("lossless", "hybrid"))
    if served["mode"] == "hybrid" and rng.random() < 0.4:
        served |= {"acceptance": "rank", "rank": rng.randint(1, 6)}
    options, _ = drawn_options(rng, **{**served, **fixed})
    return VllmCase(rng.choice(KINDS), rng.randrange(10), rng.choice(INSTRUCTIONS), options)


def outcome(rounds: list[Round], finished: Finished) -> tuple[Any, ...]:
    """What must be the same wherever the cloud is."""
    return (
        finished.token_ids,
        finished.finish_reason,
        [(round_.draft_ids, round_.reason, round_.accepted, round_.committed_ids, round_.source) for round_ in rounds],
    )
