"""What commands say of tables and files of cuts: what was left out, what is refused, which columns they judge by."""

from __future__ import annotations

from pathlib import Path

import pytest
import soundfile

from tests.cli.conftest import Specdec
from tests.cli.harness import Outcome
from tests.cli.test_recordings import Run, lines, places, run, talk  # noqa: F401 (a fixture)
from tests.mini_pair import RATE

CUTS = "start,end,speaker\n0.7,1.5,ann\n2.0,2.0,bob\n2.2,3.0,bob\n3.0,2.5,bob\n"
LEFT_OUT = "2 entries were left out: cuts.csv, line 3 (it has no length: 2 s to 2 s), cuts.csv, line 5"


def said(outcome: Outcome) -> str:
    """Stderr on one line, without the folder of the files."""
    return " ".join(outcome.err.split()).replace(f"{Path.cwd()}/", "")


@pytest.mark.parametrize("quiet", [(), ("-q",)])
@pytest.mark.parametrize("command", ["caption", "batch"])
def test_rows_that_are_left_out_are_told_in_one_line_at_the_end(run: Run, command: str, quiet: tuple[str, ...]) -> None:  # noqa: F811
    Path("cuts.csv").write_text(CUTS)
    outcome = run(command, "talk.wav", "-o", "o.jsonl", "--segment", "cuts.csv", *quiet)
    assert outcome.code == 0
    assert places(lines()) == [(0.7, 1.5), (2.2, 3.0)]
    assert said(outcome).count("left out") == 1
    assert LEFT_OUT in said(outcome)


@pytest.mark.parametrize("command", ["caption", "batch"])
def test_strict_refuses_what_would_be_left_out(run: Run, command: str) -> None:  # noqa: F811
    Path("cuts.csv").write_text(CUTS)
    outcome = run(command, "talk.wav", "-o", "o.jsonl", "--segment", "cuts.csv", "--strict")
    assert outcome.code == 2
    assert "cuts.csv, line 3: it has no length" in said(outcome)
    assert not Path("o.jsonl").exists()


@pytest.mark.parametrize("strict", [False, True])
def test_a_manifest_is_told_and_refused_alike(run: Run, strict: bool) -> None:  # noqa: F811
    Path("m.csv").write_text("file,start,end\ntalk.wav,0.7,1.5\n,0,1\ntalk.wav,4,3\n")
    outcome = run("batch", "--manifest", "m.csv", "-o", "o.jsonl", *(["--strict"] if strict else []))
    assert outcome.code == (2 if strict else 0)
    assert ("2 entries were left out: m.csv, line" in said(outcome)) is not strict
    assert Path("o.jsonl").exists() is not strict


@pytest.mark.parametrize(("end", "told"), [("60", True), ("6.75", False), ("", False)])
def test_a_row_that_ends_behind_its_recording_is_told(run: Run, end: str, told: bool) -> None:  # noqa: F811
    Path("m.csv").write_text(f"file,start,end\ntalk.wav,2.2,{end}\n")
    total_s = len(talk(4)) / RATE
    outcome = run("batch", "--manifest", "m.csv", "-o", "o.jsonl")
    assert outcome.code == 0
    says = f"ends at {total_s:.2f} s, before its part does (at 60.00 s)"
    assert (says in " ".join(lines()[0].warnings)) is told
    assert ("before its part does" in said(outcome)) is told


@pytest.mark.parametrize("command", ["caption", "batch"])
def test_cuts_of_one_folder_are_not_those_of_another(run: Run, command: str) -> None:  # noqa: F811
    for folder in ("ann", "bob"):
        Path(folder).mkdir()
        soundfile.write(f"{folder}/1.wav", talk(2), RATE)
    Path("cuts.csv").write_text("file,start,end,speaker\nann/1.wav,0.7,1.5,ann\n")
    outcome = run(command, "ann/1.wav", "bob/1.wav", "-o", "o.jsonl", "--segment", "cuts.csv")
    assert outcome.code == 1
    ann, bob = sorted(lines(), key=lambda line: line.file)
    assert (ann.speaker, ann.error) == ("ann", None)
    assert bob.error is not None
    assert "cuts.csv has no cuts of" in bob.error.message


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_commands_print_the_columns_that_they_judge_by(run: Run, specdec: Specdec, quiet: tuple[str, ...]) -> None:  # noqa: F811
    Path("r.csv").write_text("file,caption,EmoClass\ntalk.wav,A calm voice.,A\nother.wav,An angry voice.,X\n")
    judged = ("--references", "r.csv", "--label-codes", "MSP-Podcast", "--max-new-tokens", "4", *quiet)
    outcome = specdec("compare", "talk.wav", "-o", "t.jsonl", *judged)
    assert outcome.code == 0
    columns = "r.csv: emotion from EmoClass, text from caption, emotion by the codes of MSP-Podcast"
    assert (columns in said(outcome)) is not bool(quiet)


def test_files_that_are_linked_in_circles_come_once(run: Run) -> None:  # noqa: F811
    Path("d").mkdir()
    soundfile.write("d/talk.wav", talk(1), RATE)
    Path("d/one").symlink_to(".")
    Path("d/two").symlink_to("../d")
    outcome = run("batch", "d", "--recursive", "--glob", "**", "-o", "o.jsonl")
    assert outcome.code == 0
    assert len(lines()) == 1
