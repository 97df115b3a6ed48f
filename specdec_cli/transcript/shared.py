"""The fields that all transcripts of a run share, and how those of a stored transcript differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from specdec_cli.audio import AudioPiece, Recording
from specdec_cli.config import Config
from specdec_cli.decoding.gate import Gate
from specdec_cli.errors import SpecdecError
from specdec_cli.inputs.recording import InputFile
from specdec_cli.journal import Change
from specdec_cli.prompts import PROMPTS, Language
from specdec_cli.transcript.recorder import error_transcript
from specdec_cli.transcript.records import ModelInfo, Models, RowPart, Started, Transcript, TranscriptHead
from specdec_cli.types import TOKEN_GATES, Decider, Measured, Mode

SUGGESTED: Final = "suggested"  # recorded setting: what the checkpoints add to settings that were left open
_MODEL: Final = tuple(ModelInfo.model_fields)
# the prompt includes the style, suggestions are known only once checkpoints are loaded, and guesses change no text
_NOT_COMPARED: Final = frozenset({"style", SUGGESTED, "guess_tokens", "fallback"})


class BanRules(Protocol):
    """What the sound bans by: a `labels.Lexicon`."""

    @property
    def digest(self) -> str: ...

    def limited(self, asked: Sequence[str] | None) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class SharedFields:
    """The fields that all transcripts of a run share; `fields` has them by their names in a `Transcript`.

    A recording may have a language and an instruction of its own; see `of_item`.
    """

    config: Config
    language: Language | None  # None: not compared
    instruction: str | None  # None: not compared
    settings: Mapping[str, object]
    models: Models = Models(edge=None, cloud=None)  # noqa: RUF009  # frozen; none before they are loaded
    shipped_only: tuple[Decider, ...] = ()  # models that were trained on the shipped prompts alone
    unanswered: tuple[str, ...] = ()  # reasons why servers did not answer when they were first called

    @classmethod
    def of(cls, config: Config, lexicon: BanRules) -> SharedFields:
        """Those that are known before the models are; `lexicon` and errors as in `recorded_settings`."""
        return cls(config, config.prompt.language, config.instruction(), recorded_settings(config, lexicon))

    def with_lexicon(self, lexicon: BanRules) -> SharedFields:
        """The same with another lexicon."""
        return replace(self, settings={**self.settings, **sound_settings(self.config, lexicon)})

    def of_item(self, item: InputFile) -> SharedFields:
        """The same for a recording, which may have a language and an instruction of its own."""
        config = self.config
        language, instruction = item.language_and_instruction(config)
        if (language, instruction) == (self.language, self.instruction):
            return self
        shipped = config.prompt.style is not None and instruction == config.instruction(language)
        settings = {**self.settings, "style": config.prompt.style if shipped else None}
        return replace(self, language=language, instruction=instruction, settings=settings)

    @property
    def mode(self) -> Mode:
        """The mode of decoding."""
        return self.config.decoding.mode

    @property
    def names(self) -> dict[str, str]:
        """`edge.model`, `cloud.model` -> name of each model that the mode uses."""
        return {f"{role}.model": model.label for role, model in self.config.models.items()}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about models and settings that a user should know."""
        known = PROMPTS.values() if self.config.prompt.system is None else ()
        asked = self.instruction or self.config.instruction()
        others = [role for role in self.shipped_only if self.config.instruction_of(role, asked) not in known]
        found = list[str]()
        if others:
            follow = f"{' and '.join(others)} follow{'s' if len(others) == 1 else ''}"
            found.append(f"{follow} the shipped prompts only: this one changes little")
        found.extend(f"no answer at the start: {failure}" for failure in self.unanswered)
        return tuple(found)

    def fields(self) -> dict[str, Any]:
        """The fields of a transcript that have the same names."""
        return {
            "mode": self.mode,
            "language": self.language,
            "prompt": self.instruction,
            "models": self.models,
            "settings": self.settings,
            "warnings": self.warnings,
        }

    def started(
        self,
        recording: Recording,
        piece: AudioPiece,
        item: InputFile,
        cuts_digest: str | None,
        measured: Measured | None = None,
        *,
        silent: bool = False,
    ) -> Started:
        """The fields of a piece that are known before it is decoded.

        `cuts_digest`: see `Cuts.digest`; `measured`: of its sound, if asked; `silent`: no speech was found in it.
        """
        shared, whole, pieces = self.of_item(item), recording.whole, len(recording.spans)
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
            cuts=cuts_digest,
            channel=None if piece.channel is None else piece.channel + 1,
            speaker=piece.speaker or item.speaker,
            text=piece.text or item.text,
            flags=("no_speech",) if silent else (),
            recording_s=None if whole or recording.total_s is None else round(recording.total_s, 6),
            measured=measured,
            **shared.fields() | {"warnings": (*shared.warnings, *recording.warnings)},
        )

    def error_line(self, item: InputFile, error: SpecdecError) -> Transcript:
        """The transcript of a recording that cannot be opened, or cannot be read to its end."""
        known = item.place | self.of_item(item).fields()
        return error_transcript(item.path, error, sha256=item.sha256 or item.content_of(error), **known)

    def changes(self, head: TranscriptHead) -> Iterator[Change]:
        """Yields every model and setting of a transcript that differs. A transcript of a failure may name no models."""
        ours = {"mode": self.mode, "language": self.language, "prompt": self.instruction}
        compared = {name: now for name, now in ours.items() if now is not None}
        yield from differing({name: getattr(head, name) for name in compared}, compared)
        if head.models.names:
            yield from differing(head.models.names, self.names)
        yield from differing(head.settings, self.settings, but=_NOT_COMPARED)


def recorded_settings(config: Config, lexicon: BanRules | None = None) -> dict[str, object]:
    """Every setting that shapes a caption; `lexicon` says what the sound bans, None: that is left out.

    Raises ConfigError if it has no limits for an attribute in `decoding.sound`.
    """
    gate = Gate.of(config)
    rules, calls_cloud = config.decoding.rules, config.decoding.mode in ("hybrid", "lossless")
    has_threshold = gate.name not in ("always", "never")
    wakes = config.decoding.defers and config.decoding.mode == "hybrid"
    return {
        **config.decoding.model_dump(mode="json", exclude={"mode", "sound", "acceptance"}),
        "cost_ratio": config.decoding.cost_ratio if config.decoding.adapts else None,
        "closing": "on" if config.closes else None,
        "gate": gate.name,
        "threshold": gate.threshold if has_threshold else None,
        "wake": gate.wake if has_threshold and wakes else None,
        "stop_drafting": gate.stop_drafting if gate.name in TOKEN_GATES else None,
        "acceptance": rules.written(sampling=config.decoding.sampling) if calls_cloud else None,
        **({} if lexicon is None else sound_settings(config, lexicon)),
        "style": config.prompt.style,
        "system": config.prompt.system,
        "segment_s": config.audio.length_s,
        **config.audio.recorded(),
        **{
            f"{role}_instruction": model.own_instruction
            for role, model in (("edge", config.edge), ("cloud", config.cloud))
            if model is not None and model.own_instruction is not None
        },
    }


def sound_settings(config: Config, lexicon: BanRules) -> dict[str, object]:
    """The attributes whose classes the sound decides, and the digest of the lexicon by which it does."""
    sound = lexicon.limited(config.decoding.sound)
    return {"sound": list(sound) or None, "lexicon": lexicon.digest if sound else None}


def differing(there: Mapping[str, Any], here: Mapping[str, Any], but: frozenset[str] = frozenset()) -> Iterator[Change]:
    """Yields every setting that differs between two records of settings, except those in `but`."""
    for name in dict.fromkeys((*here, *there)):
        values = (there.get(name), here.get(name))
        then, now = (list(value) if isinstance(value, tuple) else value for value in values)  # as JSON gives them back
        if then != now and name not in but:
            yield name, then, now


class MadeWith(Protocol):
    """A transcript, or the common part of the transcripts of a run."""

    @property
    def models(self) -> Models: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...


def made_by(head: TranscriptHead) -> str | None:
    """A text that is equal for captions of the same mode, models and suggestions; None for a line with an error."""
    if head.error is not None:
        return None
    return json.dumps([head.mode, head.models.model_dump(mode="json"), head.settings.get(SUGGESTED)])


def loaded_changes(there: MadeWith, here: MadeWith, names: Sequence[str] = _MODEL) -> Iterator[Change]:
    """Yields every field in `names`, and every suggestion, that differs between two pairs of models.

    Unknown values count as equal. A line that failed before models were loaded names none.
    """
    for (role, theirs), (_, ours) in zip(there.models, here.models, strict=True) if there.models.names else ():
        if theirs is None or ours is None:
            yield from differing({role: theirs and theirs.name}, {role: ours and ours.name})
            continue
        for name in names:
            then, now = getattr(theirs, name), getattr(ours, name)
            unknown = name in ("dtype", "weights") and not {then, now}.isdisjoint((None, "unknown"))
            if then != now and not unknown:
                yield f"{role}.{name}", then, now
    yield from differing({SUGGESTED: there.settings.get(SUGGESTED)}, {SUGGESTED: here.settings.get(SUGGESTED)})
