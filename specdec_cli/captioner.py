"""From a file to captions: a captioner has the models and settings of a run, and makes a `Run` of each clip."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Self

import numpy.typing as npt

from specdec_cli.audio import Recording, from_samples, has_speech
from specdec_cli.audio.prosody import measure
from specdec_cli.audio.samples import piece_of
from specdec_cli.config import Config, load_config
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.guesses import GuessTable
from specdec_cli.decoding.pair import Pair, Prompts
from specdec_cli.decoding.rows import Groups
from specdec_cli.errors import AudioContentError, ConfigError, SpecdecError, as_specdec_error
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.opening import RecordingReader
from specdec_cli.inputs.recording import InputFile
from specdec_cli.labels import Lexicon
from specdec_cli.labels.calibration import Calibration, calibration_for
from specdec_cli.labels.class_words import ClassWords, class_words, word_groups
from specdec_cli.labels.grounding import Grounding
from specdec_cli.labels.probabilities import Scorer
from specdec_cli.pairs import load_pair
from specdec_cli.reading import CaptionRules
from specdec_cli.run import Run
from specdec_cli.text import file_name, show
from specdec_cli.transcript import Started, Transcript
from specdec_cli.transcript.records import Models
from specdec_cli.transcript.shared import SUGGESTED, SharedFields
from specdec_cli.transcript.updates import Update
from specdec_cli.types import Loading, Measured

_log = logging.getLogger(__name__)


class Captioner:
    """A loaded pair of models and the settings to use them with.

    Attributes:
        sampling_rate: of the audio that the models take, Hz.
        window_s: longest audio that the models read at once, seconds.
        reader: opens recordings.
        gate: the gate in force for all clips.
        synonyms: groups of tokens, for the acceptance rule class and a remote edge's gate.
        caption_rules: where captions end.
        shared: the fields that all transcripts share.
        lexicon: compares claims with the sound, and says what it bans.
        scorer: of the classes that captions name; None: transcripts have no labels.
        measures: whether transcripts have measured figures even if nothing else needs them.
        load_s: time of loading the models, seconds; None: not measured.
    """

    def __init__(self, config: Config, pair: Pair, load_s: float | None = None, *, cuts: Cuts | None = None) -> None:
        pair.require_mode(config.decoding.mode)
        self.config, self.pair, self.load_s = config, pair, load_s
        self.sampling_rate = pair.processor.sampling_rate
        self.window_s = min(model.processor.window_s for model in pair.models.values())
        cuts = cuts or Cuts.of_config(config.audio)
        self.reader = RecordingReader(config.audio, cuts, self.sampling_rate, self.window_s)
        summed = config.gate_in_force == "class-entropy"
        remote = summed and pair.edge in pair.remotes  # a remote edge's candidates are summed on the host
        self.synonyms = self._word_groups if config.acceptance_rule == "class" or remote else NO_SYNONYMS
        self.gate = Gate.of(config, self.class_groups if summed and not remote else None)
        self.caption_rules = CaptionRules(config.closes, config.decoding.stop_strings)
        self.lexicon, self.measures = Lexicon.shipped(), False
        shared, suggested = SharedFields.of(config, self.lexicon), pair.suggested(config.decoding)
        self.shared = replace(
            shared,
            models=Models.of(pair.described),
            settings={**shared.settings, **({SUGGESTED: suggested} if suggested else {})},
            shipped_only=pair.shipped_only,
            unanswered=tuple(remote.failure for remote in pair.remotes if remote.failure),
        )
        self.scorer: Scorer | None = None
        self._calibration: Calibration | None = None  # of all loaded models
        self._require_remote_bans()

    @classmethod
    def load(
        cls,
        config: str | Path | Config | None = None,
        settings: Mapping[str, object] | None = None,
        *,
        edge: str | None = None,
        cloud: str | None = None,
        loading: Loading = lambda _: nullcontext(),
        cuts: Cuts | None = None,
    ) -> Captioner:
        """Loads the models that the configured mode needs.

        Args:
            config: a shipped name ("mini"), a path, or a finished configuration; None: SPECDEC_CONFIG or "mini".
            settings: dotted name -> value, before all other settings, e.g. {"decoding.k": 3}.
            edge, cloud: folders or hub ids of models; without `config`, all other settings suit published models. One
                of the two alone sets the mode, edge or cloud.
            loading: called with the name of what is loaded, for a display; the context lasts while it is loaded.
            cuts: the cuts of `audio.segment`, if they were read before; None: they are read before the models.

        Raises:
            ConfigError: a setting is unknown, malformed or contradicts another.
            CheckpointError: a model cannot be loaded, or the two cannot exchange token ids.
        """
        models = {role: name for role, name in (("edge", edge), ("cloud", cloud)) if name is not None}
        flags = {**(settings or {}), **models}
        if isinstance(config, Config) and flags:
            raise ConfigError("settings and models go with a configuration's name or path, not with a finished one")
        resolved = config if isinstance(config, Config) else load_config(config, flags=flags).config
        cuts = cuts or Cuts.of_config(resolved.audio)  # a faulty file is reported before models are loaded
        started = time.perf_counter()
        pair = load_pair(resolved, loading)
        return cls(resolved, pair, time.perf_counter() - started, cuts=cuts)

    def variant(self, config: Config) -> Captioner:
        """The same loaded models with other settings; ConfigError if those need other models."""
        if any(self.config.models.get(role) != model for role, model in config.models.items()):
            hint = "Load a captioner with them, in mode hybrid for variants of every mode."
            raise ConfigError("A variant keeps the loaded models, and its settings need others.", hint=hint)
        edge, cloud = (getattr(self.pair, role) if role in config.models else None for role in ("edge", "cloud"))
        # the shared vocabulary stays, so that a model alone writes the text that it writes in the pair
        pair = replace(self.pair, edge=edge, cloud=cloud, guess_table=GuessTable())
        here, there = config.audio, self.config.audio
        same_cuts = (here.cuts_path, here.strict) == (there.cuts_path, there.strict)
        varied = Captioner(config, pair, self.load_s, cuts=self.reader.cuts if same_cuts else None)
        varied.measures, varied._calibration = self.measures, self._calibration
        varied._read(self.lexicon, scores=self.scorer is not None)
        return varied

    def labelled(self, lexicon: Lexicon) -> Captioner:
        """The same captioner, but its transcripts list the classes that captions name, and their probabilities.

        ConfigError: `judging.temperatures` names an attribute that the lexicon does not have.
        """
        own = self.config.judging.temperature_of
        if unknown := next((name for name in own if name not in lexicon.attributes), None):
            hint = f"There are {', '.join(lexicon.attributes)}."
            raise ConfigError(f"judging.temperatures: the lexicon has no attribute {show(unknown)}.", hint=hint)
        changed = copy(self)
        changed._calibration = calibration_for(self.shared.models.weights, own)
        changed._read(lexicon, scores=True)
        changed._require_remote_bans()
        return changed

    def _read(self, lexicon: Lexicon, *, scores: bool) -> None:
        """Reads captions by a lexicon. A calibration of its probabilities holds for captions without a temperature."""
        self.lexicon, self.shared = lexicon, self.shared.with_lexicon(lexicon)
        calibration = None if self.config.decoding.sampling else self._calibration
        self.scorer = Scorer(lexicon, calibration) if scores else None

    def measuring(self) -> Captioner:
        """The same captioner, but its transcripts have figures of each clip in `measured`; see docs/acoustics.md.

        They have them in any case if the lexicon has limits for classes; then `agrees` holds which of these fit.
        """
        changed = copy(self)
        changed.measures = True
        return changed

    def close(self) -> None:
        """Ends the calls of remote models and closes their connections, also for variants of this captioner."""
        for model in self.pair.remotes:
            model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def caption(self, path: str | PathLike[str]) -> Transcript:
        """Captions a recording as a whole. Raises ConfigError if the settings cut it; other errors as in `runs`."""
        runs = self.runs(path)
        run = next(runs)
        if next(runs, None) is not None:
            raise ConfigError(f"{path} was cut into several pieces", hint="captions() returns a transcript for each.")
        return run.finish()

    def captions(self, path: str | PathLike[str]) -> Iterator[Transcript]:
        """Captions a recording, one transcript per piece; errors as in `runs`."""
        for run in self.runs(path):
            yield run.finish()

    def stream(self, path: str | PathLike[str]) -> Iterator[Update]:
        """Captions a recording, yielding the updates of all pieces. A silent piece raises its AudioContentError."""
        for run in self.runs(path):
            yield from run

    def runs(self, path: str | PathLike[str]) -> Iterator[Run]:
        """One run per piece of a recording: iterate it for its updates, or `finish()` it for its transcript.

        Raises AudioError if the recording cannot be read, or captioned as a whole. A silent piece fails only its run.
        """
        recording = self.reader.open(InputFile(os.fsdecode(path)))
        for run in self.runs_of(recording):
            if recording.whole and run.error is not None:
                raise run.error
            yield run

    def runs_of(self, recording: Recording, item: InputFile | None = None, skip: Collection[int] = ()) -> Iterator[Run]:
        """One run per piece of a recording, except those with an index in `skip`; `item` is the input that names it.

        Figures and prompts (`Pair.prompts`) are made here; each run decodes while its updates are read.
        """
        item, count, pieces = item or InputFile(recording.path), len(recording.spans), recording.pieces(skip)
        language, instruction = item.language_and_instruction(self.config)
        digest = None if self.reader.cuts is None else self.reader.cuts.digest(recording.path)
        while True:
            begun = time.perf_counter()
            if (piece := next(pieces, None)) is None:
                return
            fits, level_dbfs = piece.fault is None, recording.levels.get(piece.channel)
            silent = fits and not has_speech(piece.samples, self.sampling_rate)
            measured: Measured | None = None
            if fits and (self.measures or self.lexicon.measured):
                measured = measure(piece.samples, self.sampling_rate, level_dbfs)
            started = self.shared.started(recording, piece, item, digest, measured, silent=silent)
            prompts: Prompts | None = None
            error: SpecdecError | None = piece.fault or self._refusal(started)
            if error is None:
                try:
                    prompts = self.pair.prompts(self.config, piece.samples, instruction)
                except Exception as unforeseen:
                    error = as_specdec_error(unforeseen, _log)
            audio_s = recording.decode_s / count + time.perf_counter() - begun
            grounding: Grounding | None = None
            if prompts is not None and measured is not None:
                grounding = Grounding(self.lexicon, language, measured, None if silent else self.class_words)
            yield Run(self, started, prompts, audio_s, error, grounding)

    def _refusal(self, clip: Started) -> AudioContentError | None:
        """Why the settings refuse to caption a clip; None if they do not."""
        if not (clip.flags and self.config.audio.no_speech == "refuse"):
            return None
        place = clip.file if clip.start_s is None else piece_of(clip.file, clip.start_s, clip.end_s or 0.0)
        hint = "To caption it all the same, set audio.no_speech to mark."
        return AudioContentError(f"{place} holds no speech: a caption would be invented", hint=hint)

    @property
    def class_words(self) -> ClassWords | None:
        """Finds the classes in tokens that the sound decides; None: it decides none."""
        attributes = self.lexicon.limited(self.config.decoding.sound)
        return class_words(self.lexicon, attributes, self.pair.processor) if attributes else None

    def _require_remote_bans(self) -> None:
        """Raises ConfigError if the sound is to decide classes, and a remote model cannot let it."""
        for remote in self.pair.remotes if self.class_words is not None else ():
            if fault := remote.sound_fault(self.lexicon.digest):
                hint = "Set decoding.sound to [], or load the model here."
                raise ConfigError(f"The sound cannot decide what {remote.name} writes: {fault}.", hint=hint)

    def run_samples(
        self, samples: npt.ArrayLike, sample_rate: float, *, name: str = "samples", start_s: float | None = None
    ) -> Run:
        """A run over audio that is in memory already: iterate it for its updates, or `finish()` it for its transcript.

        Args:
            samples: mono [n]: floats of full scale 1.0, or integers of 8 (unsigned), 16 or 32 bits.
            sample_rate: of the samples, Hz; they are resampled to `sampling_rate`.
            name: of the recording, in messages and in the transcript.
            start_s: start of the samples in the recording that they are a piece of, seconds; None: they are all of it.

        Raises:
            AudioContentError: the samples are not mono, too short, too long, silent, or not finite.
        """
        recording = from_samples(samples, sample_rate, self.sampling_rate, self.window_s, file_name(name), start_s)
        (run,) = self.runs_of(recording)
        if run.error is not None:
            raise run.error
        return run

    def remember(self, transcript: Transcript) -> None:
        """Lets tokens be guessed from a caption of the same models and instruction; guesses change no text."""
        if self.config.decoding.guess_tokens:
            ids = [id_ for each in transcript.rounds for id_ in each.committed_ids]
            sources = [source for each in transcript.rounds for source in each.source]
            self.pair.learn(self.config, transcript.prompt, ids, sources, transcript.models.weights)

    def decode(self, ids: Sequence[int]) -> str:
        """The caption in the text of token ids."""
        return self.caption_rules.caption(self.pair.processor.text(ids))

    @cached_property
    def _word_groups(self) -> Synonyms:
        return word_groups(self.pair.processor, self.pair.vocab_size, self.config.prompt.language)

    @cached_property
    def class_groups(self) -> Groups:
        """Tokens that name the same classes, on the drafting model's device, for the gate `class-entropy`."""
        model = self.pair.local("edge") or self.pair.local("cloud")
        return Groups.of(self._word_groups, self.pair.vocab_size, "cpu" if model is None else model.device)
