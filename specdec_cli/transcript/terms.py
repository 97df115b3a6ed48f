"""The models and settings of a run, and how those of a stored transcript differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from specdec_cli.config import Config
from specdec_cli.decoding.gate import Gate
from specdec_cli.errors import SpecdecError
from specdec_cli.inputs.recording import InputFile
from specdec_cli.journal import Change
from specdec_cli.transcript.recorder import error_transcript
from specdec_cli.transcript.records import ModelInfo, Models, Transcript, TranscriptHead
from specdec_cli.types import TOKEN_GATES, Mode

SUGGESTED: Final = "suggested"  # recorded setting: what the checkpoints add to settings that were left open
_MODEL: Final = tuple(ModelInfo.model_fields)
# the prompt includes the style, suggestions are known only once checkpoints are loaded, and guesses change no text
_NOT_COMPARED: Final = frozenset({"style", SUGGESTED, "guess_tokens", "fallback"})


class SoundRules(Protocol):
    """What the sound bans by: a lexicon."""

    @property
    def digest(self) -> str: ...

    def limited(self, asked: Sequence[str] | None) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """The models and settings of a run, which its transcripts share."""

    language: str | None  # None: not compared
    prompt: str | None  # None: not compared
    settings: Mapping[str, object]  # as transcripts record them
    edge: str | None  # name of the model; None if the mode does not use it
    cloud: str | None
    mode: Mode | None = None  # None: not compared

    @classmethod
    def of(cls, config: Config, lexicon: SoundRules) -> Terms:
        """The terms of a run with `config`; `lexicon` and errors as in `recorded_settings`."""
        edge = config.edge.model if config.edge is not None and "edge" in config.models else None
        cloud = config.cloud.label if config.cloud is not None and "cloud" in config.models else None
        prompt, settings = (config.prompt.language, config.instruction()), recorded_settings(config, lexicon)
        return cls(*prompt, settings, edge, cloud, config.decoding.mode)

    def error_line(self, item: InputFile, error: SpecdecError) -> Transcript:
        """The transcript of a recording that fails before a model reads it."""
        known = {name: getattr(self, name) for name in ("language", "prompt", "mode")}
        known |= {"models": Models(edge=None, cloud=None), "settings": dict(self.settings), "sha256": item.sha256}
        known |= item.place
        return error_transcript(item.path, error, **known)

    def changes(self, head: TranscriptHead) -> Iterator[Change]:
        """Yields every model and setting of a transcript that differs. A transcript of a failure may name no models."""
        made: dict[str, object] = {name: getattr(head, name) for name in ("mode", "language", "prompt")}
        known = {name: now for name in made if (now := getattr(self, name)) is not None}
        yield from differing({name: made[name] for name in known}, known)
        if head.models.names:
            yield from differing(head.models.names, {"edge.model": self.edge, "cloud.model": self.cloud})
        yield from differing(head.settings, self.settings, but=_NOT_COMPARED)


def recorded_settings(config: Config, lexicon: SoundRules | None = None) -> dict[str, object]:
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


def sound_settings(config: Config, lexicon: SoundRules) -> dict[str, object]:
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
