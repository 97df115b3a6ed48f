"""The file of recordings: read back, and refused where it was made otherwise or is something else."""

import pytest

from specdec_cli.errors import ConfigError, TranscriptError
from specdec_cli.tune.recording import StoredRecordings
from tests.tune.recorded import trace_of

SETUP: dict[str, object] = {"prompt": "p", "language": "en", "models": {}}


def test_recordings_made_otherwise_are_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    with StoredRecordings(SETUP, path) as journal:
        journal.add(trace_of(0))
    with pytest.raises(ConfigError, match=r"r\.jsonl:1 was made with other settings: language was .en. and is .zh."):
        StoredRecordings({**SETUP, "language": "zh"}, path)
    with StoredRecordings(SETUP, path) as journal:
        assert list(journal.recordings) == [trace_of(0).sha256]


@pytest.mark.parametrize("line", ['{"recording": 1}', '{"recording":1,"file":"a', '{"schema":1,"file":"/a.wav"}', "[]"])
def test_a_damaged_line_is_refused_with_its_number(tmp_path, line):
    path = tmp_path / "r.jsonl"
    path.write_text(before := f"{trace_of(0).model_dump_json()}\n{line}\n", encoding="utf-8")
    with pytest.raises(TranscriptError, match=r"r.jsonl:2 (was not recorded|is not a transcript)"):
        StoredRecordings(SETUP, path)
    assert path.read_text("utf-8") == before
