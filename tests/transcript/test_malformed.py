"""Transcripts that somebody damaged: one error with file, line and field, whatever reads them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.captioning.output_file import Output
from specdec_cli.errors import TranscriptError
from specdec_cli.evaluate.running import StoredRuns
from specdec_cli.export.formats import export
from specdec_cli.export.recordings import Stored
from specdec_cli.labels import Lexicon
from specdec_cli.review.review_page import read_pieces
from specdec_cli.targets import Targets
from specdec_cli.transcript import Transcript
from tests.support.transcripts import good_line

DEEP = "[" * 100_000
DAMAGE: dict[str, str] = {
    "schema": "2", "file": '"\\u0000.wav"', "file ": '"\\ud83d.wav"', "file  ": "null", "id": "7", "sha256": "[]",
    "language": '"fr"', "mode": '"fast"', "caption": "[]", "labels": '{"emotion":[1]}', "labels ": '"happy"',
    "scores": "3", "scores ": '{"emotion":1}', "scores  ": '{"emotion":{"by":"edge","classes":{"a":"x"},"other":0}}',
    "start_s": "-1", "end_s": '"x"', "end_s ": "1e999", "recording_s": "1e300",
    "duration_s": "NaN", "piece": "-1", "pieces": "0",
    "models": "3", "models ": '{"edge":[],"cloud":null}', "settings": "[1]", "settings ": '{"k":Infinity}',
    "settings  ": DEEP, "settings   ": '{"k":' + "1" * 5000 + "}", "error": '"broken"',
    "error ": '{"type":3,"message":null}', "mood": '"calm"',
}  # fmt: skip
"""Field, with blanks to tell cases apart -> what stands there, as JSON or as what is none."""

READERS: dict[str, Callable[[Path], object]] = {
    "batch, caption": lambda path: Output(path, lambda _: ()),
    "compare": lambda path: StoredRuns(path, lambda _: ()),
    "export": lambda path: export(Stored.read(path), ["csv", "srt"], path.parent / "out", Targets()),
    "review": lambda path: read_pieces([path], Lexicon.read(), None),
}


def damaged(field: str) -> bytes:
    """A line with that field damaged."""
    values: dict[str, Any] = json.loads(good_line("/b.wav", duration_s=1.0).to_json())
    head = {"schema": values.pop("schema"), field.strip(): "HERE", **values}
    head[field.strip()] = "HERE"
    line = json.dumps(head, separators=(",", ":")).replace('"HERE"', DAMAGE[field], 1)
    return line.encode() + b"\n"


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_line_is_named_with_its_field_and_nothing_is_written(tmp_path, reader):
    path = tmp_path / "o.jsonl"
    healthy = good_line("/a.wav", duration_s=1.0).to_json().encode() + b"\n"
    for field in DAMAGE:
        path.write_bytes(content := healthy + damaged(field))
        with pytest.raises(TranscriptError, match=r"o\.jsonl:2 is not a transcript of schema 1: "):
            READERS[reader](path)
        assert path.read_bytes() == content, field
        assert [file.name for file in tmp_path.iterdir()] == ["o.jsonl"], field


@pytest.mark.parametrize("line", [b"{}", b"nonsense", b'[{"schema":1}]', b'{"schema":1}', b"\xff\xfe"])
def test_what_is_no_transcript_at_all_is_named_too(line):
    with pytest.raises(TranscriptError, match=r"x\.jsonl:3 is not a transcript of schema 1: "):
        Transcript.from_json(line, "x.jsonl:3")


@pytest.mark.parametrize("times", [{"end_s": 1.0}, {"start_s": 5.0}])
def test_times_of_no_piece_are_refused_by_what_needs_them(tmp_path, times):
    path = tmp_path / "o.jsonl"
    values = json.loads(good_line("/b.wav", start_s=1.0, end_s=2.0, duration_s=1.0).to_json()) | times
    path.write_text(json.dumps(values, separators=(",", ":")) + "\n")
    for reader in ("export", "review"):
        with pytest.raises(TranscriptError, match="does not say where its piece begins and ends"):
            READERS[reader](path)


def test_a_recording_without_a_line_end_is_no_half_transcript(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFF$\xfa\0\0WAVEfmt ")
    with pytest.raises(TranscriptError, match="is a recording"):
        Stored.read(path)
