"""Clips to time, the time of one with specdec's loops and with transformers' `generate`, and the machine."""

from __future__ import annotations

import os
import platform
import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import psutil
import torch
from pydantic import Field

import specdec_cli
from specdec_cli.audio.prosody import measure
from specdec_cli.captioner import Captioner
from specdec_cli.config import Config, configs_folder
from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.block import Block
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.pair import Pair
from specdec_cli.errors import ConfigError
from specdec_cli.inputs.find import find_recordings
from specdec_cli.labels.grounding import Grounding
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt, effective, test_sound
from specdec_cli.stats import Figures
from specdec_cli.types import Finished, ModelWork

_TEST_S: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class BenchClip:
    """A recording, ready for both models: the prompt of each, audio tensors included, and its figures."""

    file: str
    duration_s: float
    edge: Prompt
    cloud: Prompt
    sound: Grounding | None = None  # None: no claims are checked


def comparable(config: Config) -> Config:
    """`config` without the stop rules that transformers' `generate` lacks, so that texts can be compared.

    Raises:
        ConfigError: it samples, so that no two runs need agree.
    """
    if config.decoding.temperature > 0:
        message = f"The benchmark compares greedy texts, and decoding.temperature is {config.decoding.temperature:g}."
        raise ConfigError(message, hint="Leave the temperature at 0.")
    plain = config.decoding.model_copy(update={"loop_period": 0, "sentences": None, "stop_strings": ()})
    return config.model_copy(update={"decoding": plain})


def files_of(path: str | None) -> list[str]:
    """The recordings of a file or folder; without a name the samples of the source tree."""
    return find_recordings([str(configs_folder().parent / "samples") if path is None else path])


def read_clips(captioner: Captioner, files: Sequence[str]) -> list[BenchClip]:
    """Reads recordings, or their pieces; test sound where there are none; AudioError where one cannot be captioned."""
    rate, clips = captioner.sampling_rate, []
    sound = () if files else [captioner.run_samples(test_sound(_TEST_S, rate), rate, name="test sound")]
    for run in (*sound, *(run for file in files for run in captioner.runs(file))):
        if run.error is not None:
            raise run.error
        edge, cloud = run.prompts or (None, None)
        assert edge is not None
        assert cloud is not None
        clips.append(BenchClip(run.started.file, run.started.duration_s, edge, cloud(), run.grounding))
    return clips


@dataclass(frozen=True, slots=True)
class CaptionTiming:
    """A caption and its time, rounds and forwards; of `generate` the time alone is known."""

    ids: tuple[int, ...]  # eos included if it was reached
    wall_ms: float  # from the prompt to the last token
    rounds: tuple[Block, ...] = ()
    edge: ModelWork = field(default_factory=ModelWork)
    cloud: ModelWork = field(default_factory=ModelWork)
    saved: int = 0  # forwards, by guesses

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second, everything included."""
        return 1e3 * len(self.ids) / self.wall_ms

    @property
    def work(self) -> ModelWork:
        """What both models did."""
        return self.edge + self.cloud

    @property
    def escalated(self) -> list[Block]:
        """The rounds that the cloud verified."""
        return [event for event in self.rounds if event.escalated]


def caption(captioner: Captioner, clip: BenchClip) -> CaptionTiming:
    """Captions `clip` in the captioner's mode, with fresh sessions; its sound is measured anew."""
    pair = captioner.pair
    edge, cloud = (clip.edge if pair.edge else None), ((lambda: clip.cloud) if pair.cloud else None)
    started = time.perf_counter()
    sound = None if clip.sound is None else replace(clip.sound)
    if sound is not None and clip.edge.waveform is not None:
        measure(clip.edge.waveform, captioner.sampling_rate)  # for its time: a captioner does the same before a loop
    loop = pair.loop(captioner.config, (edge, cloud), captioner.gate, synonyms=captioner.synonyms, grounding=sound)
    timing = drive(loop, (time.perf_counter() - started) * 1e3)
    learn(timing, pair, captioner.config)
    return timing


def drive(loop: Loop, built_ms: float = 0.0) -> CaptionTiming:
    """Runs a loop, which took `built_ms` to put together, to its end."""
    *events, finished = loop.events()
    assert isinstance(finished, Finished)
    rounds = tuple(event for event in events if isinstance(event, Block))
    edge, cloud = (work or ModelWork() for work in (finished.edge, finished.cloud))
    saved = edge.guesses_kept + cloud.guesses_kept
    return CaptionTiming(finished.token_ids, built_ms + finished.total_ms, rounds, edge, cloud, saved)


def learn(timing: CaptionTiming, pair: Pair, config: Config) -> None:
    """Lets later captions be guessed from this one, as the product does."""
    if config.decoding.guess_tokens:
        tokens = [token for block in timing.rounds for token in block.tokens]
        ids, sources = [token.id for token in tokens], [token.source for token in tokens]
        known = {role: pair.local(role) for role in pair.models}
        weights: dict[str, str | None] = {role: model.weights for role, model in known.items() if model is not None}
        pair.learn(config, config.instruction(), ids, sources, weights)


def generate(model: AudioLM, prompt: Prompt, settings: DecodingConfig, **more: Any) -> CaptionTiming:
    """The caption by `generate`, greedily and with the logits processors and the length limit of `settings`.

    Prompt and audio tensors are passed ready made, so that only the decoding is compared. What `settings` leave open is
    as the checkpoint suggests; `more` goes to `generate`.
    """
    module, eos_ids = model.module, model.processor.eos_ids
    scoring = effective(settings, model.processor)
    ids = torch.tensor([prompt.ids], device=model.device)
    audio = {
        name: values.to(module.device, module.dtype if values.is_floating_point() else None)
        for name, values in prompt.audio.items()
    }
    started = time.perf_counter()
    with torch.inference_mode(), warnings.catch_warnings(action="ignore"):
        output = module.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            **audio,
            do_sample=False,
            max_new_tokens=settings.max_new_tokens,
            min_new_tokens=scoring.min_new_tokens,
            repetition_penalty=scoring.repetition_penalty,
            no_repeat_ngram_size=scoring.no_repeat_ngram,
            eos_token_id=list(eos_ids),
            pad_token_id=eos_ids[0],
            **more,
        )
        text: list[int] = output[0, len(prompt.ids) :].tolist()
        wall_ms = (time.perf_counter() - started) * 1e3
    return CaptionTiming(tuple(text), wall_ms)


class Machine(Figures):
    """The machine and the libraries of a measurement."""

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

    @property
    def line(self) -> str:
        """It in one line."""
        computes = self.gpu or f"{self.processor}, {self.threads} of {self.cores} threads"
        return f"specdec {self.specdec}, torch {self.torch}, transformers {self.transformers}; {computes}"


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
