"""What `caption` and `batch` do alike: inputs, resuming, counts, exports and exit codes."""

import csv
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from specdec_cli.captioner import Captioner
from specdec_cli.captioning.tasks import Outcome, Progress
from specdec_cli.cli.captions import command_line
from specdec_cli.console.progress import show_counts
from specdec_cli.console.view import View
from specdec_cli.inputs.recording import InputFile
from specdec_cli.transcript import Transcript
from tests.audio.files import PLACES, REFUSED
from tests.cli.harness import QUICK
from tests.cli.harness import Outcome as Ended
from tests.console.screens import Screen
from tests.mini_pair import RATE, captioner, voice, write_voice
from tests.support.transcripts import good_line, read_transcripts
from tests.tiers import few

Run = Callable[..., Ended]
OUTPUT = Path("out.jsonl")


@pytest.fixture(params=few(["batch", "caption"]))
def run(request, specdec) -> Run:
    """Either command with an output."""
    return lambda *given, **how: specdec(request.param, *given, *QUICK, "-o", OUTPUT, **how)


@pytest.fixture
def clips(tmp_path) -> Path:
    """Two folders with recordings of the same names, and a note."""
    for seed, name in enumerate(("ann/1.wav", "ann/2.wav", "bob/1.wav", "bob/2.flac")):
        (tmp_path / "clips" / name).parent.mkdir(parents=True, exist_ok=True)
        write_voice(tmp_path / "clips" / name, seed, 0.4)
    (tmp_path / "clips" / "notes.txt").write_text("not a recording")
    return tmp_path / "clips"


def break_file(path: Path) -> bytes:
    whole = path.read_bytes()
    path.write_bytes(b"RIFF" + bytes(56))
    return whole


def by_name(folder: Path) -> dict[str, Transcript]:
    lines = list(read_transcripts(OUTPUT))
    named = {os.path.relpath(line.file, folder): line for line in lines}
    assert len(named) == len(lines), "a recording is there twice"
    return named


def test_a_renamed_folder_is_done_and_stands_in_the_output_once(run, clips):
    """What becomes of the lines is in `tests.captioning.test_outputs_machine`."""
    assert run(clips, "-r").code == 0
    write_voice(clips / "ann" / "3.wav", 71, 0.4)
    moved = clips.rename(clips.with_name("moved"))
    outcome = run(moved, "-r")
    assert "1 captioned  4 done before" in outcome.err
    assert "4 recordings done before under another name" in outcome.err
    assert len(by_name(moved)) == 5
    assert "0 captioned  5 done before" in run(moved, "-r", loads=False).err


def test_what_failed_costs_nothing_else_and_is_made_again_like_what_was_degraded(run, clips):
    whole = break_file(clips / "ann" / "1.wav")
    (clips / "none.wav").symlink_to(clips / "gone.wav")
    outcome = run(clips, "-r")
    assert outcome.code == 1
    lines = by_name(clips)
    assert {name: line.error.type for name, line in lines.items() if line.error} == {
        "ann/1.wav": "AudioDecodeError",
        "none.wav": "AudioNotFoundError",
    }
    assert outcome.err.count("error: ") == 2
    assert "3 captioned  2 failed" in outcome.err
    degraded = [
        line.model_copy(update={"degraded": "x"} if "bob/1.wav" in line.file else {}) for line in lines.values()
    ]
    OUTPUT.write_text("".join(f"{line.to_json()}\n" for line in degraded), "utf-8")
    (clips / "ann" / "1.wav").write_bytes(whole)
    outcome = run("--retry-failed")
    assert (outcome.code, "2 captioned" in outcome.err) == (1, True), outcome.err
    after = by_name(clips)
    assert [name for name, line in after.items() if line.error or line.degraded] == ["none.wav"]
    assert {name for name in lines if after[name] == lines[name]} >= {"ann/2.wav", "bob/2.flac"}
    fresh = captioner(decoding__mode="edge", decoding__max_new_tokens=4).caption(clips / "ann" / "1.wav")
    assert (after["ann/1.wav"].settings, after["ann/1.wav"].caption) == (fresh.settings, fresh.caption)


@pytest.mark.parametrize(
    ("names", "code", "said"),
    [
        (["none.wav"], 2, ["none.wav does not exist."]),
        (["none.wav", "gone.wav", "none.wav"], 2, ["none.wav does not exist.", "gone.wav does not exist."]),
        (["nothing*.wav"], 2, ["nothing*.wav matches no file."]),
        (["n" * 300], 2, ["nnn"]),
        (["--manifest", "m.csv"], 2, ["none.wav does not exist."]),
        (["broken.wav"], 1, ["broken.wav"]),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, list) else None,
)
def test_where_nothing_can_be_opened_nothing_is_loaded_or_written(run, names, code, said):
    Path("broken.wav").write_bytes(b"RIFF" + bytes(40))
    Path("m.csv").write_text("file\nnone.wav\n")
    outcome = run(*names, loads=False)
    assert (outcome.code, outcome.err.count("error: ")) == (code, len(said))
    assert all(text in outcome.err for text in said), outcome.err
    assert "--retry-failed" not in outcome.err
    assert not OUTPUT.exists()  # a name that is mended would stay there as a failure


def test_patterns_and_exports_that_mirror_the_folders(run, clips):
    break_file(clips / "bob" / "1.wav")
    for _ in range(2):  # the second run has nothing to caption and exports all the same
        assert run(f"{clips}/**/[12].*", "--export", "csv,srt,eaf").code == 1
        lines = by_name(clips)
        with Path("out-export/out.csv").open(encoding="utf-8-sig", newline="") as file:  # begins with a byte order mark
            rows = {row["name"]: row for row in csv.DictReader(file)}
        assert list(rows) == ["ann/1.wav", "ann/2.wav", "bob/1.wav", "bob/2.flac"]  # in the order of the input
        assert rows["bob/1.wav"]["error"].startswith("AudioDecodeError: ")
        assert all(rows[name]["caption"] == (line.caption or "") for name, line in lines.items())
        good = {str(Path(name).with_suffix("")): line.caption for name, line in lines.items() if line.caption}
        folder = Path("out-export")
        found = {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*.srt")}
        assert all(caption in found[f"{name}.srt"].replace("\n", " ") for name, caption in good.items())
        assert {str(path.relative_to(folder)) for path in folder.rglob("*.eaf")} == {f"{n}.eaf" for n in good}
        assert len(found) == len(good)
        shutil.rmtree(folder)


def test_what_has_nothing_to_describe_is_exported_and_not_tried_again(run):
    part = np.concatenate([voice(1, 2.0), np.zeros(2 * RATE, np.float32)])
    for name, samples in (("part", part), ("silent", np.zeros(RATE, np.float32)), ("short", voice(1, 0.05))):
        soundfile.write(f"{name}.wav", samples, RATE)
    asked = ("part.wav", "silent.wav", "short.wav", "--segment", "2", "--export", "csv")
    assert run(*asked).code == 1
    before = OUTPUT.read_bytes()
    shutil.rmtree("out-export")
    outcome = run(*asked, loads=False)
    assert (outcome.code, OUTPUT.read_bytes()) == (0, before)
    assert "3 done before (2 without a caption)" in outcome.err
    assert "silent.wav is silent" in Path("out-export/out.csv").read_text("utf-8")
    write_voice(Path("silent.wav"), 2, 1.0)  # another content is captioned
    assert run(*asked).code == 0
    assert sum(line.caption is not None for line in read_transcripts(OUTPUT)) == 2


def test_names_in_gbk_are_captioned_copied_and_retried(run, tmp_path):
    name = "说话人.wav".encode("gbk")
    path = write_voice(tmp_path / "0.wav", 0, 0.4).rename(tmp_path / os.fsdecode(name))
    assert run(".", "--export", "csv,srt").code == 0
    (text,) = OUTPUT.read_text("utf-8").splitlines()
    assert os.fsencode(json.loads(text)["file"]) == b"./" + name
    assert "0 captioned  1 done before" in run(".", "--export", "csv", "--export-dir", "tables").err
    assert Path("tables/out.csv").is_file()
    whole = break_file(path)
    assert run(".").code == 1
    path.write_bytes(whole)
    assert run("--retry-failed").code == 0
    assert [line.error for line in read_transcripts(OUTPUT)] == [None]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_one_run_over_malformed_recordings_captions_the_healthy_one(specdec):
    """Every fifth kind; `tests.audio` has the error of each."""
    errors = {name: case.error.__name__ for name, case in list(REFUSED.items())[::5]}
    for name in errors:
        Path(name).write_bytes(REFUSED[name].make())
    for name, make in PLACES.items():
        make(Path(name))
        errors |= {} if Path(name).is_dir() else {name: "AudioNotFoundError"}  # folders are refused before loading
    assert len(errors) > 18
    write_voice(Path("healthy.wav"), 1)
    names = list(errors)
    names.insert(len(names) // 2, "healthy.wav")
    outcome = specdec("caption", *names, "--output", "out.jsonl", ends=1)  # a pipe among them must not block it

    found = {line.file: line for line in read_transcripts(Path("out.jsonl"))}
    assert list(found) == names
    healthy = found.pop("healthy.wav")
    assert {name: line.error.type for name, line in found.items()} == errors
    assert all(Path(name).name in line.error.message for name, line in found.items())
    assert outcome.lines == [f"healthy.wav\t{healthy.caption}"]
    assert outcome.err.count("\nerror: ") == len(errors)
    assert f"\n1 captioned  {len(errors)} failed  " in outcome.err
    for line in outcome.err.splitlines():  # nothing of what decoders write themselves
        begins = ("error: ", "hint: ", "loading ", "Captions are in ", "captions are in ", "healthy.wav", "1 captioned")
        assert line.startswith(begins), line


def test_a_long_recording_shows_how_much_of_its_audio_is_done():
    screen = Screen(100)
    view, counts = View(screen, "lines", clock=iter(range(0, 10_000, 20)).__next__), Progress(total=1)
    counts.started -= 1000  # beside which nothing counts that this test takes
    for _ in range(10):
        counts.add(Outcome(InputFile("long.wav"), good_line("long.wav", duration_s=30.0), of=40, of_s=1200.0))
    assert (counts.done, counts.reached) == (0, 0.25)
    assert counts.under_way == (300.0, 1200.0)
    assert counts.left_s == pytest.approx(3 * counts.elapsed_s, rel=0.1)
    show_counts(view, counts)
    assert "0 of 1, 5 min 00 s of 20 min 00 s of audio" in screen.output


def test_the_pace_counts_from_when_models_are_loaded(run, clips, monkeypatch):
    made: list[Progress] = []
    loaded: list[float] = []
    load = Captioner.load

    def counts() -> Progress:
        made.append(Progress())
        return made[-1]

    def slowly(*given: Any, **settings: Any) -> Any:
        found = load(*given, **settings)
        loaded.append(time.monotonic())
        return found

    monkeypatch.setattr("specdec_cli.captioning.job.Progress", counts)
    monkeypatch.setattr(Captioner, "load", slowly)
    assert run(clips / "ann").code == 0
    assert (len(made), len(loaded)) == (1, 1)
    assert made[0].started >= loaded[0]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            ["specdec", "batch", "-o", "o.jsonl", "--overwrite", "--", "-x.wav", "--overwrite"],
            "specdec batch -o o.jsonl --retry-failed -- -x.wav --overwrite",
        ),
        (["-c"], "specdec --retry-failed"),
        (["specdec"], "specdec --retry-failed"),
        (["specdec", "--", "--overwrite"], "specdec --retry-failed -- --overwrite"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_options_are_added_behind_the_command_and_in_front_of_a_double_hyphen(monkeypatch, given, shown):
    monkeypatch.setattr(sys, "argv", given)
    assert command_line("--retry-failed") == shown
