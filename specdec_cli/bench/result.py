"""The object that `specdec bench --json` prints.

Times are wall-clock. A figure with an interval is a median over single measurements with the percentile bootstrap
interval of that median. A figure that was not measured is null, never 0.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from specdec_cli.metrics.bootstrap import Figures, Interval
from specdec_cli.transcript.schema import Models

Contender = Literal["edge", "cloud", "lossless", "hybrid", "generate-edge", "generate-cloud", "published-cloud"]
"""The four modes, transformers' `generate` on either model as it is loaded, and on the cloud as transformers runs it.

The last one is there where specdec multiplies otherwise: with other kernels, or an encoder in fewer bits.
"""

StepName = Literal[
    "edge-tower", "edge-prefill", "edge-step", "cloud-tower", "cloud-prefill", "cloud-step", "verification"
]


class Machine(Figures):
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


class StepTime(Figures):
    """One kind of forward, measured apart from the loop."""

    name: StepName
    ms: Interval = Field(description="median, ms")
    tokens: float = Field(description="tokens in one forward, mean")
    measured: int = Field(description="number of measurements")


class ContenderTime(Figures):
    """One way to caption the same clips."""

    name: Contender
    clip_ms: Interval = Field(description="a clip, ms: audio encoding and prefill included, reading the file left out")
    tokens_per_s: Interval = Field(description="tokens / the time of a clip")
    decoding_tokens_per_s: Interval = Field(description="the same after audio encoding and prefill")
    overhead: Interval | None = Field(description="time of a clip / sum of its forwards - 1; null: they were not timed")
    to_cloud: Interval = Field(description="speed-up of a clip over cloud-only, paired by clip and round")
    decoding_to_cloud: Interval = Field(description="the same after audio encoding and prefill")
    to_generate: Interval | None = Field(description="speed-up of a clip over `generate` of the model that it replaces")
    to_published: Interval | None = Field(description="the same over `published-cloud`; null: it was not measured")
    tokens: int = Field(description="of one round over all clips, eos included")
    equal: bool | None = Field(description="tokens equal to those of `generate` on every clip; null: they need not be")


class Expected(Figures):
    """What speculative decoding should gain (Leviathan et al. 2023, theorem 3.8) beside what it gains."""

    k: int
    acceptance: float = Field(description="alpha: accepted / verified tokens, up to the first that is rejected")
    cost_ratio: float = Field(description="c: edge step / cloud step")
    verification_ratio: float = Field(description="v: verification of k + 1 positions / cloud step")
    tokens_per_round: float = Field(description="(1 - alpha^(k+1)) / (1 - alpha)")
    speedup: float = Field(description="tokens_per_round / (k c + v), over the cloud's bare steps")
    measured: float = Field(description="lossless over cloud-only in this loop, after audio encoding and prefill")
    of_a_clip: float = Field(description="what is left of `speedup` for a clip with its audio encoding and prefill")


class Trial(Figures):
    """A value of a setting, tried on this machine."""

    setting: str = Field(description="runtime.threads, or dtype or encoder_dtype of edge or cloud")
    value: int | str
    ms: Interval = Field(
        description="forwards of two blocks; one and k + 1 rows times the largest matrix; the encoder over a clip"
    )


class Suggestion(Figures):
    """A setting that is faster here."""

    option: str = Field(description="as the command line takes it")
    speedup: float = Field(description="of what `why` names")
    why: str


class Memory(Figures):
    """Where the memory is, MiB."""

    libraries_mb: float = Field(description="resident before the models were loaded")
    edge_weights_mb: float
    cloud_weights_mb: float
    caches_mb: float = Field(description="keys and values of a clip in both models, at their full length")
    unaccounted_mb: float | None = Field(description="peak less all of the above; null on a GPU")
    peak_mb: float | None = Field(description="largest resident memory of the process")
    gpu_peak_mb: float | None


class Bench(Figures):
    """Everything that one run of the benchmark found."""

    schema_: Literal[2] = Field(default=2, alias="schema")
    date: str = Field(description="UTC, ISO 8601")
    command: str
    config: str
    machine: Machine
    models: Models
    k: int | str = Field(
        description="drafted tokens of a block; auto: single forwards are measured at 5; deferred: at whole captions"
    )
    gate: str
    clips: list[str]
    audio_s: float
    language: str
    rounds: int
    steps: list[StepTime]
    contenders: list[ContenderTime]
    expected: Expected | None = Field(description="null: nothing was drafted for the cloud")
    trials: list[Trial] = Field(description="of each setting, the present value first")
    suggestions: list[Suggestion]
    memory: Memory
    notes: list[str]
