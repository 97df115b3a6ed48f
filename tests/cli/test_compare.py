"""`specdec compare` on the mini pair: what it runs, what it goes on from, what it prints, how it ends."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from specdec_cli.evaluate.result import Comparison
from tests.cli.harness import Outcome
from tests.evaluate.fabricate import costs_of, quality_of
from tests.mini_pair import captioner

pytestmark = pytest.mark.xdist_group("compare")  # several look at one comparison

MODES = ("edge", "hybrid", "lossless", "cloud")
SHORT = ("--set", "decoding.max_new_tokens=16")
ASKING = ("--threshold", "0.05", *SHORT)
"""At this threshold the hybrid of untrained-on sounds asks now and then; texts are as short as they may be."""


@dataclass(frozen=True)
class Run:
    """One comparison of the three recordings, shared by all tests that look at it."""

    outcome: Outcome
    transcripts: Path
    settings: tuple[str | Path, ...]

    def again(self, folder: Path) -> tuple[str | Path, ...]:
        """Arguments that go on from a copy of its transcripts, with the same settings."""
        return (*self.settings, "-o", Path(shutil.copy(self.transcripts, folder / "again.jsonl")))


Runs = Callable[[str], Run]
"""Language -> the comparison in it."""


@pytest.fixture(scope="module")
def held() -> dict[str, Run]:
    """Holds the shared comparisons by language."""
    return {}


@pytest.fixture
def run(specdec, recordings, held, tmp_path_factory) -> Runs:
    """A comparison in a language."""

    def of(language: str) -> Run:
        if language not in held:
            output = tmp_path_factory.mktemp("compared") / "t.jsonl"
            settings = ("-l", language, *ASKING)
            held[language] = Run(specdec("compare", *recordings, "--json", *settings, "-o", output), output, settings)
        return held[language]

    return of


def compared(outcome_text: str) -> Comparison:
    return Comparison.model_validate_json(outcome_text)


@pytest.fixture(scope="module")
def truth(tmp_path_factory, recordings) -> Path:
    """A table that knows the mood of two recordings, and what was said of one."""
    path = tmp_path_factory.mktemp("truth") / "truth.tsv"
    names = [Path(recording).name for recording in recordings]
    path.write_text(f"clip\tmood\tnote\n{names[0]}\tsad\t他很悲伤。\n{names[1]}\thappy\t\n", encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("language", ["zh", pytest.param("en", marks=pytest.mark.slow)])
def test_every_mode_says_what_it_says_alone(run, recordings, language):
    outcome = run(language).outcome
    assert outcome.code == 0, outcome.err
    assert "12 of 12, 100%" in outcome.err
    found = compared(outcome.out)
    assert (found.language, tuple(found.modes)) == (language, MODES)
    assert [clip.file for clip in found.clips] == recordings
    for mode in MODES:
        settings = {"gate__threshold": 0.05} if mode == "hybrid" else {}
        alone = captioner(decoding__mode=mode, decoding__max_new_tokens=16, prompt__language=language, **settings)
        assert [clip.captions[mode] for clip in found.clips] == [alone.caption(path).caption for path in recordings]
    assert quality_of(found, "lossless").same_captions == 1
    edge, cloud = costs_of(found, "edge"), costs_of(found, "cloud")
    assert (edge.forwards_cloud.value, cloud.forwards_edge.value) == (None, None)
    assert cloud.total_s.to_edge is not None


@pytest.mark.slow
def test_a_second_run_does_only_what_is_missing(specdec, run, recordings, tmp_path):
    first = run("zh")
    arguments = ("compare", "--json", *first.again(tmp_path))
    output = tmp_path / "again.jsonl"
    whole = output.read_bytes()
    assert whole.count(b"\n") == 12
    again = specdec(*arguments, *recordings)
    assert (again.code, again.out) == (0, first.outcome.out)
    assert "loading edge" not in again.err  # nothing to do, so nothing is loaded
    assert output.read_bytes() == whole
    held = b"".join(line for line in whole.splitlines(keepends=True) if recordings[2].encode() not in line)
    output.write_bytes(held)
    more = specdec(*arguments, *recordings)
    assert "4 of 4, 100%" in more.err
    assert len(compared(more.out).clips) == 3


def test_a_broken_recording_is_one_error_and_costs_no_other(specdec, recordings, tmp_path):
    broken, output = tmp_path / "broken.wav", tmp_path / "t.jsonl"
    broken.write_bytes(b"RIFF nothing that sounds")
    arguments = ("compare", broken, recordings[0], tmp_path / "none.wav", "-o", output, *ASKING)
    outcome = specdec(*arguments, ends=1)
    assert outcome.err.count("error:") == 2
    assert "2 recordings left out" in outcome.out
    assert outcome.out.count("broken.wav") == 1
    again = specdec(*arguments, "--json", ends=1)
    assert "loading edge" not in again.err  # its bytes are the same: it would be broken again
    errors = compared(again.out).errors
    assert {Path(error.file).name for error in errors} == {"broken.wav", "none.wav"}
    assert all(error.modes == list(MODES) for error in errors)
    only = specdec("compare", broken, "--json")
    assert (only.code, compared(only.out).clips) == (1, [])
    missing = specdec("compare", tmp_path / "none.wav", "--json")
    assert (missing.code, compared(missing.out).clips) == (2, [])


def test_references_bring_accuracy_and_texts(specdec, run, recordings, truth, tmp_path):
    table = ("--references", truth, "--column", "file=clip", "--column", "emotion=mood", "--column", "text=note")
    flags = (*table, *run("zh").again(tmp_path))
    outcome = specdec("compare", *recordings, *flags, "--json", ends=0)
    found = compared(outcome.out)
    assert found.references_found == 2
    assert [clip.reference_labels.get("emotion") for clip in found.clips] == ["sad", "happy", None]
    for quality in found.quality:
        said = [clip.labels[quality.mode]["emotion"] for clip in found.clips[:2]]
        expected = sum(one == other for one, other in zip(said, ("sad", "happy"), strict=True)) / 2
        assert quality.labels["emotion"].accuracy.value == expected
        assert quality.text.clips == 1
    shown = specdec("compare", *recordings, *flags).out
    assert "references of 2" in shown
    assert "heard, right" in shown


def test_a_page_is_written(specdec, run, recordings, tmp_path):
    html = tmp_path / "report.html"
    outcome = specdec("compare", recordings[0], recordings[1], *run("zh").again(tmp_path), "-o", html, "-q", ends=0)
    text = html.read_text(encoding="utf-8")
    assert "<html" in text
    assert "voice 0.wav" in text
    assert outcome.err == ""
