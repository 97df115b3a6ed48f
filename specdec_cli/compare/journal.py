"""What has been captioned already: kept in memory, and in a file from which a later run goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from specdec_cli.compare.pairing import ClipKey, clip_key
from specdec_cli.compare.recordings import Recording
from specdec_cli.errors import AudioContentError, AudioDecodeError, ConfigError, TranscriptError
from specdec_cli.transcript.schema import SUGGESTED, ModelInfo, Models, Transcript, differing
from specdec_cli.transcript.writer import append_transcript, mend, read_transcripts
from specdec_cli.types import Mode

_FINAL: Final = frozenset({AudioDecodeError.__name__, AudioContentError.__name__})
_OF_MODELS: Final = frozenset({SUGGESTED})  # settings that are known once the models are loaded
_SHOWN: Final = 90  # characters of a value in a message


class Recorded(Protocol):
    """A record of models and settings: a transcript, or the setup of a captioner."""

    @property
    def models(self) -> Models:
        """The models that take part."""

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings in force, and what the models' checkpoints suggest."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a transcript must have been made with to count in this comparison.

    Attributes:
        language, prompt, settings: as transcripts record them.
        edge, cloud: name of each model that the mode uses, None for one that it does not.
    """

    language: str
    prompt: str
    settings: Mapping[str, object]
    edge: str | None
    cloud: str | None

    def differences(self, transcript: Transcript) -> Iterator[tuple[str, object, object]]:
        """Name, value there and value here of everything in which `transcript` was made otherwise."""
        models = [
            ("edge.model", _name(transcript.models.edge), self.edge),
            ("cloud.model", _name(transcript.models.cloud), self.cloud),
        ]
        rows: list[tuple[str, object, object]] = [
            *(models if transcript.error is None else ()),  # a broken recording came to no model
            ("language", transcript.language, self.language),
            ("prompt", transcript.prompt, self.prompt),
        ]
        yield from (row for row in rows if row[1] != row[2])
        yield from differing(transcript.settings, self.settings, but=_OF_MODELS)


class Journal:
    """Transcripts of a comparison.

    Args:
        path: file to append them to, or None.
        kept: those that are in it already and count.
    """

    def __init__(self, path: Path | None = None, kept: Iterable[Transcript] = ()) -> None:
        self._path = path
        self._transcripts: list[Transcript] = []
        self._done: Counter[tuple[ClipKey, Mode]] = Counter()
        self._refused: set[tuple[ClipKey, Mode]] = set()
        for transcript in kept:
            self._take(transcript)

    def add(self, transcript: Transcript) -> None:
        """Keeps a transcript, and appends it to the file; a failure that stands there already is not written again.

        Raises:
            TranscriptError: the file cannot be written.
        """
        known = transcript.error is not None and any(_same_failure(transcript, other) for other in self._transcripts)
        if self._path is not None and not known:
            append_transcript(self._path, transcript)
        self._take(transcript)

    def require_models(self, recorded: Mapping[Mode, Recorded]) -> None:
        """Refuses to mix what is kept with captions of other weights, number formats or devices.

        Args:
            recorded: what captions of each mode will record.

        Raises:
            ConfigError: a caption was made by other models than those that are loaded now.
        """
        for transcript in self._transcripts:
            now = recorded.get(transcript.mode)
            if self._path is None or transcript.error is not None or now is None:
                continue
            there, here = ({name: of.settings.get(name) for name in _OF_MODELS} for of in (transcript, now))
            if changed := [*_other_models(transcript.models, now.models), *differing(there, here)]:
                raise _refusal(self._path, transcript, changed)

    def repeats(self, clip: ClipKey, mode: Mode) -> int:
        """How often a mode has captioned a clip."""
        return self._done[clip, mode]

    def refused(self, clip: ClipKey, mode: Mode) -> bool:
        """Whether a recording is known to be broken: its bytes are the same, so it would be again."""
        return (clip, mode) in self._refused

    def of(self, recordings: Sequence[Recording]) -> list[Transcript]:
        """The transcripts of `recordings`, in their order, each recording's by their place in it.

        A recording that was moved since it was captioned is named as it is now.
        """
        order = {recording.key: index for index, recording in enumerate(recordings)}
        found = [transcript for transcript in self._transcripts if clip_key(transcript)[0] in order]
        found.sort(key=lambda transcript: (order[clip_key(transcript)[0]], transcript.start_s or 0.0))
        paths = [recordings[order[clip_key(transcript)[0]]].path for transcript in found]
        return [
            transcript if transcript.file == path else Transcript.model_validate({**dict(transcript), "file": path})
            for transcript, path in zip(found, paths, strict=True)
        ]

    def _take(self, transcript: Transcript) -> None:
        self._transcripts.append(transcript)
        if transcript.error is None:
            self._done[clip_key(transcript), transcript.mode] += 1
        elif transcript.error.type in _FINAL and transcript.sha256 is not None:
            self._refused.add((clip_key(transcript), transcript.mode))


def read_journal(path: Path, terms: Mapping[Mode, Terms]) -> list[Transcript]:
    """The transcripts in `path` that a comparison under `terms` may go on from; a file that is not there has none.

    A last line that a killed process left half-written is cut off the file.

    Raises:
        ConfigError: a transcript of one of the modes was made with other settings; names them.
        TranscriptError: the file cannot be read, or holds something else.
    """
    if not path.exists():
        return []
    mend(path, _whole)
    kept = []
    for transcript in read_transcripts(path):
        changed = list(terms[transcript.mode].differences(transcript)) if transcript.mode in terms else []
        if changed and transcript.error is None:
            raise _refusal(path, transcript, changed)
        if transcript.mode in terms and not changed:  # a failure under other settings is tried again
            kept.append(transcript)
    return kept


def _refusal(path: Path, transcript: Transcript, changed: Sequence[tuple[str, object, object]]) -> ConfigError:
    listed = "; ".join(f"{name} was {_shown(there)} and is {_shown(here)}" for name, there, here in changed)
    return ConfigError(
        f"{path} holds transcripts of mode {transcript.mode} made otherwise: {listed}.",
        hint="Compare with the same settings, name another --output, or begin it anew with --overwrite.",
    )


def _other_models(there: Models, here: Models) -> Iterator[tuple[str, object, object]]:
    """Name, value there and value here of whatever differs between two pairs of models.

    Weights count where both are known: older transcripts, and some servers, do not tell them.
    """
    for role in Models.model_fields:
        theirs, ours = getattr(there, role), getattr(here, role)
        if theirs is None or ours is None:
            if theirs != ours:
                yield role, theirs and theirs.name, ours and ours.name
            continue
        for name in ModelInfo.model_fields:
            then, now = getattr(theirs, name), getattr(ours, name)
            unknown = name == "weights" and None in (then, now)
            if then != now and not unknown:
                yield f"{role}.{name}", then, now


def _whole(line: bytes) -> bool:
    try:
        Transcript.from_json(line)
    except TranscriptError:
        return False
    return True


def _same_failure(one: Transcript, other: Transcript) -> bool:
    return (clip_key(one), one.mode, one.error) == (clip_key(other), other.mode, other.error)


def _name(info: ModelInfo | None) -> str | None:
    return info.name if info else None


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
