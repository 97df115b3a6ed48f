"""Which captions of a file of transcripts count, and with which class as the right one."""

from pathlib import Path
from typing import Any

import pytest

from specdec_cli.calibrate.decisions import read_decisions
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from specdec_cli.transcript.records import ErrorInfo
from tests.export.lines import piece, write


def captioned(named: str, sad: float, **more: Any) -> str:
    """A line of a.wav whose caption names an emotion; `sad`: the probability of that class."""
    scores = {"emotion": {"by": "edge", "classes": {"sad": sad, "happy": 1 - sad}, "other": 0.0}}
    return piece(None, None, file="a.wav", labels={"emotion": named}, scores=scores, **more)


def read(folder: Path, *lines: str) -> list[tuple[str, str, float]]:
    """Mode, class in the caption and probability of "sad" of each decision; "sad" is right."""
    table = folder / "truth.csv"
    table.write_text("file,emotion\na.wav,sad\n")
    references = References.read(table, lexicon=Lexicon.load())
    found = list(read_decisions([write(folder, *lines)], references))
    assert {decision.truth for decision in found} <= {"sad"}
    return [(decision.mode, decision.named, decision.classes["sad"]) for decision in found]


def test_of_a_clip_that_was_captioned_again_the_last_caption_counts(tmp_path):
    failed = piece(None, None, file="a.wav", error=ErrorInfo(type="CloudError", message="gone"))
    lines = [captioned("happy", 0.4, degraded="the cloud failed"), captioned("sad", 0.7), failed]
    assert read(tmp_path, *lines) == [("edge", "sad", 0.7)]


def test_captions_of_several_modes_all_count(tmp_path):
    lines = [
        captioned("sad", 0.6, mode="edge"),
        captioned("sad", 0.9, mode="cloud"),
        captioned("sad", 0.8, mode="edge"),
    ]
    assert sorted(read(tmp_path, *lines)) == [("cloud", "sad", 0.9), ("edge", "sad", 0.8)]


def test_an_earlier_calibration_is_undone(tmp_path):
    scores = {"emotion": {"by": "edge", "classes": {"sad": 0.8, "happy": 0.2}, "other": 0.0, "temperature": 2.0}}
    ((_, _, sad),) = read(tmp_path, piece(None, None, file="a.wav", labels={"emotion": "sad"}, scores=scores))
    assert sad == pytest.approx(0.8**2 / (0.8**2 + 0.2**2))
