"""What `caption` and `batch` do alike: inputs, resuming, counts, exports and exit codes."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile

from specdec_cli.batch.tasks import Outcome, Progress
from specdec_cli.captioner import Captioner
from specdec_cli.cli.captioning import command_line
from specdec_cli.console.progress import show_counts, show_warnings
from specdec_cli.console.view import View
from specdec_cli.inputs.recording import InputFile
from tests.batch.lines import good_line
from tests.cli.conftest import Specdec
from tests.cli.harness import Outcome as Ended
from tests.console.screens import Screen
from tests.mini_pair import RATE, voice, write_voice
from tests.transcript.lines import read_transcripts

QUICK = ("--mode", "edge", "--set", "decoding.max_new_tokens=4")
Run = Callable[..., Ended]


@pytest.fixture(params=["caption", "batch"])
def run(request: pytest.FixtureRequest, specdec: Specdec, tmp_path: Path) -> Run:
    """Either command with an output."""
    return lambda *given: specdec(request.param, *given, *QUICK, "-o", tmp_path / "out.jsonl")


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    (tmp_path / "clips").mkdir()
    for index in range(4):
        write_voice(tmp_path / "clips" / f"{index}.wav", index, 0.4)
    write_voice(tmp_path / "clips" / "other.flac", 5, 0.4)
    return tmp_path / "clips"


def captioned(folder: Path) -> list[str]:
    return sorted(Path(line.file).name for line in read_transcripts(folder / "out.jsonl") if line.caption is not None)


def test_the_first_recordings_alone(run: Run, clips: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the same command again does nothing more
        assert run(clips, "--limit", "2").code == 0
        assert captioned(tmp_path) == ["0.wav", "1.wav"]
    outcome = run(clips, "--limit", "3")
    assert "1 captioned" in outcome.err
    assert "2 done before" in outcome.err
    assert captioned(tmp_path) == ["0.wav", "1.wav", "2.wav"]


def test_patterns_manifests_exports_and_a_new_start(run: Run, clips: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    assert run(clips, "--glob", "*.flac", "--export", "txt", "--export-dir", texts).code == 0
    assert captioned(tmp_path) == ["other.flac"]
    assert [path.name for path in texts.rglob("*.txt")] == ["other.txt"]
    (tmp_path / "m.csv").write_text("file,id\nclips/0.wav,a\nclips/1.wav,b\n")
    assert run("--manifest", tmp_path / "m.csv", "--overwrite").code == 0
    assert {line.id for line in read_transcripts(tmp_path / "out.jsonl")} == {
        "a",
        "b",
    }  # a batch writes as clips finish


def test_what_failed_or_was_degraded_is_made_again(run: Run, clips: Path, tmp_path: Path) -> None:
    whole = (clips / "2.wav").read_bytes()
    (clips / "2.wav").write_bytes(whole[:60])
    assert run(clips).code == 1
    output = tmp_path / "out.jsonl"
    lines = list(read_transcripts(output))
    lines = [line.model_copy(update={"degraded": "x"} if "0.wav" in line.file else {}) for line in lines]
    output.write_text("".join(line.to_json() + "\n" for line in lines), "utf-8")
    assert "4 done before" in run(clips).err  # another run makes what failed again, and leaves what is degraded
    (clips / "2.wav").write_bytes(whole)
    degraded = [line.file for line in read_transcripts(tmp_path / "out.jsonl") if line.degraded]
    assert len(degraded) == 1
    outcome = run("--retry-failed")
    assert outcome.code == 0, outcome.err
    assert "2 captioned" in outcome.err
    found = list(read_transcripts(tmp_path / "out.jsonl"))
    assert len(found) == 5
    assert not any(line.degraded or line.error for line in found)


def test_a_wrong_name_is_2_and_a_broken_recording_1(run: Run, clips: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.wav").write_bytes(b"RIFF" + bytes(40))
    for files, code in ((["none.wav"], 2), ([tmp_path / "broken.wav"], 1), ([clips / "0.wav", "none.wav"], 1)):
        outcome = run(*files)
        assert outcome.code == code, outcome.err
        assert outcome.err.count("error: ") == 1
    assert captioned(tmp_path) == ["0.wav"]


def test_recordings_and_pieces_are_counted(run: Run, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "long.wav", voice(1, 2.0), RATE)
    outcome = run(tmp_path / "long.wav", "--segment", "1")
    assert "1 captioned (2 pieces)" in outcome.err
    again = run(tmp_path / "long.wav", "--segment", "1")
    assert "0 captioned  1 done before" in again.err


def test_an_overwritten_output_has_to_be_named(specdec: Specdec, clips: Path) -> None:
    outcome = specdec("caption", clips, "--overwrite")
    assert (outcome.code, "--overwrite is about --output" in outcome.err) == (2, True)


def pieces(number: int, file: str = "long.wav", **more: object) -> list[Outcome]:
    line = good_line(file, duration_s=30.0, **more)
    return [Outcome(InputFile(file), line, of=number, of_s=30.0 * number) for _ in range(number)]


def test_a_long_recording_shows_how_much_of_its_audio_is_done() -> None:
    screen = Screen(100)
    view, counts = View(screen, "lines", clock=iter(range(0, 10_000, 20)).__next__), Progress(total=1)
    for outcome in pieces(40)[:10]:
        counts.add(outcome)
    assert (counts.done, counts.reached) == (0, 0.25)
    assert counts.under_way == (300.0, 1200.0)
    assert counts.left_s == pytest.approx(3 * counts.elapsed_s, rel=0.1)
    show_counts(view, counts)
    assert "0 of 1, 5 min 00 s of 20 min 00 s of audio" in screen.output


def test_the_pace_counts_from_when_models_are_loaded(run: Run, clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr("specdec_cli.cli.captioning.Progress", counts)
    monkeypatch.setattr(Captioner, "load", slowly)
    assert run(clips / "0.wav").code == 0
    assert (len(made), len(loaded)) == (1, 1)
    assert made[0].started >= loaded[0]


def test_warnings_of_a_kind_are_one_line_and_name_three_files() -> None:
    screen, counts = Screen(200), Progress()
    for index in range(5):
        (outcome,) = pieces(1, f"{index}.wav", warnings=(f"{index}.wav ends {index}.5 s early",))
        counts.add(outcome)
    show_warnings(View(screen, "errors"), counts)
    (line,) = [line for line in screen.lines if "early" in line]
    assert line == "warning: 0.wav ends 0.5 s early (also 1.wav, 2.wav and 2 more)"


def test_options_are_added_in_front_of_a_double_hyphen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", ["specdec", "batch", "-o", "o.jsonl", "--overwrite", "--", "-x.wav", "--overwrite"]
    )
    expected = "specdec batch -o o.jsonl --retry-failed -- -x.wav --overwrite"
    assert command_line("--retry-failed") == expected


@pytest.mark.parametrize("given", [["-c"], ["specdec"], ["specdec", "--", "--overwrite"]])
def test_a_command_line_without_a_command_can_be_named_too(monkeypatch: pytest.MonkeyPatch, given: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", given)
    assert command_line("--retry-failed") == " ".join(["specdec", "--retry-failed", *given[1:]])
