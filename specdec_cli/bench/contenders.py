"""What a clip costs in every mode on this machine: the object that `specdec bench --json` prints.

Times are wall-clock. A figure with an interval is a median over single measurements with the percentile bootstrap
interval of that median. A figure that was not measured is null, never 0.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal

import psutil
import torch
from pydantic import Field

import specdec_cli
from specdec_cli.bench.pays import advice
from specdec_cli.bench.timing import BenchClip, CaptionTiming, caption, generate
from specdec_cli.captioner import Captioner
from specdec_cli.config import ResolvedConfig
from specdec_cli.errors import ConfigError, first_line
from specdec_cli.evaluate.modes import MODES, in_mode, turns
from specdec_cli.stats import Figures, Interval, median
from specdec_cli.transcript.records import Models

Contender = Literal["edge", "cloud", "lossless", "hybrid", "generate-edge", "generate-cloud"]
"""The four modes, and transformers' `generate` on either model as it is loaded."""

_Contend = Callable[[BenchClip], CaptionTiming]
_EQUAL_TO: Final[dict[Contender, Contender]] = {
    "edge": "generate-edge",
    "cloud": "generate-cloud",
    "lossless": "generate-cloud",
}
"""Modes whose tokens equal those of `generate`."""


class Machine(Figures):
    """The machine and the libraries of a benchmark."""

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


class ContenderTime(Figures):
    """One way to caption the same clips."""

    name: Contender
    clip_ms: Interval = Field(description="a clip, ms: audio encoding and prefill included, reading the file left out")
    tokens_per_s: Interval = Field(description="tokens / the time of a clip")
    escalated: float | None = Field(description="share of blocks that the cloud verified; null: a single model")
    woken: float | None = Field(description="share of clips that called the cloud; null: a single model")
    cloud_time: float | None = Field(description="the cloud's forwards, as a share of cloud-only's; null: not timed")
    saved: float | None = Field(description="share of forwards that guesses saved; null: it makes none")
    overhead: Interval | None = Field(description="time of a clip / time of its forwards - 1; null: not timed")
    to_cloud: Interval = Field(description="speed-up of a clip over cloud-only, paired by clip and round")
    to_generate: Interval | None = Field(description="speed-up of a clip over `generate` of the model that it replaces")
    tokens: int = Field(description="of one round over all clips, eos included")
    equal: bool | None = Field(description="tokens equal to those of `generate` on every clip; null: they need not be")


class Bench(Figures):
    """Everything that one run of the benchmark found."""

    schema_: Literal[5] = Field(default=5, alias="schema")
    date: str = Field(description="UTC, ISO 8601")
    command: str
    config: str
    machine: Machine
    models: Models
    k: int | str = Field(description="drafted tokens of a block; auto; or deferred: whole captions")
    gate: str
    clips: list[str]
    audio_s: float
    language: str
    rounds: int
    contenders: list[ContenderTime]
    notes: list[str]


def benchmark(
    both: Captioner, clips: Sequence[BenchClip], rounds: int, done: Callable[[], None]
) -> tuple[dict[Contender, list[CaptionTiming]], list[str]]:
    """Times clips with a captioner in mode hybrid that is `comparable`: what each contender took, and notes on it.

    Entry i of one contender and of another are of the same clip in the same round. A first run allocates memory and
    picks kernels, so each contender captions the first clip once before anything counts; a `generate` that does not run
    there is left out and noted. In each round the modes begin with the guesses that ship. `done` is called after each
    clip that all contenders have captioned.

    Raises:
        ConfigError: the cloud is remote.
    """
    if len(both.pair.loaded) != 2:
        hint = "Configure a cloud that is loaded here, not one behind an address."
        raise ConfigError("The benchmark needs edge and cloud in this process.", hint=hint)
    (edge, cloud), settings, notes = both.pair.loaded, both.config.decoding, list[str]()
    contenders = _modes(both)
    contenders["generate-edge"] = lambda clip: generate(edge, clip.edge, settings)
    contenders["generate-cloud"] = lambda clip: generate(cloud, clip.cloud, settings)
    for name, contend in list(contenders.items()):
        try:
            contend(clips[0])
        except Exception as error:
            if name in MODES:
                raise
            del contenders[name]
            notes.append(f"{name} does not run here: {first_line(error)}")
    timings: dict[Contender, list[CaptionTiming]] = {name: [] for name in contenders}
    for number, (clip, name) in enumerate(turns(clips, list(contenders), rounds)):
        if number % (len(clips) * len(contenders)) == 0:
            contenders |= _modes(both)
        timings[name].append(contenders[name](clip))
        if (number + 1) % len(contenders) == 0:
            done()
    return timings, notes


def _modes(both: Captioner) -> dict[Contender, _Contend]:
    """Each mode, with guesses as they ship."""
    return {mode: partial(caption, both.variant(in_mode(both.config, mode))) for mode in MODES}


def build_result(
    command: str,
    config: ResolvedConfig,
    captioner: Captioner,
    clips: Sequence[BenchClip],
    timings: Mapping[Contender, Sequence[CaptionTiming]],
    notes: Sequence[str],
) -> Bench:
    """The result of a captioner in mode hybrid; entry i of two contenders is of the same clip in the same round."""
    decoding = captioner.config.decoding
    found = [_contender(name, timings, len(clips)) for name in timings]
    return Bench(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=command,
        config=config.label,
        machine=describe_machine(),
        models=captioner.setup.models,
        k="deferred" if decoding.defers else decoding.k,
        gate=captioner.config.gate_in_force,
        clips=[clip.file for clip in clips],
        audio_s=sum(clip.duration_s for clip in clips),
        language=captioner.setup.language,
        rounds=len(timings["cloud"]) // len(clips),
        contenders=found,
        notes=[what_pays(found, _step_ms(timings["edge"], "edge"), _step_ms(timings["cloud"], "cloud")), *notes],
    )


def what_pays(found: Sequence[ContenderTime], step_ms: float | None, verification_ms: float | None) -> str:
    """In sentences, how fast lossless and hybrid are against the cloud alone, and whether to use that instead.

    Args:
        step_ms: a step of the edge; None: there was none.
        verification_ms: a forward of the cloud; None: there was none.
    """
    gains: dict[str, float] = {each.name: each.to_cloud.value for each in found if each.name in ("lossless", "hybrid")}
    measured = ""
    if step_ms is not None and verification_ms is not None:
        measured = f"An edge step takes {step_ms:.1f} ms and a forward of the cloud {verification_ms:.1f} ms: "
    told = " and ".join(f"{name} writes {gain:.2f} times" for name, gain in gains.items())
    return f"{measured}{told} cloud-only's tokens/s.{advice(gains)}"


def _step_ms(runs: Sequence[CaptionTiming], role: Literal["edge", "cloud"]) -> float | None:
    """A model's forward after the prefill, ms, on average over its captions alone."""
    works = [run.edge if role == "edge" else run.cloud for run in runs]
    steps = sum(work.forwards - work.encoder_passes for work in works)
    return sum(work.step_ms for work in works) / steps if steps > 0 else None


def _contender(name: Contender, timings: Mapping[Contender, Sequence[CaptionTiming]], clips: int) -> ContenderTime:
    runs, cloud = timings[name], timings["cloud"]
    equal_to = timings.get(_EQUAL_TO[name]) if name in _EQUAL_TO else None
    replaced = equal_to or (timings.get("generate-cloud") if name == "hybrid" else None)
    of_two, timed = name in ("lossless", "hybrid"), not name.startswith("generate")
    return ContenderTime(
        name=name,
        clip_ms=median([run.wall_ms for run in runs]),
        tokens_per_s=median([run.tokens_per_s for run in runs]),
        escalated=sum(len(run.escalated) for run in runs) / sum(len(run.rounds) for run in runs) if of_two else None,
        woken=sum(bool(run.escalated) for run in runs) / len(runs) if of_two else None,
        cloud_time=_cloud_ms(runs) / _cloud_ms(cloud) if timed else None,
        saved=_saved(runs) if timed else None,
        overhead=median([run.wall_ms / run.work.total_ms - 1 for run in runs]) if timed else None,
        to_cloud=_ratio(runs, cloud),
        to_generate=_ratio(runs, replaced) if replaced else None,
        tokens=sum(len(run.ids) for run in runs[:clips]),
        equal=all(run.ids == other.ids for run, other in zip(runs, equal_to, strict=True)) if equal_to else None,
    )


def _saved(runs: Sequence[CaptionTiming]) -> float:
    saved = sum(run.saved for run in runs)
    return saved / (saved + sum(run.work.forwards for run in runs))


def _cloud_ms(runs: Sequence[CaptionTiming]) -> float:
    return sum(run.cloud.total_ms for run in runs)


def _ratio(runs: Sequence[CaptionTiming], others: Sequence[CaptionTiming]) -> Interval:
    """The median ratio of two contenders' tokens a second on the same clip in the same round."""
    return median([run.tokens_per_s / other.tokens_per_s for run, other in zip(runs, others, strict=True)])


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
    """The processor's name; Linux keeps it in a file, `platform` has it elsewhere."""
    listed = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*:\s*(.*)", listed.read_text(encoding="utf-8") if listed.exists() else "", re.M)
    return named[1].strip() if named else platform.processor() or "unknown"
