"""What was recorded and run already: kept in memory, and in a file from which a later run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from specdec_cli.errors import TranscriptError
from specdec_cli.transcript.schema import Transcript, differing
from specdec_cli.transcript.writer import TRANSCRIPT, append_line, mend
from specdec_cli.tune.trace import Trace

_RECORDING: Final = '{"recording"'
_BEGINNINGS: Final = (TRANSCRIPT, _RECORDING.encode())


class Journal:
    """Recordings, and transcripts of the runs that confirmed a setting, by clip.

    Lines that were made with other models, prompts or settings are left alone: one file may serve several tunings.

    Args:
        setup: what recordings depend on; others do not count.
        path: file that they are read from and appended to, or None.

    Raises:
        TranscriptError: the file cannot be read, or a line is neither. A last line without its end is what an
            interruption left, and is cut off.
    """

    def __init__(self, setup: dict[str, object], path: Path | None = None) -> None:
        self.recordings: dict[str, Trace] = {}
        self._setup = json.loads(json.dumps(setup))
        self._runs: dict[str, list[Transcript]] = {}
        self._path = path
        if path is not None and path.exists():
            self._read(path)

    def add(self, line: Trace | Transcript) -> None:
        """Keeps a line, and appends it to the file.

        Raises:
            TranscriptError: the file cannot be written.
        """
        if self._path is not None:
            append_line(self._path, line.to_json())
        self._take(line)

    def run(self, sha256: str, settings: dict[str, object]) -> Transcript | None:
        """The transcript of a clip under these settings, if there is one."""
        runs = reversed(self._runs.get(sha256, []))
        return next((run for run in runs if not any(differing(run.settings, settings))), None)

    def _take(self, line: Trace | Transcript) -> None:
        if isinstance(line, Trace):
            if not any(differing(line.setup, self._setup)):
                self.recordings[line.sha256] = line
        elif line.sha256 is not None and line.error is None:
            made_with = line.models.model_dump(), line.language, line.prompt
            if made_with == (self._setup["models"], self._setup["language"], self._setup["prompt"]):
                self._runs.setdefault(line.sha256, []).append(line)

    def _read(self, path: Path) -> None:
        mend(path, _is_whole, _BEGINNINGS)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise TranscriptError(f"{path} cannot be read: {reason}.", hint="Name another --recordings.") from error
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                self._take(_parsed(line))
            except ValidationError as error:
                detail = error.errors(include_url=False, include_input=False)[0]
                where = ".".join(map(str, detail["loc"])) or "line"
                raise TranscriptError(
                    f"{path}:{number} is neither a recording nor a transcript: {where}: {detail['msg']}.",
                    hint="Name another file in --recordings.",
                ) from error
            except TranscriptError as error:
                raise TranscriptError(
                    f"{path}:{number} is neither a recording nor a transcript: {error.message}",
                    hint="Name another file in --recordings.",
                ) from error


def _parsed(line: str) -> Trace | Transcript:
    if line.startswith(_RECORDING):
        return Trace.model_validate_json(line)
    return Transcript.from_json(line)


def _is_whole(raw: bytes) -> bool:
    try:
        _parsed(raw.decode("utf-8"))
    except (ValueError, TranscriptError):
        return False
    return True
