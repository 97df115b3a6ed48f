"""The file of recordings: read back, resumed after a torn line, and blind to what was made otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.errors import ConfigError, TranscriptError
from specdec_cli.tune.journal import Journal
from specdec_cli.tune.trace import Trace
from tests.tune.recorded import trace_of

SETUP: dict[str, object] = {"prompt": "p", "language": "en", "models": {}}


def add(setup: dict[str, object], path: Path, recording: Trace) -> None:
    with Journal(setup, path) as journal:
        journal.add(recording)


def read(setup: dict[str, object], path: Path) -> dict[str, Trace]:
    with Journal(setup, path) as journal:
        return journal.recordings


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Journal(SETUP, path) as journal:
        for number in range(3):
            journal.add(trace_of(number))
    assert read(SETUP, path) == journal.recordings


def test_recordings_made_otherwise_are_refused_unless_there_are_others(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    add(SETUP, path, trace_of(0))
    with pytest.raises(ConfigError, match=r"r\.jsonl:1 was made with other settings: language was .en. and is .zh."):
        Journal({**SETUP, "language": "zh"}, path)
    with path.open("a") as file:  # as 0.1 kept both in one file
        file.write(trace_of(1).model_copy(update={"setup": {**SETUP, "language": "zh"}}).to_json() + "\n")
    assert len(read(SETUP, path)) == len(read({**SETUP, "language": "zh"}, path)) == 1


def test_settings_that_do_nothing_count_as_left_open(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    former = SETUP | {"repetition_penalty": 1.0, "no_repeat_ngram": 0, "min_new_tokens": 0}
    add(former, path, trace_of(0).model_copy(update={"setup": former}))
    now = SETUP | {"repetition_penalty": None, "no_repeat_ngram": None, "min_new_tokens": None}
    assert len(read(now, path)) == 1
    for changed in ({"repetition_penalty": 1.1}, {"suggested": {"edge": {"repetition_penalty": 1.1}}}):
        with pytest.raises(ConfigError, match="repetition_penalty"):
            Journal(now | changed, path)


def test_a_torn_last_line_is_passed_over_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    add(SETUP, path, trace_of(0))
    line = trace_of(1).to_json()
    for cut in (1, 40, len(line) // 2, len(line) - 1):
        torn = path.read_bytes() + line.encode()[:cut]
        other = tmp_path / f"{cut}.jsonl"
        other.write_bytes(torn)
        with Journal(SETUP, other) as journal:
            assert len(journal.recordings) == 1
            journal.add(trace_of(2))
        assert len(read(SETUP, other)) == 2


def test_another_file_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"a": 1}\n{"recording": 1}\n', encoding="utf-8")
    with pytest.raises(TranscriptError, match=r"r.jsonl:1 is no"):
        Journal(SETUP, path)


def test_an_end_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    add(SETUP, path, trace_of(0))
    content = path.read_bytes() + b"notes of mine"
    path.write_bytes(content)
    with pytest.raises(TranscriptError, match="something else"):
        Journal(SETUP, path)
    assert path.read_bytes() == content
