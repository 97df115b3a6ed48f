"""The common part of a captioner's clips, and the fields of each that are known before it is decoded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from specdec_cli.audio import AudioPiece, Recording, has_speech
from specdec_cli.audio.prosody import measure
from specdec_cli.audio.samples import piece_of
from specdec_cli.config import Config
from specdec_cli.decoding.pair import Pair
from specdec_cli.errors import AudioContentError, SpecdecError
from specdec_cli.inputs.recording import InputFile
from specdec_cli.labels import Lexicon
from specdec_cli.labels.probabilities import Scorer
from specdec_cli.models.processor import suggestions
from specdec_cli.prompts import PROMPTS, Language
from specdec_cli.reading import caption_of, settled
from specdec_cli.transcript.recorder import error_transcript
from specdec_cli.transcript.records import ModelInfo, Models, RowPart, Started, Transcript
from specdec_cli.transcript.terms import SUGGESTED, recorded_settings, sound_settings
from specdec_cli.types import Decider, Mode, Payload


@dataclass(frozen=True, slots=True)
class Setup:
    """The common part of all clips of a captioner. Fields with names of `Transcript` mean the same."""

    config: Config
    language: Language
    prompt: str
    models: Models
    settings: dict[str, object]
    load_s: float | None  # time of loading the models; None: not measured
    scorer: Scorer | None = None  # of the classes that captions name; None: transcripts have no labels
    measures: bool = False  # whether transcripts have measured figures even if nothing else needs them
    lexicon: Lexicon = field(default_factory=Lexicon.shipped)  # compares claims with the sound, and says what it bans
    payload: Payload | None = None  # the form in which a recording is sent to a remote model; None: all are loaded
    shipped_only: tuple[Decider, ...] = ()  # models that were trained on the shipped prompts alone
    unanswered: tuple[str, ...] = ()  # reasons why servers did not answer when they were first called

    @classmethod
    def of(cls, config: Config, pair: Pair, load_s: float | None) -> Setup:
        """The setup of a configuration and its loaded models."""
        models = pair.models
        suggested = {role: found for role in models if (found := suggestions(config.decoding, models[role].processor))}
        declared = {role: getattr(model.processor.config, "specdec_prompts", None) for role, model in models.items()}
        return cls(
            config=config,
            language=config.prompt.language,
            prompt=config.instruction(),
            models=described(pair),
            settings=recorded_settings(config, Lexicon.shipped()) | ({SUGGESTED: suggested} if suggested else {}),
            load_s=load_s,
            payload=pair.remotes[0].payload if pair.remotes else None,
            shipped_only=tuple(role for role, prompts in declared.items() if prompts == "shipped"),
            unanswered=tuple(each.failure for each in pair.remotes if each.failure),
        )

    def reading(self, lexicon: Lexicon) -> Setup:
        """The same with another lexicon."""
        return replace(self, lexicon=lexicon, settings={**self.settings, **sound_settings(self.config, lexicon)})

    @property
    def mode(self) -> Mode:
        """The mode of decoding."""
        return self.config.decoding.mode

    def caption(self, text: str) -> str:
        """The caption in a finished text: the part before a stop string, or before the end of the description."""
        if stops := self.config.decoding.stop_strings:
            text = re.split("|".join(map(re.escape, stops)), text, maxsplit=1)[0]
        return caption_of(text) if self.config.closes else text.strip()

    def settled(self, caption: str) -> str:
        """The part of an unfinished caption that no later token can change."""
        for stop in self.config.decoding.stop_strings:
            caption = caption.split(stop, 1)[0]
            begun = next((size for size in range(len(stop) - 1, 0, -1) if caption.endswith(stop[:size])), 0)
            caption = caption[: len(caption) - begun]
        return settled(caption) if self.config.closes else caption.rstrip()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about these settings that a user should know."""
        known = PROMPTS.values() if self.config.prompt.system is None else ()
        others = [role for role in self.shipped_only if self.config.instruction_of(role, self.prompt) not in known]
        found = list[str]()
        if others:
            follow = f"{' and '.join(others)} follow{'s' if len(others) == 1 else ''}"
            found.append(f"{follow} the shipped prompts only: this one changes little")
        found.extend(f"no answer at the start: {failure}" for failure in self.unanswered)
        return tuple(found)

    def fields(self) -> dict[str, Any]:
        """The fields of a transcript that have the same names."""
        names = ("mode", "language", "prompt", "models", "settings", "warnings")
        return {name: getattr(self, name) for name in names}

    def of_item(self, item: InputFile) -> Setup:
        """The setup of a recording, which may have a language and an instruction of its own."""
        config = self.config
        language, instruction = item.language_and_prompt(config)
        if (language, instruction) == (self.language, self.prompt):
            return self
        shipped = config.prompt.style is not None and instruction == config.instruction(language)
        settings = {**self.settings, "style": config.prompt.style if shipped else None}
        return replace(self, language=language, prompt=instruction, settings=settings)

    def started(
        self, recording: Recording, piece: AudioPiece, item: InputFile, rate: int, cuts: str | None = None
    ) -> Started:
        """The fields of a piece that are known before it is decoded.

        `rate`: of its samples, Hz; `cuts`: see `Cuts.digest`.
        """
        whole, fit, pieces = recording.whole, piece.fault is None, len(recording.cuts)
        silent = fit and not has_speech(piece.samples, rate)
        measures = self.measures and fit
        return Started(
            file=recording.path,
            id=item.id,
            sha256=recording.sha256,
            duration_s=round(recording.duration_s, 6) if whole else round(piece.end_s - piece.start_s, 4),
            start_s=None if whole else round(piece.start_s, 4),
            end_s=None if whole else round(piece.end_s, 4),
            piece=piece.index if pieces > 1 else None,
            pieces=pieces if pieces > 1 else None,
            row=RowPart.of(item) if pieces > 1 or item.start_s is None else None,
            cuts=cuts,
            channel=None if piece.channel is None else piece.channel + 1,
            speaker=piece.speaker or item.speaker,
            text=piece.text or item.text,
            flags=("no_speech",) if silent else (),
            recording_s=None if whole or recording.total_s is None else round(recording.total_s, 6),
            measured=measure(piece.samples, rate, recording.levels.get(piece.channel)) if measures else None,
            **self.fields() | {"warnings": (*self.warnings, *recording.warnings)},
        )

    def refusal(self, clip: Started) -> AudioContentError | None:
        """Why the settings refuse to caption a clip; None if they do not."""
        if not (clip.flags and self.config.audio.no_speech == "refuse"):
            return None
        place = clip.file if clip.start_s is None else piece_of(clip.file, clip.start_s, clip.end_s or 0.0)
        hint = "To caption it all the same, set audio.no_speech to mark."
        return AudioContentError(f"{place} holds no speech: a caption would be invented", hint=hint)

    def error_line(self, item: InputFile, error: SpecdecError) -> Transcript:
        """The transcript of a recording that cannot be opened, or cannot be read to its end."""
        known = item.place | self.of_item(item).fields()
        return error_transcript(item.path, error, sha256=item.sha256 or item.content_of(error), **known)


def described(pair: Pair) -> Models:
    """The models of a pair. What is known of a remote one depends on whether its server has answered yet."""
    known = {role: ModelInfo(**model.describe()) for role, model in pair.models.items()}
    return Models(edge=known.get("edge"), cloud=known.get("cloud"))
