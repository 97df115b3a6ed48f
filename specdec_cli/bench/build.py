"""The result of a benchmark, put together from what was measured."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final, get_args

import psutil
import torch

import specdec_cli
from specdec_cli.bench.advice import suggestions
from specdec_cli.bench.clips import Clip
from specdec_cli.bench.formulas import expected_speedup, median, speedup_of_a_clip, tokens_per_round
from specdec_cli.bench.result import (
    Bench,
    Contender,
    ContenderTime,
    Expected,
    Machine,
    Memory,
    StepName,
    StepTime,
    Trial,
)
from specdec_cli.bench.run import Measurements
from specdec_cli.bench.timing import Measured, Timing, block_of
from specdec_cli.captioner import Captioner
from specdec_cli.config import ResolvedConfig
from specdec_cli.metrics.bootstrap import Interval

EQUAL_TO: Final[Mapping[Contender, Contender]] = {
    "edge": "generate-edge",
    "cloud": "generate-cloud",
    "lossless": "generate-cloud",
}
"""Modes whose tokens equal those of `generate`."""


def build_result(
    command: str,
    config: ResolvedConfig,
    captioner: Captioner,
    clips: Sequence[Clip],
    found: Measurements,
    trials: Sequence[Trial],
    memory: Memory,
) -> Bench:
    """The object that `--json` prints, of a captioner in mode hybrid and what was measured on `clips`."""
    decoding = captioner.config.decoding
    k = "deferred" if decoding.defers else decoding.k
    steps = [time for name in get_args(StepName) if (time := _step(name, found.steps))]
    tokens = round(sum(len(run.ids) for run in found.timings["cloud"]) / len(found.timings["cloud"]))
    expected = _expected(found, steps, block_of(decoding, tokens))
    return Bench(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=command,
        config=str(config.path),
        machine=describe_machine(),
        models=captioner.setup.models,
        k=k,
        gate=captioner.config.gate_in_force,
        clips=[clip.file for clip in clips],
        audio_s=sum(clip.duration_s for clip in clips),
        language=captioner.setup.language,
        rounds=found.rounds,
        steps=steps,
        contenders=[_contender(name, found.timings, len(clips)) for name in found.timings],
        expected=expected,
        trials=list(trials),
        suggestions=list(suggestions(expected, trials, k)),
        memory=memory,
        notes=found.notes,
    )


def _expected(found: Measurements, steps: Sequence[StepTime], k: int) -> Expected | None:
    """What acceptance and the cost of single forwards promise for lossless; None where they are not known."""
    ms = {step.name: step.ms.value for step in steps}
    lossless, cloud = found.timings["lossless"], found.timings["cloud"]
    judged = sum(run.judged for run in lossless)
    if not judged or "verification" not in ms:
        return None
    acceptance = sum(run.accepted for run in lossless) / judged
    cost, verification = ms["edge-step"] / ms["cloud-step"], ms["verification"] / ms["cloud-step"]
    speedup = expected_speedup(acceptance, k, cost, verification)
    return Expected(
        k=k,
        acceptance=acceptance,
        cost_ratio=cost,
        verification_ratio=verification,
        tokens_per_round=tokens_per_round(acceptance, k),
        speedup=speedup,
        measured=_ratio(lossless, cloud, lambda run: run.decoding_tokens_per_s).value,
        of_a_clip=speedup_of_a_clip(
            speedup,
            edge_prefill=ms["edge-tower"] + ms["edge-prefill"],
            cloud_prefill=ms["cloud-tower"] + ms["cloud-prefill"],
            cloud_steps=ms["cloud-step"] * sum(len(run.ids) for run in cloud) / len(cloud),
        ),
    )


def _contender(name: Contender, timings: Mapping[Contender, Sequence[Timing]], clips: int) -> ContenderTime:
    runs, cloud = timings[name], timings["cloud"]
    equal_to = timings.get(EQUAL_TO[name]) if name in EQUAL_TO else None
    replaced = equal_to or (timings.get("generate-cloud") if name == "hybrid" else None)
    published = None if name in ("edge", "generate-edge") else timings.get("published-cloud")
    overhead = [run.overhead for run in runs if run.overhead is not None]
    return ContenderTime(
        name=name,
        clip_ms=median([run.wall_ms for run in runs]),
        tokens_per_s=median([run.tokens_per_s for run in runs]),
        decoding_tokens_per_s=median([run.decoding_tokens_per_s for run in runs]),
        overhead=median(overhead) if overhead else None,
        to_cloud=_ratio(runs, cloud, lambda run: run.tokens_per_s),
        decoding_to_cloud=_ratio(runs, cloud, lambda run: run.decoding_tokens_per_s),
        to_generate=_ratio(runs, replaced, lambda run: run.tokens_per_s) if replaced else None,
        to_published=_ratio(runs, published, lambda run: run.tokens_per_s) if published else None,
        tokens=sum(len(run.ids) for run in runs[:clips]),
        equal=all(run.ids == other.ids for run, other in zip(runs, equal_to, strict=True)) if equal_to else None,
    )


def _ratio(runs: Sequence[Timing], others: Sequence[Timing], speed: Callable[[Timing], float]) -> Interval:
    """The median ratio of two contenders on the same clip in the same round."""
    return median([speed(run) / speed(other) for run, other in zip(runs, others, strict=True)])


def _step(name: StepName, steps: Sequence[Measured]) -> StepTime | None:
    own = [step for step in steps if step.name == name]
    if not own:
        return None
    tokens = sum(step.tokens for step in own) / len(own)
    return StepTime(name=name, ms=median([step.ms for step in own]), tokens=tokens, measured=len(own))


def describe_machine() -> Machine:
    """This machine, as it is now."""
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count(),
        threads=torch.get_num_threads(),
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=version("transformers"),
        specdec=specdec_cli.__version__,
    )


def _processor() -> str:
    """The processor's name; Linux keeps it in a file, `platform` knows it elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
