"""`specdec batch`: what goes where, what is left out the next time, and how it ends."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from specdec_cli.batch.output_file import Output
from specdec_cli.captioner import Captioner
from specdec_cli.transcript import Transcript
from tests.cli.conftest import Specdec
from tests.cli.harness import Outcome, telling
from tests.mini_pair import RATE, captioner, voice, write_voice
from tests.tiers import few, in_ci
from tests.transcript.lines import read_transcripts

Batch = Callable[..., Outcome]
QUICK = ("--mode", "edge", "--set", "decoding.max_new_tokens=4")
"""Settings that make a caption cheap, for tests of what is around it."""


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    return two_folders(tmp_path / "clips")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, for tests that leave them as they are."""
    return two_folders(tmp_path_factory.mktemp("shared") / "clips")


@pytest.fixture
def done(shared: Path, batch: Batch, output: Path) -> bytes:
    """What a run over them has written to the output; made once."""
    kept = shared.parent / "done.jsonl"
    if not kept.exists():
        assert batch(shared, "-r", *QUICK).code == 0
        shutil.copy(output, kept)
    shutil.copy(kept, output)
    return kept.read_bytes()


def two_folders(folder: Path) -> Path:
    """Two folders with recordings of the same names, of different lengths."""
    for index, name in enumerate(("ann/1.wav", "ann/2.wav", "bob/1.wav", "bob/2.wav", "bob/3.wav")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_voice(folder / name, index, 0.6 + 0.3 * (index % 3))
    (folder / "notes.txt").write_text("not a recording")
    return folder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


@pytest.fixture
def batch(specdec: Specdec, output: Path) -> Batch:
    """Run `specdec batch ARGUMENTS --output out.jsonl`."""
    return lambda *arguments: specdec("batch", *arguments, "--output", output)


def by_name(output: Path, folder: Path) -> dict[str, Transcript]:
    lines = list(read_transcripts(output))
    named = {os.path.relpath(line.file, folder): line for line in lines}
    assert len(named) == len(lines), "a recording is there twice"
    return named


def table_rows(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8-sig", newline="") as file:  # begins with a byte order mark
        return list(csv.DictReader(file))


def break_file(path: Path) -> bytes:
    whole = path.read_bytes()
    path.write_bytes(whole[:60])
    return whole


@pytest.mark.parametrize(
    "flags",
    [
        ("--gate", "package:mini/gate.json"),
        in_ci((("--mode", "edge", "--set", "decoding.temperature=0.8"),)),
        pytest.param(("--threshold", "0.1"), marks=pytest.mark.full),
        pytest.param(
            ("--gate", "entropy", "--set", "decoding.defer=false", "--set", "gate.stop_drafting=true"),
            marks=pytest.mark.full,
        ),
        # without guesses it always drafts; with them, measured times decide whether the cloud writes a clip alone
        pytest.param(("--mode", "lossless", "-l", "en", "--set", "decoding.guess_tokens=0"), marks=pytest.mark.full),
    ],
    ids=" ".join,
)
def test_transcripts_are_those_of_the_single_command(
    batch: Batch, specdec: Specdec, clips: Path, output: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    flags = (*flags, "--labels")
    size = ("--batch-size", "1", "--set", "runtime.workers=1") if "0.1" in flags else ("--set", "runtime.workers=3")
    assert batch(clips, "-r", *flags, *size).code == 0
    single = tmp_path / "single.jsonl"
    files = [clips / name for name in by_name(output, clips)]
    assert specdec("caption", *files, *flags, "--output", single).code == 0
    together, alone = by_name(output, clips), by_name(single, clips)
    assert len(together) == 5
    assert "edge" in flags or any(round_.escalated for line in alone.values() for round_ in line.rounds)
    for name, line in together.items():
        assert line.labels
        assert telling(line) == telling(alone[name]), name


def test_a_new_file_and_a_changed_one_are_captioned_and_no_other(batch: Batch, clips: Path, output: Path) -> None:
    batch(clips, "-r", *QUICK)
    before = by_name(output, clips)
    write_voice(clips / "ann" / "2.wav", 70)
    write_voice(clips / "new.wav", 71)
    os.utime(clips / "bob" / "1.wav")  # touched, not changed
    outcome = batch(clips, "-r", *QUICK)
    assert "2 captioned  4 done before" in outcome.err
    after = by_name(output, clips)
    assert len(after) == 6
    assert {name for name in before if after[name] != before[name]} == {"ann/2.wav"}


def test_changed_settings_are_named_and_refused_unless_overwritten(
    batch: Batch, shared: Path, output: Path, done: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for flags, said in (
        (["-k", "7"], " and is 7"),
        (["-l", "en"], "language was 'zh' and is 'en'"),
        (["--segment", "2"], "segment_s was null and is 2.0"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(Captioner, "load", lambda *_, **__: pytest.fail("loaded"))
            outcome = batch(shared, "-r", *QUICK, *flags)
        assert (outcome.code, output.read_bytes()) == (2, done)
        assert said in outcome.err
        assert "hint: " in outcome.err
    assert batch(shared / "ann", *QUICK, "-l", "en", "--overwrite").code == 0
    assert [line.language for line in read_transcripts(output)] == ["en", "en"]


def test_a_bad_file_is_a_line_and_costs_nothing_else(batch: Batch, clips: Path, output: Path) -> None:
    whole = break_file(clips / "ann" / "1.wav")
    (clips / "none.wav").symlink_to(clips / "gone.wav")
    outcome = batch(clips, "-r", *QUICK)
    assert outcome.code == 1
    lines = by_name(output, clips)
    assert {name: line.error.type for name, line in lines.items() if line.error} == {
        "ann/1.wav": "AudioDecodeError",
        "none.wav": "AudioNotFoundError",
    }
    assert outcome.err.count("error: ") == 2
    assert "4 captioned" in outcome.err
    assert "2 failed" in outcome.err
    retry = outcome.err.splitlines()[-1]
    assert retry.startswith("hint: To caption just those again: specdec batch ")
    assert "--retry-failed" in retry
    assert "none.wav" not in retry
    (clips / "ann" / "1.wav").write_bytes(whole)
    kept = {name: line for name, line in lines.items() if not line.error}
    outcome = batch("--retry-failed", *QUICK)
    assert outcome.code == 1
    assert "1 captioned" in outcome.err
    lines = by_name(output, clips)
    assert [name for name, line in lines.items() if line.error] == ["none.wav"]
    assert {name: lines[name] for name in kept} == kept
    fresh = captioner(decoding__mode="edge", decoding__max_new_tokens=4).caption(clips / "ann" / "1.wav")
    assert lines["ann/1.wav"].settings == fresh.settings
    assert lines["ann/1.wav"].caption == fresh.caption


def test_exports_mirror_the_folders(batch: Batch, clips: Path, output: Path, tmp_path: Path) -> None:
    break_file(clips / "bob" / "3.wav")
    texts = tmp_path / "texts"
    for _ in range(2):  # the second run has nothing to caption and exports all the same
        assert batch(clips, "-r", *QUICK, "--export", "csv,txt", "--export-dir", texts).code == 1
        lines = by_name(output, clips)
        rows = {row["name"]: row for row in table_rows(texts / f"{output.stem}.csv")}
        assert set(rows) == set(lines)
        assert rows["bob/3.wav"]["error"].startswith("AudioDecodeError: ")
        found = {str(path.relative_to(texts)): path.read_text("utf-8") for path in texts.rglob("*.txt")}
        good = {name: line.caption for name, line in lines.items() if line.caption}
        assert found == {f"{name.removesuffix('.wav')}.txt": f"{caption}\n" for name, caption in good.items()}
        assert all(rows[name]["caption"] == (line.caption or "") for name, line in lines.items())
        shutil.rmtree(texts)


def test_captions_that_contradict_the_sound_are_marked_in_lines_and_exports(
    batch: Batch, shared: Path, output: Path, tmp_path: Path
) -> None:
    """No rate fits the lexicon of the test, so that every caption with a rate contradicts the sound."""
    words = {"figure": "rate_per_s", "classes": {name: {"least": 99} for name in ("slow", "moderate", "fast")}}
    lexicon = tmp_path / "words.yaml"
    lexicon.write_text(
        json.dumps({"schema": 1, "extends": "default", "attributes": {"rate": {"measured": [words]}}}), "utf-8"
    )
    texts = tmp_path / "texts"
    asked = ("--threshold", "1", "--lexicon", lexicon, "--export", "csv,textgrid", "--export-dir", texts)
    assert batch(shared / "ann", *asked).code == 0
    lines, rows = by_name(output, shared / "ann"), table_rows(texts / f"{output.stem}.csv")
    assert len(lines) == len(rows) == 2
    for line in lines.values():
        assert line.agrees is not None
        assert line.agrees["rate"] is False
        assert "contradicts" in line.flags
        assert {each.reason for each in line.rounds if each.escalated} == {"sound"}
    assert ["contradicts" in row["flags"] for row in rows] == [True, True]
    for name in lines:
        assert '"contradicts"' in (texts / name).with_suffix(".TextGrid").read_text("utf-8")


def test_a_manifest_brings_ids_languages_and_prompts(batch: Batch, clips: Path, output: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "list.tsv"
    english = "Summarise the speaker's voice and emotion in one English sentence."
    rows = [
        ("file", "id", "language", "prompt"),
        ("clips/ann/1.wav", "a-zh", "", ""),
        ("clips/ann/1.wav", "a-en", "en", ""),
        (str(clips / "bob/1.wav"), "b/1", "en", english),
        ("clips/none.wav", "none", "", ""),
    ]
    manifest.write_text("\n".join("\t".join(row) for row in rows), "utf-8")
    outcome = batch("--manifest", manifest, "--mode", "edge", "--export", "txt", "--export-dir", tmp_path / "texts")
    assert outcome.code == 1
    lines = {line.id: line for line in read_transcripts(output)}
    assert set(lines) == {"a-zh", "a-en", "b/1", "none"}
    for id_, settings in (
        ("a-zh", {}),
        ("a-en", {"prompt__language": "en"}),
        ("b/1", {"prompt__language": "en", "prompt__force": True, "prompt__text": english}),
    ):
        expected = captioner(decoding__mode="edge", **settings).caption(lines[id_].file)
        assert (lines[id_].caption, lines[id_].prompt) == (expected.caption, expected.prompt), id_
    texts = tmp_path / "texts"
    found = {str(path.relative_to(texts)): path.read_text("utf-8").count("\n") for path in texts.rglob("*.txt")}
    assert found == {"ann/1.txt": 2, "bob/1.txt": 1}
    outcome = batch("--manifest", manifest, "--mode", "edge")
    assert "0 captioned" in outcome.err
    assert "3 done before" in outcome.err
    write_voice(clips / "none.wav", 5)
    assert batch("--retry-failed", "--mode", "edge").code == 0
    assert {line.id for line in read_transcripts(output)} == set(lines)
    manifest.write_text(manifest.read_text("utf-8").replace("a-zh\t\t", "a-zh\ten\t"), "utf-8")
    outcome = batch("--manifest", manifest, "--mode", "edge")
    assert outcome.code == 2
    assert "language was 'zh' and is 'en'" in outcome.err


def test_the_first_failure_may_end_it(batch: Batch, tmp_path: Path, output: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for index in range(40):
        write_voice(folder / f"{index:02d}.wav", index, 0.3)
    (tmp_path / "broken.wav").write_bytes(b"-")
    outcome = batch(
        tmp_path / "broken.wav", folder, "--set", "runtime.fail_fast=true", "--set", "runtime.workers=1", *QUICK
    )
    assert outcome.code == 1
    lines = list(read_transcripts(output))
    assert sum(line.error is not None for line in lines) == 1
    assert len(lines) < 20


@pytest.mark.parametrize("command", ["caption", "batch"])
def test_what_has_nothing_to_describe_is_not_tried_again(
    specdec: Specdec, tmp_path: Path, output: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = np.concatenate([voice(1, 2.0), np.zeros(2 * RATE, np.float32)])
    for name, samples in (("part", part), ("silent", np.zeros(RATE, np.float32)), ("short", voice(1, 0.05))):
        soundfile.write(tmp_path / f"{name}.wav", samples, RATE)
    files = [tmp_path / f"{name}.wav" for name in ("part", "silent", "short")]
    run = lambda: specdec(command, *files, "--segment", "2", *QUICK, "-o", output)  # noqa: E731
    assert run().code == 1
    before = output.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Captioner, "load", lambda *_, **__: pytest.fail("loaded"))
        outcome = run()
    assert (outcome.code, output.read_bytes()) == (0, before)
    assert "3 done before (2 without a caption)" in outcome.err
    write_voice(files[1], 2, 1.0)  # another content is captioned
    assert run().code == 0
    assert sum(line.caption is not None for line in read_transcripts(output)) == 2


def test_an_output_in_use_or_of_another_kind_is_left_alone(
    batch: Batch, clips: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Captioner, "load", lambda *_, **__: pytest.fail("loaded"))
    with Output(output, None):
        outcome = batch(clips, "-r")
        assert outcome.code == 3
        assert "being written by another run" in outcome.err
    for text in ("notes", json.dumps({"a": 1}) + "\n"):
        output.write_text(text)
        assert batch(clips, "-r").code == 2
        assert output.read_text() == text


def test_a_batch_that_cannot_load_its_models_drops_nothing(
    batch: Batch, shared: Path, output: Path, done: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    outcome = batch(shared, "-r", "--overwrite", "--set", f"edge.model={tmp_path / 'none'}")
    assert outcome.code == 3
    assert output.read_bytes() == done


def test_quiet_is_failures_alone(batch: Batch, clips: Path) -> None:
    assert batch(clips / "ann", "-q", *QUICK).err == ""
    break_file(clips / "bob" / "1.wav")
    errors = batch(clips / "bob", "-q", *QUICK).err.splitlines()
    assert [line.split(":")[0] for line in errors] == ["error", "hint"]


@pytest.mark.parametrize("named", few([True, False]))
def test_a_resumed_run_guesses_from_its_output_and_from_transcripts_that_it_is_given(
    batch: Batch, specdec: Specdec, clips: Path, output: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    earlier, shipped = output.with_name("earlier.jsonl"), output.with_name("captions.json")
    shipped.write_text('{"weights": {}, "captions": {}}')
    monkeypatch.setattr("specdec_cli.pair_loading.SHIPPED_CAPTIONS", shipped)
    assert specdec("batch", clips / "ann", "--mode", "edge", "--output", earlier if named else output).code == 0
    arguments = (
        clips / "bob" / "1.wav",
        "--mode",
        "edge",
        *(("--set", f"runtime.guess_file={earlier}") if named else ()),
    )
    outcome = batch(*arguments)
    assert outcome.code == 0, outcome.err
    found = {Path(line.file).parent.name: line for line in read_transcripts(output)}["bob"]
    assert found.totals is not None
    assert (found.totals.guesses_kept or 0) > 0
    plain = captioner(decoding__mode="edge", decoding__guess_tokens=0).caption(clips / "bob" / "1.wav")
    assert found.caption == plain.caption
