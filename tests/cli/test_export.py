"""`specdec export`, and `--export` of caption and batch: from recordings to files that other tools open."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from specdec_cli.transcript import Transcript
from tests.cli.conftest import Specdec
from tests.export.lines import write
from tests.mini_pair import RATE, captioner, write_voice
from tests.tiers import in_ci
from tests.transcript.lines import read_transcripts

QUICK = ("--mode", "edge", "--set", "decoding.max_new_tokens=4")


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
    ("command", "name"),
    [
        (("export", "--to", "csv"), "captions.xlsx"),
        (("export", "--to", "textgrid"), "x.srt"),
        (("export", "--to", "audformat"), "x.csv"),
        in_ci((("plot",), "pic.jpg")),
        in_ci((("plot", "--to", "svg"), "pic.png")),
        (("plot",), "new/pic.webp"),
    ],
)
def test_an_ending_that_is_not_written_makes_no_folder(
    specdec: Specdec, transcripts: Path, command: tuple[str, ...], name: str
) -> None:
    outcome = specdec(*command[:1], "captions.jsonl", *command[1:], "-o", name)
    assert (outcome.code, "Traceback" in outcome.err) == (2, False)
    assert not (transcripts.parent / name).exists()
    if "audformat" not in command:
        (transcripts.parent / name).mkdir(parents=True)  # a folder that is there is meant
        assert specdec(*command[:1], "captions.jsonl", *command[1:], "-o", name).code == 0


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


def test_caption_exports_what_its_output_holds_also_where_nothing_could_be_captioned(
    specdec: Specdec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    soundfile.write("silent.wav", np.zeros(RATE, np.float32), RATE)
    for code in (1, 0):  # the second run finds it done
        assert specdec("caption", "silent.wav", "-o", "one.jsonl", "--export", "csv", *QUICK).code == code
        assert "silent.wav is silent" in Path("one-export/one.csv").read_text("utf-8")
        shutil.rmtree("one-export")
