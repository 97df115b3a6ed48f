"""`specdec export`: from transcripts to files that other tools open."""

from pathlib import Path

import pytest

from specdec_cli.transcript import Transcript
from tests.export.lines import write
from tests.mini_pair import captioner, write_voice
from tests.tiers import slow


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> list[Transcript]:
    """A recording in three pieces, captioned."""
    file = write_voice(tmp_path_factory.mktemp("long") / "talk.wav", 1, 2.5)
    pair = captioner(decoding__mode="edge", decoding__max_new_tokens=8, audio__segment=1.0)
    return [run.finish() for run in pair.runs(str(file)) if [*run]]


@pytest.fixture
def transcripts(lines, tmp_path) -> Path:
    return write(tmp_path, *(line.to_json() for line in lines))


def test_a_folder_named_after_the_transcripts(specdec, transcripts, lines):
    for _ in range(2):  # the second run finds its own files
        outcome = specdec("export", "captions.jsonl", "--to", "textgrid,srt,csv", loads=False)
        assert (outcome.code, outcome.out) == (0, "")
        assert "3 files in captions-export" in outcome.err
    folder = transcripts.parent / "captions-export"
    assert {path.name for path in folder.iterdir()} == {"talk.TextGrid", "talk.srt", "captions.csv"}
    text = (folder / "talk.srt").read_text("utf-8")
    assert all(" ".join((line.caption or "").split()) in text for line in lines)
    assert (text.count(" --> "), " --> 00:00:02,500\n" in text) == (len(lines), True)


def test_a_file_of_somebody_else_costs_itself_alone(specdec, transcripts):
    Path("taken").mkdir()
    Path("taken/captions.csv").write_text("mine")
    outcome = specdec("export", "captions.jsonl", "--to", "srt,csv", "-o", "taken")
    assert (outcome.code, outcome.err.count("error: ")) == (1, 1)
    assert (Path("taken/captions.csv").read_text(), Path("taken/talk.srt").exists()) == ("mine", True)


def test_one_file_by_its_ending_and_stdout(specdec, transcripts):
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
        slow((("export", "--to", "png"), "new/pic.webp")),
    ],
)
def test_an_ending_that_is_not_written_makes_no_folder(specdec, transcripts, command, name):
    outcome = specdec(*command[:1], "captions.jsonl", *command[1:], "-o", name)
    assert (outcome.code, "Traceback" in outcome.err) == (2, False)
    assert not (transcripts.parent / name).exists()
    (transcripts.parent / name).mkdir(parents=True)  # a folder that is there is meant
    assert specdec(*command[:1], "captions.jsonl", *command[1:], "-o", name).code == 0
