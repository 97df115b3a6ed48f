"""The file of recordings: read back, resumed after a torn line, and blind to what was made otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.errors import TranscriptError
from specdec_cli.tune.journal import Journal
from tests.tune.recorded import trace_of

SETUP: dict[str, object] = {"prompt": "p", "language": "en", "models": {}}


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    journal = Journal(SETUP, path)
    for number in range(3):
        journal.add(trace_of(number))
    again = Journal(SETUP, path)
    assert again.recordings == journal.recordings
    assert Journal({**SETUP, "language": "zh"}, path).recordings == {}


def test_settings_that_do_nothing_count_as_left_open(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    former = SETUP | {"repetition_penalty": 1.0, "no_repeat_ngram": 0, "min_new_tokens": 0}
    Journal(former, path).add(trace_of(0).model_copy(update={"setup": former}))
    now = SETUP | {"repetition_penalty": None, "no_repeat_ngram": None, "min_new_tokens": None}
    assert len(Journal(now, path).recordings) == 1
    assert Journal(now | {"repetition_penalty": 1.1}, path).recordings == {}
    assert Journal(now | {"suggested": {"edge": {"repetition_penalty": 1.1}}}, path).recordings == {}


def test_a_torn_last_line_is_passed_over_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    Journal(SETUP, path).add(trace_of(0))
    line = trace_of(1).to_json()
    for cut in (1, 40, len(line) // 2, len(line) - 1):
        torn = path.read_bytes() + line.encode()[:cut]
        other = tmp_path / f"{cut}.jsonl"
        other.write_bytes(torn)
        journal = Journal(SETUP, other)
        assert len(journal.recordings) == 1
        journal.add(trace_of(2))
        assert len(Journal(SETUP, other).recordings) == 2


def test_another_file_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"a": 1}\n{"recording": 1}\n', encoding="utf-8")
    with pytest.raises(TranscriptError, match=r"r.jsonl:1 is neither"):
        Journal(SETUP, path)


def test_an_end_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    Journal(SETUP, path).add(trace_of(0))
    content = path.read_bytes() + b"notes of mine"
    path.write_bytes(content)
    with pytest.raises(TranscriptError, match="something else"):
        Journal(SETUP, path)
    assert path.read_bytes() == content
