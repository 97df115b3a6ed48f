"""`-o` of caption, batch and listen by its ending: exports in one go, and what stays as it was."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.harness import QUICK, Outcome
from tests.mini_pair import write_voice
from tests.tiers import few, named

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
    from specdec_cli.captioning.output_file import Output

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
