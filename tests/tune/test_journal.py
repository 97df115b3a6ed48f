"""The file of recordings: read back, resumed after a torn line, and blind to what was made otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.errors import ConfigError, TranscriptError
from specdec_cli.tune.recording import Trace
from specdec_cli.tune.stored_recordings import StoredRecordings
from tests.tune.recorded import trace_of

SETUP: dict[str, object] = {"prompt": "p", "language": "en", "models": {}}


def add(setup: dict[str, object], path: Path, recording: Trace) -> None:
    with StoredRecordings(setup, path) as journal:
        journal.add(recording)


def read(setup: dict[str, object], path: Path) -> dict[str, Trace]:
    with StoredRecordings(setup, path) as journal:
        return journal.recordings


def test_recordings_made_otherwise_are_refused_unless_there_are_others(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    add(SETUP, path, trace_of(0))
    with pytest.raises(ConfigError, match=r"r\.jsonl:1 was made with other settings: language was .en. and is .zh."):
        StoredRecordings({**SETUP, "language": "zh"}, path)
    with path.open("a") as file:  # as 0.1 kept both in one file
        file.write(trace_of(1).model_copy(update={"setup": {**SETUP, "language": "zh"}}).to_json() + "\n")
    assert len(read(SETUP, path)) == len(read({**SETUP, "language": "zh"}, path)) == 1


def test_another_file_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"a": 1}\n{"recording": 1}\n', encoding="utf-8")
    with pytest.raises(TranscriptError, match=r"r.jsonl:1 is no"):
        StoredRecordings(SETUP, path)
