"""From a file to a caption: configuration, models, audio, loop and transcript, put together."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from specdec_cli.audio import Recording, from_samples
from specdec_cli.audio.prosody import measure
from specdec_cli.config import Config, load_config
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.guesses import GuessTable
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.pair import Pair, Prompts
from specdec_cli.decoding.rows import Groups
from specdec_cli.errors import ConfigError, SpecdecError, as_specdec_error
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.opening import open_item
from specdec_cli.inputs.recording import InputFile
from specdec_cli.labels import Lexicon
from specdec_cli.labels.calibration import Calibration, calibration_for
from specdec_cli.labels.class_words import ClassWords, class_words
from specdec_cli.labels.grounding import Grounding
from specdec_cli.labels.probabilities import KEPT, Scorer
from specdec_cli.models.engine import Engine
from specdec_cli.models.processor import Processor
from specdec_cli.pair_loading import Loading, load_pair
from specdec_cli.prompts import Language
from specdec_cli.run import Run
from specdec_cli.setup import Setup
from specdec_cli.text import file_name, show
from specdec_cli.transcript import Started, Transcript
from specdec_cli.transcript.updates import Update

_log = logging.getLogger(__name__)


class Captioner:
    """A loaded pair of models and the settings to use them with.

    Attributes:
        sampling_rate: of the audio that the models take, Hz.
        window_s: longest audio that the models read at once, seconds.
        gate: the gate in force for all clips.
        setup: the common part of all clips' transcripts.
        cuts: the cuts of the file in `audio.segment`; None: no file is named.
    """

    def __init__(self, config: Config, pair: Pair, load_s: float | None = None, *, cuts: Cuts | None = None) -> None:
        pair.require_mode(config.decoding.mode)
        self.config, self.pair = config, pair
        self.sampling_rate = pair.processor.sampling_rate
        self.window_s = min(model.processor.window_s for model in pair.models.values())
        if (piece_s := config.audio.length_s) is not None and piece_s > self.window_s:
            raise ConfigError(f"audio.segment is {piece_s:g} s, but the models take {self.window_s:g} s at once")
        self.cuts = cuts or Cuts.of_config(config.audio)
        summed = config.gate_in_force == "class-entropy"
        remote = summed and pair.edge in pair.remotes  # a remote edge's candidates are summed on the host
        self._synonyms = self.word_groups if config.acceptance_rule == "class" or remote else NO_SYNONYMS
        self.gate = Gate.of(config, self.class_groups if summed and not remote else None)
        self.setup = Setup.of(config, pair, load_s)
        self._calibration: Calibration | None = None  # of all loaded models
        self._require_sound()

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
        varied = Captioner(config, pair, self.setup.load_s, cuts=self.cuts if same_cuts else None)
        scorer, varied._calibration = self.setup.scorer, self._calibration
        if scorer is not None:
            scorer = varied._scorer(scorer.lexicon)
        varied.setup = replace(varied.setup.reading(self.setup.lexicon), scorer=scorer, measures=self.setup.measures)
        return varied

    def labelled(self, lexicon: Lexicon) -> Captioner:
        """The same captioner, but its transcripts list the classes that captions name, and their probabilities.

        ConfigError: `judging.temperatures` names an attribute that the lexicon does not have.
        """
        own = self.config.judging.temperature_of
        if unknown := next((name for name in own if name not in lexicon.attributes), None):
            hint = f"There are {', '.join(lexicon.attributes)}."
            raise ConfigError(f"judging.temperatures: the lexicon has no attribute {show(unknown)}.", hint=hint)
        changed = self._with(self.setup.reading(lexicon))
        changed._calibration = calibration_for(self.setup.models.weights, own)
        changed.setup = replace(changed.setup, scorer=changed._scorer(lexicon))
        changed._require_sound()
        return changed

    def _scorer(self, lexicon: Lexicon) -> Scorer:
        """The scorer of a lexicon's classes. A calibration holds for captions without a temperature."""
        return Scorer(lexicon, None if self.config.decoding.sampling else self._calibration)

    def measuring(self) -> Captioner:
        """The same captioner, but its transcripts have figures of each clip in `measured`; see docs/acoustics.md.

        They have them in any case if the lexicon has limits for classes; then `agrees` holds which of these fit.
        """
        return self._with(replace(self.setup, measures=True))

    def _with(self, setup: Setup) -> Captioner:
        changed = copy(self)
        changed.setup = setup
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
        recording = self.recording(InputFile(os.fsdecode(path)))
        for run in self.runs_of(recording):
            if recording.whole and run.error is not None:
                raise run.error
            yield run

    def recording(self, item: InputFile, longest_s: float = math.inf) -> Recording:
        """A recording, read through once. Raises as `runs`, and TooLongError beyond `longest_s` seconds."""
        return open_item(item, self.config.audio, self.cuts, self.sampling_rate, self.window_s, longest_s)

    def runs_of(self, recording: Recording, item: InputFile | None = None, skip: Collection[int] = ()) -> Iterator[Run]:
        """One run per piece of a recording, except those with an index in `skip`; `item` is the input that names it."""
        item = item or InputFile(recording.path)
        setup, count, pieces = self.setup.of_item(item), len(recording.cuts), recording.pieces(skip)
        digest = None if self.cuts is None else self.cuts.digest(recording.path)
        while True:
            started = time.perf_counter()
            if (cut := next(pieces, None)) is None:
                return
            clip = setup.started(recording, cut, item, self.sampling_rate, digest)
            prompts: Prompts | None = None
            error: SpecdecError | None = cut.fault or setup.refusal(clip)
            if error is None:
                try:
                    prompts = self.pair.prompts(self.config, cut.samples, setup.prompt)
                except Exception as unforeseen:
                    error = as_specdec_error(unforeseen, _log)
            audio_s = recording.decode_s / count + time.perf_counter() - started
            sound = None if prompts is None else self._sound(clip, cut.samples, recording.levels.get(cut.channel))
            yield Run(self.setup, self.pair, clip, prompts, audio_s, error, sound, self.loop, self.remember)

    def _sound(self, clip: Started, samples: npt.NDArray[np.float32], dbfs: float | None) -> Grounding | None:
        """The sound of a clip, measured at its first use unless it was before; None if the lexicon has no limits."""
        lexicon, known = self.setup.lexicon, clip.measured
        if not lexicon.measured and known is None:
            return None
        measuring = partial(measure, samples, self.sampling_rate, dbfs) if known is None else lambda: known
        return Grounding(lexicon, clip.language, measuring, None if clip.flags else self.class_words)

    @property
    def class_words(self) -> ClassWords | None:
        """Finds the classes in tokens that the sound decides; None: it decides none."""
        lexicon = self.setup.lexicon
        attributes = lexicon.limited(self.config.decoding.sound)
        return class_words(lexicon, attributes, self.pair.processor) if attributes else None

    def _require_sound(self) -> None:
        """Raises ConfigError if the sound is to decide classes, and a remote model cannot let it."""
        for remote in self.pair.remotes if self.class_words is not None else ():
            if fault := remote.sound_fault(self.setup.lexicon.digest):
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
        return self.setup.caption(self.pair.processor.text(ids))

    @cached_property
    def word_groups(self) -> Synonyms:
        """Tokens that name the same classes of the shipped lexicon, for the acceptance rule `class`."""
        return _word_groups(self.pair.processor, self.pair.vocab_size, self.config.prompt.language)

    @cached_property
    def class_groups(self) -> Groups:
        """`word_groups` on the drafting model's device, for the gate `class-entropy`."""
        model = self.pair.local("edge") or self.pair.local("cloud")
        return Groups.of(self.word_groups, self.pair.vocab_size, "cpu" if model is None else model.device)

    def loop(
        self,
        prompts: Prompts,
        engine: Engine | None = None,
        clip: Started | None = None,
        sound: Grounding | None = None,
    ) -> Loop:
        """The loop of one clip, which may have its own language and instruction; see `Pair.loop`."""
        return self.pair.loop(
            self.config,
            prompts,
            self.gate,
            engine=engine,
            top_n=KEPT if self.setup.scorer else 0,
            synonyms=self._synonyms,
            language=None if clip is None else clip.language,
            instruction=None if clip is None else clip.prompt,
            sound=None if sound is None or sound.words is None else sound,
        )


@lru_cache(maxsize=4)  # variants of a captioner share them
def _word_groups(writer: Processor, vocab_size: int, language: Language) -> Synonyms:
    pieces = ((id_, writer.word(id_)) for id_ in range(vocab_size))
    return Lexicon.shipped().vocabularies[language].synonyms(pieces)
