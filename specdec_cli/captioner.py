"""From a file to a caption: configuration, models, audio, loop and transcript, put together."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from specdec_cli.audio import Recording, Segment, from_samples, has_speech, open_recording
from specdec_cli.audio.pauses import PauseCutter
from specdec_cli.audio.samples import piece_of
from specdec_cli.confidence.calibration import CalibrationFile, calibration_for
from specdec_cli.confidence.probabilities import KEPT
from specdec_cli.confidence.scores import Scorer
from specdec_cli.config import CloudConfig, Config, load_config
from specdec_cli.config.gate_file import GateFile, read_learned, tokenizer_fingerprint
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms
from specdec_cli.decoding.build import Pair, build_loop
from specdec_cli.decoding.learned import Classifier
from specdec_cli.decoding.scores import suggestions
from specdec_cli.errors import AudioContentError, ConfigError, SpecdecError, typed
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.recording import InputFile
from specdec_cli.lexicon import Lexicon
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.loading import load_model, load_processor
from specdec_cli.models.processor import Processor, Prompt, same_prompts
from specdec_cli.prosody import measure
from specdec_cli.run import Prompts, Run, Setup
from specdec_cli.transcript.schema import ModelInfo, Models, Transcript, file_name
from specdec_cli.transcript.terms import SUGGESTED, recorded_settings
from specdec_cli.types import Clip, Update

if TYPE_CHECKING:
    from specdec_cli.cloud.cloud import RemoteCloud
    from specdec_cli.decoding.loop import Loop
    from specdec_cli.models.shared import Shared

_log = logging.getLogger(__name__)

Loading = Callable[[str], AbstractContextManager[None]]
"""Told what is being loaded; the context lasts until it is."""


class Captioner:
    """A loaded pair of models and the settings to use them with.

    Attributes:
        sampling_rate: Hz, of the audio that the models take.
        window_s: longest recording that they take at once, seconds.
        classifier: of the learned gate; None for any other.
        setup: what the transcripts of all clips have in common.
    """

    def __init__(self, config: Config, pair: Pair, load_s: float | None = None) -> None:
        self.config, self.pair = config, pair
        self._labelling: tuple[Lexicon, CalibrationFile | None] | None = None
        self._synonyms = _synonyms(config, pair)
        learned = _learned(config, pair)
        self.classifier = learned and learned[0]
        processors = [model.processor for model in (pair.edge, pair.cloud) if model is not None]
        self._alike = len(processors) == 2 and same_prompts(*processors)
        rates = {processor.sampling_rate for processor in processors}
        if len(rates) > 1:
            raise ConfigError(f"edge and cloud take audio at different rates: {sorted(rates)} Hz")
        self.sampling_rate = rates.pop()
        self.window_s = min(processor.window_s for processor in processors)
        segment_s = config.audio.length_s
        if segment_s is not None and segment_s > self.window_s:
            raise ConfigError(
                f"audio.segment is {segment_s:g} s, but the models take {self.window_s:g} s at once",
                hint=f"Set audio.segment to {self.window_s:g} or less.",
            )
        self._cuts = None if config.audio.cuts_path is None else Cuts.read(config.audio.cuts_path)
        self._has_speech, self._cutter = has_speech, PauseCutter
        if "silero" in (config.audio.speech_check, config.audio.segment):
            from specdec_cli.models import silero

            if config.audio.speech_check == "silero":
                self._has_speech = silero.has_speech
            if config.audio.segment == "silero":
                self._cutter = silero.SpeechCutter
        self.setup = _setup(config, pair, load_s, learned[1] if learned else None)

    @classmethod
    def load(
        cls,
        config: str | Path | Config | None = None,
        settings: Mapping[str, object] | None = None,
        *,
        loading: Loading = lambda _: nullcontext(),
    ) -> Captioner:
        """Loads the models that the configured mode needs.

        Args:
            config: a shipped name ("mini"), a path, or a finished configuration; None: SPECDEC_CONFIG or "mini".
            settings: dotted name -> value, over everything else, e.g. {"decoding.k": 3}.
            loading: told what is being loaded, for a display; the context lasts until it is.

        Raises:
            ConfigError: a setting is unknown, malformed or contradicts another.
            CheckpointError: a model cannot be loaded, or the two cannot exchange token ids.
        """
        if isinstance(config, Config) and settings:
            raise ConfigError("settings go with a configuration's name or path, not with a finished one")
        resolved = config if isinstance(config, Config) else load_config(config, flags=settings or {}).config
        if resolved.runtime.threads is not None:
            torch.set_num_threads(resolved.runtime.threads)
        started = time.perf_counter()
        mode, cloud_config = resolved.decoding.mode, resolved.cloud
        how = {"offline": resolved.runtime.offline, "tested": resolved.runtime.self_test}
        edge: AudioLM | None = None
        cloud: AudioLM | RemoteCloud | None = None
        if mode != "cloud":
            with loading(f"edge: {resolved.edge.model}"):
                edge = load_model(resolved.edge, **how)
        if mode != "edge":
            if cloud_config is None:
                raise ConfigError(f"mode {mode!r} needs a cloud model, and the configuration has none")
            with loading(f"cloud: {cloud_config.label}"):
                here = cloud_config.url is None
                cloud = load_model(cloud_config, **how) if here else _connect(resolved, cloud_config, edge)
        return cls(resolved, Pair.of(edge, cloud), time.perf_counter() - started)

    def variant(self, config: Config) -> Captioner:
        """The same loaded models with other settings; raises ConfigError where these need other models."""
        for role, ours, theirs in (("edge", self.config.edge, config.edge), ("cloud", self.config.cloud, config.cloud)):
            if ours != theirs:
                raise ConfigError(f"a variant keeps the loaded models, but {role} is configured differently")
        mode = config.decoding.mode
        edge = self.pair.edge if mode != "cloud" else None
        cloud = self.pair.cloud if mode != "edge" else None
        if (mode != "cloud" and edge is None) or (mode != "edge" and cloud is None):
            raise ConfigError(f"mode {mode!r} needs a model that is not loaded; load the captioner in mode 'hybrid'")
        # the shared vocabulary stays, so that a model alone says what it says in company
        varied = Captioner(config, Pair(edge, cloud, self.pair.vocab_size, self.pair.costs), self.setup.load_s)
        if self._labelling is not None:
            varied = varied.labelled(*self._labelling)
        return varied.measuring() if self.setup.measures else varied

    def labelled(self, lexicon: Lexicon, calibration: CalibrationFile | None = None) -> Captioner:
        """The same captioner, whose transcripts list which classes their captions name, and their probabilities.

        Args:
            lexicon: finds the classes.
            calibration: of the probabilities; None: the shipped one, which is of the mini pair.

        Raises:
            ConfigError: the calibration is not of the loaded weights.
        """
        # what is drawn at a temperature is no distribution that was calibrated
        drawn, weights = self.config.decoding.sampling, self.setup.models.weights
        labelled = copy(self)
        labelled._labelling = lexicon, calibration
        scorer = Scorer(lexicon, None if drawn else calibration_for(weights, calibration))
        labelled.setup = replace(self.setup, scorer=scorer)
        return labelled

    def measuring(self) -> Captioner:
        """The same captioner, whose transcripts have figures of each clip in `measured`; see docs/measured.md.

        With a lexicon, they say in `agrees` which classes fit the figures.
        """
        measuring = copy(self)
        measuring.setup = replace(self.setup, measures=True)
        return measuring

    def caption(self, path: str | PathLike[str]) -> Transcript:
        """Captions one recording as a whole.

        Raises:
            AudioError: the recording cannot be captioned.
            ConfigError: the settings cut it into several segments; use `captions`.
        """
        runs = self.runs(path)
        run = next(runs)
        if next(runs, None) is not None:
            raise ConfigError(
                f"{path} was cut into several segments, and `caption` returns one transcript",
                hint="Use captions(), or leave audio.segment out.",
            )
        return run.finish()

    def captions(self, path: str | PathLike[str]) -> Iterator[Transcript]:
        """Captions a recording, one transcript per segment; errors as in `caption`."""
        for run in self.runs(path):
            yield run.finish()

    def stream(self, path: str | PathLike[str]) -> Iterator[Update]:
        """Captions a recording, yielding what happens; a silent segment raises its AudioContentError and ends it."""
        for run in self.runs(path):
            yield from run

    def runs(self, path: str | PathLike[str]) -> Iterator[Run]:
        """One run per segment of a recording; iterate a run for its updates, then ask it for its transcript.

        Raises:
            AudioError: the recording cannot be captioned as a whole; a single silent segment fails its run only.
        """
        recording = self.recording(InputFile(os.fsdecode(path)))
        for run in self.runs_of(recording):
            if recording.whole and run.error is not None:
                raise run.error
            yield run

    def recording(self, item: InputFile) -> Recording:
        """A recording that was read through once, to be cut as the settings say; errors as in `runs`."""
        audio, part = self.config.audio, item.start_s is not None
        return open_recording(
            item.path,
            self.sampling_rate,
            window_s=self.window_s,
            segment_s=audio.length_s,
            pauses="always" if audio.at_pauses else "long",
            cutter=self._cutter,
            cuts=None if self._cuts is None else self._cuts.of(item.path),
            start_s=(item.start_s if part else audio.start_s) or 0.0,
            end_s=item.end_s if part else audio.end_s,
        )

    def runs_of(
        self,
        recording: Recording,
        item: InputFile | None = None,
        skip: Collection[int] = (),
        setup: Setup | None = None,
    ) -> Iterator[Run]:
        """One run per piece of a recording, but for those whose index is in `skip`.

        `item` is the recording as it was given, and `setup` has a language or an instruction of its own.
        """
        setup = setup or self.setup
        whole, count = recording.whole, len(recording.cuts)
        speaker, text = (item.speaker, item.text) if item else (None, None)
        pieces = recording.pieces(skip)
        while True:
            started = time.perf_counter()
            if (cut := next(pieces, None)) is None:
                return
            measures = self.setup.measures and cut.fault is None
            clip = Clip(
                file=recording.path,
                sha256=recording.sha256,
                duration_s=round(recording.duration_s if whole else cut.end_s - cut.start_s, 4),
                start_s=None if whole else round(cut.start_s, 4),
                end_s=None if whole else round(cut.end_s, 4),
                no_speech=None if cut.fault else not self._has_speech(cut.samples, self.sampling_rate),
                piece=cut.index if count > 1 else None,
                pieces=count if count > 1 else None,
                speaker=cut.speaker or speaker,
                text=cut.text or text,
                measured=measure(cut.samples, self.sampling_rate, recording.level_dbfs) if measures else None,
            )
            prompts, error = None, self._refusal(clip, cut)
            if error is None:
                try:
                    prompts = self.prompts(cut.samples, setup.prompt)
                except Exception as unforeseen:
                    error = typed(unforeseen, _log)
            audio_s = recording.decode_s / count + time.perf_counter() - started
            yield Run(setup, clip, prompts, audio_s, self.loop, self.pair.writer, error)

    def run_samples(
        self, samples: npt.ArrayLike, sample_rate: float, *, name: str = "samples", start_s: float | None = None
    ) -> Run:
        """A run over audio that is in memory already: iterate it for its updates, or `finish()` it for its transcript.

        Args:
            samples: mono [n]: floats of full scale 1.0, or integers of 8 (unsigned), 16 or 32 bits.
            sample_rate: of the samples, Hz; they are resampled to `sampling_rate`.
            name: what to call it in messages and in the transcript.
            start_s: its place in the recording that it is a piece of, seconds; None: it is a whole one.

        Raises:
            AudioContentError: not a mono recording, too short, too long, silent, or not finite.
        """
        recording = from_samples(samples, sample_rate, self.sampling_rate, self.window_s, file_name(name), start_s)
        (run,) = self.runs_of(recording)
        if run.error is not None:
            raise run.error
        return run

    def _refusal(self, clip: Clip, cut: Segment) -> SpecdecError | None:
        """Why a recording or a piece of it gets no caption; None: it gets one."""
        if not (clip.no_speech and self.config.audio.refuse_no_speech):
            return cut.fault
        place = clip.file if clip.start_s is None else piece_of(clip.file, cut.start_s, cut.end_s)
        return AudioContentError(
            f"{place} holds no speech: a caption would be invented",
            hint="To caption it all the same, set audio.refuse_no_speech to false.",
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Token ids as text, special tokens left out."""
        return self.pair.writer.text(ids).strip()

    def prompts(self, samples: npt.NDArray[np.float32], instruction: str) -> Prompts:
        """The prompt of a clip for each model, made once where both take the same."""
        config, pair = self.config, self.pair

        def build(processor: Processor, own: str | None) -> Prompt:
            return processor.prompt(samples, instruction if own is None else own, config.prompt.system)

        for_edge = build(pair.edge.processor, config.edge.instruction) if pair.edge else None
        if pair.cloud is None or config.cloud is None:
            return for_edge, None
        if self._alike and config.edge.instruction == config.cloud.instruction:
            return for_edge, for_edge
        return for_edge, build(pair.cloud.processor, config.cloud.instruction)

    def loop(self, prompts: Prompts, shared: Shared | None = None) -> Loop:
        """The loop of one clip, whose forwards `shared` makes together with those of other clips."""
        return build_loop(
            self.pair,
            self.config,
            *prompts,
            classifier=self.classifier,
            shared=shared,
            kept=KEPT if self.setup.scorer else 0,
            synonyms=self._synonyms,
        )


def _learned(config: Config, pair: Pair) -> tuple[Classifier, GateFile] | None:
    """The learned gate's classifier and file, where the mode has that gate. Raises ConfigError if it cannot be used."""
    path = config.gate.weights_path
    if config.gate_in_force != "learned" or path is None:
        return None
    file, weights = read_learned(path, config.gate.file)
    ours = tokenizer_fingerprint(pair.writer.tokenizer.get_vocab())
    if file.tokenizer != ours:
        raise ConfigError(
            f"{config.gate.file} was fitted with the tokenizer {file.tokenizer}, but {pair.writer.name} has {ours}",
            hint="Its weights are about other words. Fit a gate for this pair: specdec tune",
        )
    return Classifier(weights, file.threshold, file.wake, file.waking), file


def _synonyms(config: Config, pair: Pair) -> Synonyms:
    """Of the acceptance rule `class`, by the shipped lexicon."""
    if config.acceptance.rule != "class":
        return NO_SYNONYMS
    from specdec_cli.lexicon import Lexicon
    from specdec_cli.lexicon.synonyms import synonyms

    ids = range(pair.vocab_size)
    return synonyms(Lexicon.load(), ((id_, pair.writer.text([id_])) for id_ in ids), config.prompt.language)


def _setup(config: Config, pair: Pair, load_s: float | None, gate: GateFile | None) -> Setup:
    models = {"edge": pair.edge, "cloud": pair.cloud}
    taking_part = {role: model for role, model in models.items() if model is not None}
    suggested = {
        role: found for role, model in taking_part.items() if (found := suggestions(config.decoding, model.processor))
    }
    described = Models(**{role: ModelInfo(**model.describe()) if model else None for role, model in models.items()})
    return Setup(
        mode=config.decoding.mode,
        language=config.prompt.language,
        prompt=config.prompt.instruction,
        models=described,
        payload=pair.remote.payload if pair.remote else None,
        shipped_only=tuple(  # as their config.json declares
            role
            for role, model in taking_part.items()
            if getattr(model.processor.config, "specdec_prompts", None) == "shipped"
        ),
        unfitted=gate.not_fitted_to(described.weights) if gate else (),
        settings={**recorded_settings(config), **({SUGGESTED: suggested} if suggested else {})},
        stop_strings=config.decoding.stop_strings,
        load_s=load_s,
    )


def _connect(config: Config, cloud: CloudConfig, edge: AudioLM | None) -> RemoteCloud:
    """The configured cloud elsewhere, whose prompts are made by its own processor or by the edge's."""
    own = cloud.processor is not None
    if edge is not None and not own:
        processor = edge.processor
    else:
        processor = load_processor(cloud.of_processor if own else config.edge, offline=config.runtime.offline)
    if cloud.engine == "vllm":
        from specdec_cli.cloud.vllm import VllmCloud

        return VllmCloud(cloud, processor, own=own)
    from specdec_cli.cloud.remote import HttpCloud

    return HttpCloud(cloud, processor, own=own)
