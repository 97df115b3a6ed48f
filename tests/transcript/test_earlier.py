"""Transcripts that earlier versions wrote are read; what they hold beyond today's fields is dropped."""

from pathlib import Path

import pytest

from specdec_cli.transcript.lines import stored_lines, transcript_at

EARLIER = sorted((Path(__file__).parent / "earlier").glob("*.jsonl"))


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: path.stem)
def test_earlier_lines_are_read_and_written_as_todays(path):
    (line,) = stored_lines(path)
    transcript = transcript_at(path, line)
    assert transcript.good
    assert any(round_.escalated for round_ in transcript.rounds)
    assert type(transcript).from_json(transcript.to_json()) == transcript
    gone = ("hidden_ms", "thrown_away", "draft_ahead", "gate_weights", '"reason":"learned"')
    text = path.read_text(encoding="utf-8")
    assert any(name in text for name in gone)
    assert not any(name in transcript.to_json() for name in gone)
