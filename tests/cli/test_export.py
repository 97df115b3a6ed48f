"""`specdec export`, and `--export` of caption and batch: from recordings to files that other tools open."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.captioner import Captioner
from specdec_cli.transcript import Transcript
from tests.cli.conftest import Specdec
from tests.export.lines import piece, write
from tests.mini_pair import captioner, write_voice
from tests.transcript.lines import read_transcripts

QUICK = ("--mode", "edge", "--max-new-tokens", "4")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[Transcript]:
    """A recording in three pieces, captioned."""
    file = write_voice(tmp_path_factory.mktemp("long") / "talk.wav", 1, 2.5)
    pair = captioner(decoding__mode="edge", decoding__max_new_tokens=8, audio__segment=1.0)
    return [run.finish() for run in pair.runs(str(file)) if [*run]]


@pytest.fixture
def transcripts(lines: list[Transcript], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, *(line.to_json() for line in lines))


def test_a_folder_named_after_the_transcripts(specdec: Specdec, transcripts: Path, lines: list[Transcript]) -> None:
    for _ in range(2):  # the second run finds its own files
        outcome = specdec("export", "captions.jsonl", "--to", "textgrid,srt,csv")
        assert (outcome.code, outcome.out) == (0, "")
        assert "3 files in captions-export" in outcome.err
    folder = transcripts.parent / "captions-export"
    assert {path.name for path in folder.iterdir()} == {"talk.TextGrid", "talk.srt", "captions.csv", ".specdec-exports"}
    text = (folder / "talk.srt").read_text("utf-8")
    assert all(" ".join((line.caption or "").split()) in text for line in lines)
    assert (text.count(" --> "), " --> 00:00:02,500\n" in text) == (len(lines), True)


def test_one_file_by_its_ending_and_stdout(specdec: Specdec, transcripts: Path) -> None:
    assert specdec("export", "captions.jsonl", "-o", "talk.textgrid").code == 0
    printed = specdec("export", "captions.jsonl", "--to", "textgrid", "-o", "-")
    assert printed.out == (transcripts.parent / "talk.textgrid").read_text("utf-8")
    assert specdec("export", "captions.jsonl", "--to", "csv", "-o", "-").out.startswith("name,id,file")
    assert specdec("export", "captions.jsonl", "--to", "srt", "-o", "new/folder", "-q").err == ""
    assert (transcripts.parent / "new/folder/talk.srt").exists()


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["captions.jsonl"], "Neither --to nor the ending of --output names a format", 2),
        (["a.wav"], "a.wav looks like a recording, not like transcripts: caption it first", 3),
        (["captions.jsonl", "--to", "praat"], "--to: there is no format 'praat'", 2),
        (["captions.jsonl", "--to", ","], "--to: no format is named", 2),
        (["captions.jsonl", "--to", "srt,vtt", "-o", "x.srt"], "is one file, and --to srt,vtt is more", 2),
        (["captions.jsonl", "--to", "audformat", "-o", "-"], "is one file, and --to audformat is more", 2),
        (["captions.jsonl", "--to", "srt", "-o", "captions.jsonl"], "captions.jsonl is not a folder", 2),
        (["captions.jsonl", "--to", "rttm", "--rttm-name", "pitch"], "no pitch to name them by", 1),
        (["captions.jsonl", "-o", "mine.srt"], "was left as it is", 1),
        (["captions.jsonl", "-o", "mine.csv"], "holds something else than tables", 3),
        (["mine.csv", "--to", "srt"], "mine.csv:1 is no transcript", 3),
        (["none.jsonl", "--to", "srt"], "none.jsonl cannot be read", 3),
        (["two.jsonl", "-o", "x.srt"], "two.jsonl has several recordings", 2),
        (["captions.jsonl", "--to", "srt", "--mode", "cloud"], "no captions", 2),
    ],
)
def test_what_cannot_be_exported(
    specdec: Specdec, transcripts: Path, arguments: list[str], said: str, code: int
) -> None:
    for name in ("mine.csv", "mine.srt"):
        Path(name).write_text("mine\n")
    write_voice(Path("a.wav"), 1, 0.4)
    Path("two.jsonl").write_text(f"{piece(0, 1)}\n{piece(0, 1, file='/data/b.wav')}\n", "utf-8")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    outcome = specdec("export", *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert said in outcome.err
    assert "hint: " in outcome.err
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_caption_and_batch_export_when_they_end(
    specdec: Specdec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_voice(tmp_path / "a.wav", 1, 0.4)
    assert specdec("caption", "a.wav", "-o", "one.jsonl", "--export", "vtt", *QUICK).code == 0
    (caption,) = (line.caption for line in read_transcripts(tmp_path / "one.jsonl"))
    assert Path("one-export/a.vtt").read_text("utf-8").endswith(f"00:00:00.400\n{caption}\n")
    assert specdec("caption", "a.wav", "-o", "one.jsonl", "--export", "srt", *QUICK).code == 0  # it is done before
    assert Path("one-export/a.srt").read_text("utf-8").endswith(f"00:00:00,400\n{caption}\n")
    outcome = specdec("batch", "a.wav", "-o", "o.jsonl", "--export", "eaf,csv", "--export-dir", "out", *QUICK)
    assert outcome.code == 0
    assert "2 files in out" in outcome.err
    assert {path.name for path in Path("out").iterdir()} == {"a.eaf", "o.csv", ".specdec-exports"}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["caption", "a.wav", "--export", "srt"], "--export reads --output"),
        (["caption", "a.wav", "-o", "o.jsonl", "--export", "praat"], "--export: there is no format 'praat'"),
        (["batch", "a.wav", "-o", "o.jsonl", "--export-dir", "x"], "--export-dir is about --export"),
        (["batch", "a.wav", "-o", "o.jsonl", "--export", "srt", "--export-dir", "a.wav"], "a.wav is not a folder"),
    ],
)
def test_exports_are_refused_before_loading(
    specdec: Specdec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_voice(tmp_path / "a.wav", 1, 0.4)
    monkeypatch.setattr(Captioner, "load", lambda *_, **__: pytest.fail("loaded"))
    outcome = specdec(*command)
    assert (outcome.code, outcome.err.count("error: ")) == (2, 1)
    assert said in outcome.err
