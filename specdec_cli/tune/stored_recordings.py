"""What was recorded and run already: kept in memory, and in a store from which a later run resumes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from specdec_cli import store
from specdec_cli.errors import TranscriptError
from specdec_cli.targets import RECORDINGS
from specdec_cli.transcript.records import Models, Transcript
from specdec_cli.transcript.terms import Change, differing, model_changes
from specdec_cli.tune.recording import Trace
from specdec_cli.types import Mode

_RECORDING: Final = b'{"recording"'


class StoredRecordings(store.Journal):
    """Recordings, and transcripts of the runs that confirmed a setting, by clip.

    Args:
        setup: what recordings depend on.
        path: see the base.

    Raises:
        ConfigError: a recording in the file was made with other models, prompts or settings; names them.
        TranscriptError: as the base.
    """

    def __init__(self, setup: dict[str, object], path: Path | None = None) -> None:
        self.recordings: dict[str, Trace] = {}
        self._setup = json.loads(json.dumps(setup))
        self._runs: dict[str, list[Transcript]] = {}
        super().__init__(path, RECORDINGS)

    def add(self, line: Trace | Transcript) -> None:
        """Keeps a line, and appends it to the file.

        Raises:
            TranscriptError: the file cannot be written.
        """
        self._append(line.to_json())
        self._take(line)

    def run(self, sha256: str, mode: Mode, settings: dict[str, object]) -> Transcript | None:
        """The last transcript of a clip in this mode under these settings, if there is one."""
        runs = reversed(self._runs.get(sha256, []))
        return next((run for run in runs if run.mode == mode and not any(differing(run.settings, settings))), None)

    def _read(self, stored: store.Store) -> None:
        for row in stored.lines():
            line = _parsed(row.raw, f"{stored.path}:{row.number}")
            if isinstance(line, Trace) and (changed := list(self._changes(line))):
                raise store.made_otherwise(stored.path, row.number, changed)
            self._take(line)

    def _changes(self, recording: Trace) -> Iterator[Change]:
        here, there = dict(self._setup), dict(recording.setup)
        ours, theirs = here.pop("models", {}), there.pop("models", {})
        if ours != theirs:
            yield from model_changes(Models.model_validate(theirs), Models.model_validate(ours))
        yield from differing(there, here)

    def _take(self, line: Trace | Transcript) -> None:
        if isinstance(line, Trace):
            self.recordings[line.sha256] = line
        elif line.sha256 is not None and line.error is None:
            models = line.models.model_dump()  # cloud-only has no edge
            same = all(model in (None, self._setup["models"].get(role)) for role, model in models.items())
            if same and (line.language, line.prompt) == (self._setup["language"], self._setup["prompt"]):
                self._runs.setdefault(line.sha256, []).append(line)


def _parsed(raw: bytes, place: str) -> Trace | Transcript:
    try:
        return Trace.model_validate_json(raw) if raw.startswith(_RECORDING) else Transcript.from_json(raw, place)
    except ValidationError as error:
        hint = "Name another file in --recordings."
        raise TranscriptError(f"{place} is no recording of this version of specdec.", hint=hint) from error
