"""What a benchmark found: the object that `specdec bench --json` prints.

Times are wall-clock. A figure with a spread is a median over single measurements with the percentile bootstrap
interval of that median. A figure that was not measured is null, never 0.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from specdec_cli.compare.result import Spread
from specdec_cli.transcript.schema import Models

Contender = Literal["edge", "cloud", "lossless", "hybrid", "generate-edge", "generate-cloud", "generate-assisted"]
"""Our four modes, and transformers' `generate` on the edge, on the cloud, and on the cloud with the edge assisting."""

StepName = Literal[
    "edge-tower", "edge-prefill", "edge-step", "cloud-tower", "cloud-prefill", "cloud-step", "verification"
]


class Part(BaseModel):
    """A part of a result: it does not change, and says nothing that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Machine(Part):
    """Where it was measured."""

    system: str
    processor: str
    cores: int | None = Field(description="logical processors")
    threads: int = Field(description="threads that PyTorch computes with")
    memory_gib: float
    gpu: str | None
    python: str
    torch: str
    transformers: str
    specdec: str


class StepTime(Part):
    """One kind of work of the models, measured apart from the loop."""

    name: StepName
    ms: Spread = Field(description="median, ms")
    tokens: float = Field(description="tokens fed at once, mean")
    measured: int = Field(description="how often")


class Overhead(Part):
    """What comes on top of the models' forwards."""

    total: Spread = Field(description="wall / sum of the forwards, audio tower and prefill included, - 1; of a clip")
    decoding: Spread = Field(description="the same without audio tower and prefill")
    ms_per_token: Spread = Field(description="(wall - sum of the forwards) / committed tokens, ms")


class ContenderTime(Part):
    """One way to caption the same clips."""

    name: Contender
    clip_ms: Spread = Field(description="a clip, ms: audio towers and prefills included, reading the file left out")
    tokens_per_s: Spread = Field(description="tokens / the time of all clips")
    decoding_tokens_per_s: Spread = Field(description="the same behind the audio towers and prefills")
    overhead: Overhead | None = Field(description="null: its forwards were not timed one by one")
    tokens: int = Field(description="of one round over all clips, eos included")
    equals: Contender | None = Field(description="whose tokens it has to equal; null: nobody's")
    equal: bool | None = Field(description="whether it did, on every clip; null: it need not")
    note: str | None = None


class Speedup(Part):
    """One contender against another on the same clips."""

    name: Contender
    against: Contender
    total: Spread = Field(description="times as many tokens per second")
    decoding: Spread = Field(description="the same behind the audio towers and prefills")


class Expected(Part):
    """What speculative decoding should gain (Leviathan et al. 2023, theorem 3.8) beside what it gains."""

    k: int
    acceptance: float = Field(description="alpha: of the drafted tokens that were judged, the share that passed")
    cost_ratio: float = Field(description="c: edge step / cloud step")
    verification_ratio: float = Field(description="v: verification of k + 1 positions / cloud step")
    tokens_per_round: float = Field(description="(1 - alpha^(k+1)) / (1 - alpha)")
    speedup: float = Field(description="tokens_per_round / (k c + v), over the cloud's bare steps")
    measured: float = Field(description="lossless over cloud-only in this loop, decoding")
    missing: float = Field(description="1 - measured / speedup: what the formula leaves out, such as short last rounds")
    of_a_clip: float = Field(description="what is left of `speedup` when towers and prefills are paid, expected")


class Memory(Part):
    """Where the memory is, MiB."""

    edge_weights_mb: float
    cloud_weights_mb: float
    edge_cache_mb: float = Field(description="keys and values of one clip, at their full capacity; mean over clips")
    cloud_cache_mb: float
    features_mb: float = Field(description="log-mel features of one clip, mean")
    logits_mb: float = Field(description="largest scores of one forward: (k + 1) x vocabulary, float32")
    prompt_logits_mb: float = Field(description="what scoring a whole prompt would take, and is never done")
    libraries_mb: float = Field(description="resident before the models were loaded")
    peak_mb: float | None = Field(description="largest resident memory of the process")
    unaccounted_mb: float | None = Field(description="peak less libraries, weights, caches, features and logits")
    gpu_peak_mb: float | None


class Bench(Part):
    """Everything that one run of the benchmark found."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    date: str = Field(description="UTC, ISO 8601")
    command: str
    config: str
    machine: Machine
    models: Models
    k: int | str = Field(description="drafted tokens a block, or auto; single forwards are then measured at 5")
    gate: str
    clips: list[str]
    audio_s: float
    language: str
    rounds: int
    steps: list[StepTime]
    contenders: list[ContenderTime]
    speedups: list[Speedup]
    expected: Expected | None = Field(description="null: nothing was drafted for the cloud")
    memory: Memory
    notes: list[str]
