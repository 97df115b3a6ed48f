"""The result of a benchmark, put together from what was measured."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np

from specdec_cli.bench.clips import Clip
from specdec_cli.bench.formulas import Reading, expected_speedup, median, tokens_per_round
from specdec_cli.bench.machine import describe_machine
from specdec_cli.bench.result import (
    Bench,
    Contender,
    ContenderTime,
    Expected,
    Memory,
    Overhead,
    Speedup,
    StepName,
    StepTime,
)
from specdec_cli.bench.run import Measurements
from specdec_cli.bench.steps import Measured, block_of
from specdec_cli.bench.taken import Taken
from specdec_cli.captioner import Captioner
from specdec_cli.compare.result import Spread
from specdec_cli.decoding.build import gate_of

TEXT_OF: Final[Mapping[Contender, Contender]] = {
    "edge": "generate-edge",
    "cloud": "generate-cloud",
    "lossless": "generate-cloud",
    "generate-assisted": "generate-cloud",
}
"""Whose text must be whose."""

_COMPARED: Final[tuple[tuple[Contender, Contender], ...]] = (
    ("edge", "generate-edge"),
    ("cloud", "generate-cloud"),
    ("lossless", "cloud"),
    ("lossless", "generate-cloud"),
    ("lossless", "generate-assisted"),
    ("hybrid", "cloud"),
    ("hybrid", "edge"),
    ("hybrid", "generate-cloud"),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What was measured, and how it was asked for."""

    command: str
    config: str
    captioner: Captioner
    clips: Sequence[Clip]
    rounds: int


def build_result(subject: Subject, found: Measurements, memory: Memory) -> Bench:
    """The object that `--json` prints."""
    config = subject.captioner.config
    times = [_contender(name, found, len(subject.clips)) for name in found.taken]
    speedups = [_speedup(own, other, found) for own, other in _COMPARED if {own, other} <= found.taken.keys()]
    steps = [time for name in get_args(StepName) if (time := _step(name, found.steps))]
    return Bench(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=subject.command,
        config=subject.config,
        machine=describe_machine(),
        models=subject.captioner.setup.models,
        k=config.decoding.k,
        gate=gate_of(config),
        clips=[clip.file for clip in subject.clips],
        audio_s=sum(clip.duration_s for clip in subject.clips),
        language=subject.captioner.setup.language,
        rounds=subject.rounds,
        steps=steps,
        contenders=times,
        speedups=speedups,
        expected=expected(found, steps, block_of(config.decoding.k)),
        memory=memory,
        notes=found.notes,
    )


def expected(found: Measurements, steps: Sequence[StepTime], k: int) -> Expected | None:
    """What the acceptance and the cost of single forwards promise for lossless; None where they are not known."""
    ms = {step.name: step.ms.value for step in steps}
    lossless = found.taken["lossless"]
    judged = sum(taken.judged for taken in lossless)
    if not judged or "verification" not in ms:
        return None
    acceptance = sum(taken.passed for taken in lossless) / judged
    cost, verification = ms["edge-step"] / ms["cloud-step"], ms["verification"] / ms["cloud-step"]
    speedup = expected_speedup(acceptance, k, cost, verification)
    tokens = float(np.mean([len(taken.ids) for taken in found.taken["cloud"]]))
    reading = Reading(
        ms["edge-tower"] + ms["edge-prefill"], ms["cloud-tower"] + ms["cloud-prefill"], tokens * ms["cloud-step"]
    )
    measured = _ratios(found, "lossless", "cloud", _decoding_speed).value
    return Expected(
        k=k,
        acceptance=acceptance,
        cost_ratio=cost,
        verification_ratio=verification,
        tokens_per_round=tokens_per_round(acceptance, k),
        speedup=speedup,
        measured=measured,
        missing=1 - measured / speedup,
        of_a_clip=reading.of_a_clip(speedup),
    )


def _contender(name: Contender, found: Measurements, clips: int) -> ContenderTime:
    runs = found.taken[name]
    other = TEXT_OF.get(name)
    theirs = found.taken.get(other) if other else None
    return ContenderTime(
        name=name,
        clip_ms=median([run.wall_ms for run in runs]),
        tokens_per_s=median([run.tokens_per_s for run in runs]),
        decoding_tokens_per_s=median([run.decoding_tokens_per_s for run in runs]),
        overhead=_overhead(runs),
        tokens=sum(len(run.ids) for run in runs[:clips]),
        equals=other if theirs else None,
        equal=all(run.ids == their.ids for run, their in zip(runs, theirs, strict=True)) if theirs else None,
    )


def _overhead(runs: Sequence[Taken]) -> Overhead | None:
    total = [value for run in runs if (value := run.overhead) is not None]
    decoding = [value for run in runs if (value := run.decoding_overhead) is not None]
    per_token = [ms / len(run.ids) for run in runs if (ms := run.overhead_ms) is not None]
    if not decoding:
        return None
    return Overhead(total=median(total), decoding=median(decoding), ms_per_token=median(per_token))


def _speedup(own: Contender, other: Contender, found: Measurements) -> Speedup:
    return Speedup(
        name=own,
        against=other,
        total=_ratios(found, own, other, lambda run: run.tokens_per_s),
        decoding=_ratios(found, own, other, _decoding_speed),
    )


def _decoding_speed(run: Taken) -> float:
    return run.decoding_tokens_per_s


def _ratios(found: Measurements, own: Contender, other: Contender, speed: Callable[[Taken], float]) -> Spread:
    """The median ratio of two contenders on the same clip in the same round."""
    pairs = zip(found.taken[own], found.taken[other], strict=True)
    return median([speed(run) / speed(their) for run, their in pairs])


def _step(name: StepName, steps: Sequence[Measured]) -> StepTime | None:
    own = [step for step in steps if step.name == name]
    if not own:
        return None
    return StepTime(
        name=name,
        ms=median([step.ms for step in own]),
        tokens=sum(step.tokens for step in own) / len(own),
        measured=len(own),
    )
