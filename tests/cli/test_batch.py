"""`specdec batch`: what goes where and how it ends, beside what it does like `caption` (`test_captioning`)."""

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.captioner import Captioner
from specdec_cli.captioning.output_file import Output
from specdec_cli.transcript import Transcript
from tests.cli.conftest import LOAD
from tests.cli.harness import QUICK, Outcome, telling
from tests.mini_pair import captioner, write_voice
from tests.support.transcripts import read_transcripts
from tests.tiers import slow

Batch = Callable[..., Outcome]
OUTPUT = Path("out.jsonl")


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Path:
    """Two folders with recordings of the same names, of different lengths, which every test leaves as they are."""
    folder = tmp_path_factory.mktemp("clips")
    for index, name in enumerate(("ann/1.wav", "ann/2.wav", "bob/1.wav", "bob/2.wav", "bob/3.wav")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_voice(folder / name, index, 0.6 + 0.3 * (index % 3))
    return folder


@pytest.fixture
def batch(specdec) -> Batch:
    """Run `specdec batch ARGUMENTS --output out.jsonl`."""
    return lambda *arguments, **how: specdec("batch", *arguments, "--output", OUTPUT, **how)


def by_name(output: Path, folder: Path) -> dict[str, Transcript]:
    return {os.path.relpath(line.file, folder): line for line in read_transcripts(output)}


@pytest.mark.parametrize(
    "flags",
    [
        ("--gate", "class-entropy"),
        slow((("--mode", "edge", "--set", "decoding.temperature=0.8"),)),
        pytest.param(("--threshold", "0.1"), marks=pytest.mark.slow),
        pytest.param(
            ("--gate", "entropy", "-k", "2", "--set", "gate.stop_drafting=true"),
            marks=pytest.mark.slow,
        ),
        pytest.param(("--mode", "lossless", "-l", "en", "-k", "auto"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_transcripts_are_those_of_the_single_command(batch, specdec, clips, flags):
    size = ("--batch-size", "1", "--set", "runtime.workers=1") if "0.1" in flags else ("--set", "runtime.workers=3")
    assert batch(clips, "-r", *flags, *size).code == 0
    together = by_name(OUTPUT, clips)
    assert specdec("caption", *(clips / name for name in together), *flags, "--output", "single.jsonl").code == 0
    alone = by_name(Path("single.jsonl"), clips)
    assert len(together) == 5
    assert "edge" in flags or any(round_.escalated for line in alone.values() for round_ in line.rounds)
    for name, line in together.items():
        assert line.labels
        assert telling(line) == telling(alone[name]), name


def test_captions_that_contradict_the_sound_are_marked_in_lines_and_exports(batch, clips):
    """No rate fits the lexicon of the test, so that every caption with a rate contradicts the sound."""
    words = {"figure": "rate_per_s", "classes": {name: {"least": 99} for name in ("slow", "moderate", "fast")}}
    lexicon = Path("words.yaml")
    lexicon.write_text(
        json.dumps({"schema": 1, "extends": "default", "attributes": {"rate": {"measured": [words]}}}), "utf-8"
    )
    asked = ("--threshold", "9", "--lexicon", lexicon, "--export", "csv,textgrid")
    assert batch(clips / "ann", *asked).code == 0
    lines = by_name(OUTPUT, clips / "ann")
    assert len(lines) == 2
    for name, line in lines.items():
        assert line.agrees["rate"] is False
        assert "contradicts" in line.flags
        assert '"contradicts"' in (Path("out-export") / name).with_suffix(".TextGrid").read_text("utf-8")
    assert Path("out-export/out.csv").read_text("utf-8").count("contradicts") == 2


def test_a_manifest_brings_ids_languages_and_prompts(batch, clips):
    manifest, none = Path("list.tsv"), Path("none.wav")
    english = "Summarise the speaker's voice and emotion in one English sentence."
    rows = [
        ("file", "id", "language", "prompt"),
        (f"{clips}/ann/1.wav", "a-zh", "", ""),
        (f"{clips}/ann/1.wav", "a-en", "en", ""),
        (f"{clips}/bob/1.wav", "b/1", "en", english),
        ("none.wav", "gone", "", ""),
    ]
    manifest.write_text("\n".join("\t".join(row) for row in rows), "utf-8")
    asked = ("--manifest", manifest, "--mode", "edge")
    assert batch(*asked, "--export", "srt").code == 1
    lines = {line.id: line for line in read_transcripts(OUTPUT)}
    assert set(lines) == {"a-zh", "a-en", "b/1", "gone"}
    for id_, settings in (
        ("a-zh", {}),
        ("a-en", {"prompt__language": "en"}),
        ("b/1", {"prompt__language": "en", "prompt__force": True, "prompt__instruction": english}),
    ):
        expected = captioner(decoding__mode="edge", **settings).caption(lines[id_].file)
        assert (lines[id_].caption, lines[id_].prompt) == (expected.caption, expected.prompt), id_
    assert sorted(path.read_text("utf-8").count(" --> ") for path in Path("out-export").rglob("*.srt")) == [1, 2]
    assert "0 captioned  1 failed  3 done before" in batch(*asked).err
    write_voice(none, 5)
    assert batch("--retry-failed", "--mode", "edge").code == 0
    assert {line.id for line in read_transcripts(OUTPUT)} == set(lines)
    manifest.write_text(manifest.read_text("utf-8").replace("a-zh\t\t", "a-zh\ten\t"), "utf-8")
    outcome = batch(*asked)
    assert (outcome.code, "language was 'zh' and is 'en'" in outcome.err) == (2, True)


def test_the_first_failure_may_end_it(batch):
    Path("many").mkdir()
    for index in range(40):
        write_voice(Path(f"many/{index:02d}.wav"), index, 0.3)
    Path("broken.wav").write_bytes(b"-")
    settings = ("--set", "runtime.fail_fast=true", "--set", "runtime.workers=1", *QUICK)
    assert batch("broken.wav", "many", *settings).code == 1
    lines = list(read_transcripts(OUTPUT))
    assert sum(line.error is not None for line in lines) == 1
    assert len(lines) < 20


def test_an_output_in_use_is_left_alone(batch, clips):
    with Output(OUTPUT, lambda _: ()):
        outcome = batch(clips, "-r", loads=False)
    assert (outcome.code, "being written by another run" in outcome.err) == (3, True)


def test_a_batch_that_cannot_load_its_models_drops_nothing(batch, clips, monkeypatch):
    assert batch(clips / "ann", *QUICK).code == 0
    done = OUTPUT.read_bytes()
    monkeypatch.setattr(Captioner, "load", LOAD)
    assert batch(clips / "ann", "--overwrite", "--set", "edge.model=./none").code == 3
    assert OUTPUT.read_bytes() == done


def test_quiet_is_failures_alone_with_how_to_caption_those_again(batch, clips):
    assert batch(clips / "ann", "-q", *QUICK).err == ""
    Path("broken.wav").write_bytes(b"RIFF" + bytes(40))
    *errors, retry = batch("broken.wav", clips / "bob" / "1.wav", "none.wav", "-q", *QUICK).err.splitlines()
    assert {line.split()[1] for line in errors if line.startswith("error: ")} == {"broken.wav", "none.wav"}
    assert len(errors) == 2
    assert retry.startswith("hint: To caption just those again: specdec batch ")
    assert "--retry-failed" in retry


def test_a_resumed_run_guesses_from_its_output(batch, clips):
    assert batch(clips / "ann" / "1.wav", "--mode", "edge").code == 0
    first = next(iter(read_transcripts(OUTPUT)))
    assert first.totals.guesses_kept == 0, "it has nothing to guess from"
    outcome = batch(clips / "bob" / "1.wav", "--mode", "edge")
    assert outcome.code == 0, outcome.err
    found = {Path(line.file).parent.name: line for line in read_transcripts(OUTPUT)}["bob"]
    assert (found.totals.guesses_kept or 0) > 0
    plain = captioner(decoding__mode="edge", decoding__guess_tokens=0).caption(clips / "bob" / "1.wav")
    assert found.caption == plain.caption


def test_lines_that_an_earlier_version_made_without_classes_and_figures_are_resumed(specdec, recordings):
    assert specdec("batch", *recordings[:2], "-o", "out.jsonl", "-q").code == 0
    lines = [json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()]
    for name in ("labels", "emotions", "scores", "needs_review", "measured", "agrees"):
        lines[0].pop(name, None)
    Path("out.jsonl").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), "utf-8")
    outcome = specdec("batch", *recordings, "-o", "out.jsonl", "-q", "--labels", "--export", "csv")
    assert outcome.code == 0, outcome.err
    with Path("out-export/out.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["label_rate"]) for row in rows] == [True] * len(recordings)
    assert [bool(row["measured_level_dbfs"]) for row in rows] == [False, *[True] * (len(recordings) - 1)]
