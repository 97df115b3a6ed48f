"""Transcripts that earlier versions wrote are read; what they hold beyond today's fields is dropped."""

from pathlib import Path

import pytest

from specdec_cli.transcript.earlier import settings_of
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


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ({"k": 5, "defer": True, "wake": 1.0}, {"k": "whole", "wake": 1.0}),
        ({"k": 5, "defer": None}, {"k": 5}),
        ({"acceptance": "rank", "rank": 4, "prob": 0.1}, {"acceptance": "rank:4"}),
        ({"acceptance": "prob", "rank": 3, "prob": 0.25}, {"acceptance": "prob:0.25"}),
        ({"acceptance": "greedy", "rank": 3, "prob": 0.1}, {"acceptance": "greedy"}),
        ({"loop_repeats": 3, "loop_top_k": 10, "edge_failed": "fail", "degrade": None}, {}),
        ({"loop_repeats": 2, "loop_top_k": 10}, {"loop_repeats": 2}),
        ({"acceptance": "rank:4", "k": "whole"}, {"acceptance": "rank:4", "k": "whole"}),
    ],
)
def test_settings_of_earlier_lines_have_todays_names(then, now):
    """So that a run resumes captions that were made with the same settings, whatever they were called."""
    assert settings_of(then) == now
