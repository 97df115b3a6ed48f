"""`specdec plot`: what a picture says, that it is readable text, and what is refused."""

import json
import os
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.plot.picture import _SETTINGS
from tests.export.lines import piece, write
from tests.mini_pair import captioner, write_voice


def rounds(*entropies: float) -> list[dict[str, Any]]:
    """Blocks with these entropies; from 1 nat they are escalated."""
    known = {"draft_ids": [1], "draft_text": "a", "gate_values": [], "reason": None, "accepted": 0}
    known |= {"committed_ids": [1]} | {
        "committed_text": "a", "source": ["edge"], "draft_ms": 1.0, "verify_ms": None, "network_ms": None,
    }  # fmt: skip
    return [
        {**known, "index": index, "entropy": [entropy], "max_entropy": entropy, "escalated": entropy >= 1.0}
        for index, entropy in enumerate(entropies)
    ]


def with_rounds(line: str, *entropies: float) -> str:
    return json.dumps(json.loads(line) | {"rounds": rounds(*entropies)}, ensure_ascii=False, separators=(",", ":"))


def talk(folder: Path) -> Path:
    """A recording of two speakers, with all that transcripts may have."""
    more = {"measured": {"f0_median_hz": 210.0, "level_dbfs": -20.5, "rate_per_s": None}, "needs_review": True}
    return write(
        folder,
        with_rounds(
            piece(0, 2, labels={"emotion": "happy"}, speaker="安娜 $1$", agrees={"pitch": False}, **more), 0.2, 1.5
        ),
        with_rounds(piece(2.5, 4, labels={"emotion": "sad"}, speaker="Bob <b>"), 0.4),
        with_rounds(piece(130, 140, labels={"emotion": None}, speaker="Bob <b>", flags=["no_speech"])),
    )


def words(svg: Path) -> list[str]:
    """The texts of a picture; all of it is well-formed."""
    return ["".join(e.itertext()) for e in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_a_picture_says_all_that_is_known(specdec, tmp_path):
    outcome = specdec("plot", talk(tmp_path), "-o", tmp_path / "p.svg")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    found = words(tmp_path / "p.svg")
    assert {"会议 1", "emotion", "happy (1)", "sad (1)", "not named (1)", "安娜 $1$", "Bob <b>", "time, min:s"} <= {
        *found
    }
    assert {
        "needs review", "no description", "caption contradicts it", "block kept", "block escalated to the cloud",
        "entropy, nats",
    } <= {*found}  # fmt: skip
    assert {"median F0, Hz", "dBFS"} <= {*found}
    assert "syllables/s" not in found  # which nobody measured
    before = (tmp_path / "p.svg").read_bytes()
    assert specdec("plot", tmp_path / "captions.jsonl", "-o", tmp_path / "p.svg").code == 0
    assert (tmp_path / "p.svg").read_bytes() == before


@pytest.mark.ci
def test_a_png_is_as_large_as_a_page_and_tells_missing_fonts(specdec, tmp_path, monkeypatch):
    monkeypatch.setitem(_SETTINGS, "font.family", ["DejaVu Sans"])
    outcome = specdec("plot", talk(tmp_path), "--to", "png", "-o", tmp_path / "out", ends=0)
    assert "install Noto Sans CJK" in outcome.err
    picture = (tmp_path / "out" / "会议 1.png").read_bytes()
    width, height = struct.unpack(">II", picture[16:24])
    assert picture.startswith(b"\x89PNG")
    assert (width, height > 600) == (1650, True)


@pytest.mark.ci
def test_transcripts_of_a_run_without_labels(specdec, tmp_path):
    pair = captioner(audio__segment=1.0, prompt__language="zh")
    runs = [run.finish() for run in pair.runs(str(write_voice(tmp_path / "talk.wav", 1, 2.5))) if [*run]]
    write(tmp_path, *(run.to_json() for run in runs))
    assert specdec("plot", "captions.jsonl").code == 0
    found = words(tmp_path / "captions-plot" / "talk.svg")
    emotions = [Lexicon.load().labels(run.caption or "", "zh")["emotion"] or "not named" for run in runs]
    assert {f"{emotion} ({emotions.count(emotion)})" for emotion in emotions} <= {*found}
    assert "time, s" in found


def test_names_that_are_no_text_are_written_out(specdec, tmp_path):
    name = os.fsdecode(b"n\xff")
    lines = write(tmp_path, piece(None, None, file=f"/data/{name}.wav"), piece(None, None, file="/data/b\nb.wav"))
    lines = lines.rename(tmp_path / f"{name}.jsonl")
    assert specdec("plot", lines, "-o", tmp_path / "out").code == 0
    assert {"2 recordings of n\\udcff.jsonl", "1 n\\udcff", "2 b b"} <= {*words(tmp_path / "out" / "overview.svg")}
    (alone := tmp_path / "alone.jsonl").write_text(lines.read_text().splitlines()[0])
    assert specdec("plot", alone, "-o", tmp_path / "alone.svg").code == 0
    assert "n\\udcff" in words(tmp_path / "alone.svg")
