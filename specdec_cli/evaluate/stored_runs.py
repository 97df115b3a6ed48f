"""What has been captioned already: kept in memory, and in a store from which a later run resumes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specdec_cli import store
from specdec_cli.errors import AudioContentError, AudioDecodeError
from specdec_cli.evaluate.pairing import ClipKey, clip_key
from specdec_cli.inputs.recording import InputFile
from specdec_cli.targets import TRANSCRIPTS
from specdec_cli.transcript.records import ErrorInfo, Transcript
from specdec_cli.transcript.terms import Terms, loaded_changes
from specdec_cli.types import Mode

if TYPE_CHECKING:
    from specdec_cli.run import Setup

_FINAL: Final = frozenset({AudioDecodeError.__name__, AudioContentError.__name__})


class StoredRuns(store.Journal):
    """Transcripts of a comparison.

    Args:
        path: see the base.
        terms: mode -> what transcripts must have been made with to count. Those of other modes are left alone, and a
            failure under other terms is tried again.
        overwrite: read nothing; `clear` drops what the file holds.

    Attributes:
        transcripts: what was read and counts, and what was added.

    Raises:
        ConfigError: a caption of one of the modes was made with other settings; names them.
        TranscriptError: as the base.
    """

    def __init__(
        self, path: Path | None = None, terms: Mapping[Mode, Terms] | None = None, *, overwrite: bool = False
    ) -> None:
        self.transcripts: list[Transcript] = []
        self._terms = terms or {}
        self._read_lines: list[tuple[int, Transcript]] = []  # numbers of lines, and what they hold
        self._done: Counter[tuple[ClipKey, Mode]] = Counter()
        self._failures: defaultdict[tuple[ClipKey, Mode], set[ErrorInfo]] = defaultdict(set)
        super().__init__(path, TRANSCRIPTS, read=not overwrite)

    def clear(self) -> None:
        """Drops what the file holds."""
        if self._store is not None:
            self._store.cut()

    def add(self, transcript: Transcript) -> None:
        """Keeps a transcript, and appends it to the file; a failure that stands there already is not written again.

        Raises:
            TranscriptError: the file cannot be written.
        """
        if transcript.error is None or transcript.error not in self._failures[clip_key(transcript), transcript.mode]:
            self._append(transcript.to_json())
        self._take(transcript)

    def require_models(self, recorded: Mapping[Mode, Transcript | Setup]) -> None:
        """Refuses to mix what was read with captions of other weights, number formats or devices.

        Args:
            recorded: what captions of each mode will record.

        Raises:
            ConfigError: a caption was made by other models than those that are loaded now.
        """
        for number, transcript in self._read_lines:
            now = recorded.get(transcript.mode)
            if self._store is None or transcript.error is not None or now is None:
                continue
            if changed := list(loaded_changes(transcript, now.models, now.settings)):
                raise store.made_otherwise(self._store.path, number, changed)

    def repeats(self, clip: ClipKey, mode: Mode) -> int:
        """How often a mode has captioned a clip."""
        return self._done[clip, mode]

    def refused(self, clip: ClipKey, mode: Mode) -> bool:
        """Whether a recording is known to be broken: its bytes are the same, so it would be again."""
        return any(error.type in _FINAL for error in self._failures[clip, mode])

    def of(self, recordings: Sequence[InputFile]) -> list[Transcript]:
        """The transcripts of `recordings`, in their order, each recording's by their place in it.

        A recording that was moved since it was captioned is named as it is now.
        """
        order = {recording.sha256 or recording.path: index for index, recording in enumerate(recordings)}
        found = [(order[key], run) for run in self.transcripts if (key := clip_key(run)[0]) in order]
        found.sort(key=lambda each: (each[0], each[1].start_s or 0.0))
        return [run.model_copy(update={"file": recordings[index].path}) for index, run in found]

    def _read(self, stored: store.Store) -> None:
        for line in stored.lines():
            transcript = Transcript.from_json(line.raw, f"{stored.path}:{line.number}")
            if (wanted := self._terms.get(transcript.mode)) is None:
                continue
            good = transcript.error is None  # a broken recording came to no model
            if changed := list(wanted.changes(transcript, models=good)):
                if good:
                    raise store.made_otherwise(stored.path, line.number, changed)
                continue
            self._take(transcript)
            self._read_lines.append((line.number, transcript))

    def _take(self, transcript: Transcript) -> None:
        self.transcripts.append(transcript)
        if transcript.error is None:
            self._done[clip_key(transcript), transcript.mode] += 1
        else:
            self._failures[clip_key(transcript), transcript.mode].add(transcript.error)
