"""`-o` by its ending and `specdec export`: files that other tools open, and what stays as it was."""

from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.captioning.output_file import Output
from specdec_cli.transcript import Transcript
from tests.cli.harness import QUICK, Outcome
from tests.mini_pair import captioner, write_voice
from tests.support.transcripts import write
from tests.tiers import few, named, slow

Run = Callable[..., Outcome]
BEGINS = {
    "srt": "1\n00:00:00,000 --> ", "vtt": "WEBVTT\n", "TextGrid": 'File type = "ooTextFile"', "eaf": "<?xml",
    "csv": "\ufeffname,id,file", "svg": "<svg ",
}  # fmt: skip


@pytest.fixture(params=few(["caption", "batch"]))
def run(request, specdec) -> Run:
    return lambda *given, **how: specdec(request.param, *given, *QUICK, **how)


@pytest.fixture
def clip(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    return write_voice(tmp_path / "0.wav", 0, 0.4)


@pytest.mark.parametrize("ending", named(BEGINS, "srt", "TextGrid", "eaf"))
def test_the_ending_says_what_is_written(run, specdec, clip, ending):
    assert run(clip, "-o", "t.jsonl").code == 0
    outcome = run(clip, "-o", f"0.{ending}")
    assert outcome.code == 0, outcome.err
    text = Path(f"0.{ending}").read_text("utf-8")
    assert text.startswith(BEGINS[ending])
    if ending != "eaf":  # which has the time of its making
        specdec("export", "t.jsonl", "-o", f"e/0.{ending}")
        assert text == Path(f"e/0.{ending}").read_text("utf-8")
    assert not list(Path("tmp").iterdir())
    assert Path("0.jsonl").is_file()


def test_several_recordings_and_one_that_is_broken(run, clip):
    write_voice(clip.with_name("1.wav"), 1, 0.4)
    Path("2.wav").write_bytes(b"RIFF" + bytes(40))
    assert run("0.wav", "1.wav", "2.wav", "-o", "all.csv").code == 1
    assert Path("all.csv").read_text("utf-8").count("\n") == 4
    assert run("2.wav", "-o", "2.srt").code == 1
    assert not Path("2.srt").exists()


def test_a_long_batch_keeps_its_captions_beside_the_export_from_the_first_one_on(specdec, clip, monkeypatch):
    """What a killed run leaves: transcripts, which the same command goes on from."""
    write_voice(clip.with_name("1.wav"), 1, 0.4)
    real = Output.add

    def killed(self: Output, *given: object) -> None:
        real(self, *given)
        raise SystemExit(137)

    with monkeypatch.context() as patched:
        patched.setattr(Output, "add", killed)
        patched.setattr("specdec_cli.cli.outputs.Outputs.write", lambda *_: True)
        assert specdec("batch", "0.wav", "1.wav", *QUICK, "-o", "all.csv").code == 137
    assert (Path("all.jsonl").read_text("utf-8").count("\n"), Path("all.csv").exists()) == (1, False)
    outcome = specdec("batch", "0.wav", "1.wav", *QUICK, "-o", "all.csv")
    assert (outcome.code, "1 done before" in outcome.err) == (0, True), outcome.err
    assert Path("all.csv").read_text("utf-8").count("\n") == 3


# --- the command ---


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
