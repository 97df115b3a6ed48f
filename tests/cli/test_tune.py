"""`specdec tune` on the mini pair: what it finds, what it writes, what it goes on from, what it refuses."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.transcript.records import Totals
from specdec_cli.tune.outcomes import TunedPoint, Tuning
from tests.cli.harness import Outcome
from tests.mini_pair import captioner, write_voice

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tune")]  # all look at one tuning
SHORT = ("--set", "decoding.max_new_tokens=24")
HALVES = ("--set", "judging.seed=4")  # with some clips in the second half of which edge and cloud differ
SAME = ("-k", "2", "--gate", "entropy", "-l", "zh", "--set", "decoding.sound=[]", *HALVES, *SHORT)
QUICK = (*SAME, "--budget", "blocks=0.5")


@dataclass(frozen=True)
class Tuned:
    """One tuning, shared by all tests that look at it."""

    outcome: Outcome
    config: Path
    plot: Path
    recordings: Path

    @property
    def found(self) -> Tuning:
        """What it printed."""
        return Tuning.model_validate_json(self.outcome.out)


@pytest.fixture(scope="module")
def once() -> dict[str, Tuned]:
    """Holds the shared tuning."""
    return {}


@pytest.fixture(scope="module")
def voices(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("to tune on")
    for seed in range(24):
        write_voice(folder / f"voice {seed:02}.wav", seed, 0.8)
    return folder


@pytest.fixture
def tuned(specdec, voices, once, tmp_path_factory) -> Tuned:
    if not once:
        folder = tmp_path_factory.mktemp("tuned")
        config, plot, recordings = (folder / name for name in ("tuned.yaml", "frontier.svg", "recorded.jsonl"))
        files = ("-o", config, "-o", plot, "--traces", recordings)
        once["tuned"] = Tuned(specdec("tune", voices, *QUICK, "--json", *files), config, plot, recordings)
    return once["tuned"]


@pytest.fixture
def recorded(tuned, tmp_path) -> Path:
    """A copy of the shared tuning's recordings, from which another tuning goes on."""
    return Path(shutil.copy(tuned.recordings, tmp_path / "recorded.jsonl"))


def test_it_recommends_a_setting_that_the_config_option_takes(specdec, voices, tuned):
    assert tuned.outcome.code == 0, tuned.outcome.err
    found = tuned.found
    assert (found.measure, found.clips, found.chosen_on + found.confirmed_on) == ("agreement", 24, 24)
    assert found.cloud_quality == pytest.approx(1)
    assert {point.gate for point in found.confirmed} == {"entropy", "random"}
    best = found.recommended
    assert (found.reason, found.notes, found.output) == (None, [], str(tuned.config))
    assert best.spent["blocks"] is not None
    assert best.spent["blocks"] <= 0.5
    config = load_config(tuned.config, environ={}).config
    assert (config.gate.name, config.gate.threshold, config.decoding.k, config.gate.stop_drafting) == (
        best.gate, best.threshold, best.k, best.stop_drafting
    )  # fmt: skip
    assert (config.edge.model, config.decoding.max_new_tokens) == ("package:mini/edge", 24)
    assert tuned.plot.read_text(encoding="utf-8").startswith("<svg")
    used = specdec("caption", voices / "voice 00.wav", "--config", tuned.config, "--json", "-l", "zh")
    transcript = json.loads(used.out)
    settings = transcript["settings"]
    assert (settings["gate"], settings["threshold"], settings["k"]) == (best.gate, best.threshold, best.k)
    said = tuned.config.read_text(encoding="utf-8")
    assert "within a budget of blocks=0.5" in said
    assert all(transcript["models"][role]["weights"] in said for role in ("edge", "cloud"))


def run_on_held_out(recorded: Path, point: TunedPoint, **settings: object) -> list[Totals]:
    """Captions the clips on which points were confirmed, with the settings of one."""
    runs = captioner(
        gate__name=point.gate,
        gate__threshold=point.threshold,
        decoding__max_new_tokens=24,
        prompt__language="zh",
        decoding__sound=[],
        **settings,
    )
    lines = [json.loads(line) for line in recorded.read_text(encoding="utf-8").splitlines()]
    held_out = sorted({line["file"] for line in lines if "schema" in line})
    return [run.totals for file in held_out if (run := runs.caption(file)).totals is not None]


def test_what_a_confirmed_point_says_is_what_a_run_does(tuned):
    point = next(point for point in tuned.found.confirmed if point.gate == "entropy")
    totals = run_on_held_out(tuned.recordings, point, gate__stop_drafting=point.stop_drafting, decoding__k=point.k)
    assert len(totals) == tuned.found.confirmed_on
    assert point.spent["blocks"] == pytest.approx(
        sum(total.escalations for total in totals) / sum(total.rounds for total in totals)
    )
    assert point.spent["clips"] == pytest.approx(sum(total.escalations > 0 for total in totals) / len(totals))
    assert point.spent["time"] is not None
    assert [at.cost for at in point.at_costs] == ["blocks", "clips", "time"]


def untimed(out: str) -> list[object]:
    """What a tuning found but for times, which no two runs share."""
    found = Tuning.model_validate_json(out)
    return [(point.label, point.spent["blocks"], point.spent["clips"], point.gap_closed) for point in found.confirmed]


def test_a_second_run_does_nothing_again(specdec, voices, tuned, recorded, monkeypatch):
    lines = recorded.read_text(encoding="utf-8").splitlines(keepends=True)
    first = tuned.found.model_copy(update={"output": None})

    def refuse(*_: object) -> None:
        raise AssertionError("this was done before")

    with monkeypatch.context() as patched:
        patched.setattr("specdec_cli.tune.recording.record", refuse)
        patched.setattr(Captioner, "caption", refuse)
        again = specdec("tune", voices, *QUICK, "--json", "--traces", recorded)
        assert Tuning.model_validate_json(again.out) == first
    recorded.write_text("".join([*lines[:3], *lines[4:-1]]) + lines[-1][:80], encoding="utf-8")  # one of each again
    again = specdec("tune", voices, *QUICK, "--json", "--traces", recorded)
    assert untimed(again.out) == untimed(tuned.outcome.out)
    assert len(recorded.read_text(encoding="utf-8").splitlines()) == len(lines)


def test_a_file_that_is_not_written_is_an_error_with_its_reason(specdec, voices, recorded, tmp_path):
    config = tmp_path / "tuned.yaml"
    strict = (*QUICK, "--budget", "blocks=0.001", "--traces", recorded)
    outcome = specdec("tune", voices, *strict, "-q", "-o", config, ends=1)
    assert not config.exists()
    said = " ".join(outcome.err.split())
    assert "tuned.yaml was not written: no setting can be recommended." in said
    bullets = [line for line in outcome.out.splitlines() if line.startswith(" ·")]
    assert len(bullets) == 2  # the gap, and one for the reason
    unwritten = specdec("tune", voices, *strict, "--json")
    assert unwritten.code == 0  # nobody asked for a file
    assert "blocks=0.001" in (Tuning.model_validate_json(unwritten.out).reason or "")


def test_the_page_names_the_gap_and_the_advice(specdec, voices, recorded):
    outcome = specdec("tune", voices, *QUICK, "--traces", recorded, ends=0)
    said = " ".join(outcome.out.split())
    assert "Recommended: entropy" in said
    assert "a difference of" in said
    assert "Each setting ran on clips other than those on which it was chosen." in said
    assert max(map(len, outcome.lines)) <= 120


def test_references_of_which_none_fits_are_refused(specdec, voices, recorded, tmp_path):
    """They are about parts of the recordings: a gate that agrees with the cloud is not what was asked for."""
    table = tmp_path / "truth.csv"
    rows = [f"{path.name},0.1,0.4,happy\n" for path in sorted(voices.iterdir())]
    table.write_text("file,start_s,end_s,emotion\n" + "".join(rows), encoding="utf-8")
    refused = specdec("tune", voices, *QUICK, "--traces", recorded, "--references", table, ends=2)
    assert "No reference is of any of the recordings" in refused.err


@pytest.mark.parametrize("column", ["text", "label_emotion", "description"])
def test_references_that_tell_nothing_of_a_voice_are_refused_before_recording(specdec, voices, tmp_path, column):
    """What was said, labels that are no class, and descriptions in another language than the captions'."""
    texts = {
        "text": "门在哪里，第{}扇？",
        "label_emotion": "boredom",
        "description": "A man {} speaks slowly in a low voice.",
    }
    table, traces = tmp_path / "truth.tsv", tmp_path / "traces.jsonl"
    rows = [f"{path.name}\t{texts[column].format(number)}\n" for number, path in enumerate(sorted(voices.iterdir()))]
    table.write_text(f"file\t{column}\n" + "".join(rows), encoding="utf-8")
    refused = specdec("tune", voices, *QUICK, "--traces", traces, "--references", table, ends=2)
    assert "name no class of the lexicon, and no text of theirs describes" in refused.err
    assert not traces.is_file() or not traces.read_text(encoding="utf-8")


def test_deferred_drafts_are_tried_where_clips_count(specdec, voices, recorded, tmp_path):
    file = tmp_path / "tuned.yaml"
    quick = (*SAME, "--traces", recorded)
    outcome = specdec("tune", voices, *quick, "--budget", "clips=0.9", "--json", "-o", file, ends=0)
    found = Tuning.model_validate_json(outcome.out)
    points = [point for point in found.confirmed if point.wake is not None]
    assert points
    assert all(point.label == f"entropy {point.wake:g}, deferred" for point in points)
    assert all(point.spent["blocks"] is None for point in points)  # whole captions are no blocks of k tokens
    point = points[0]
    totals = run_on_held_out(recorded, point, gate__wake=point.wake, decoding__k="whole")
    assert point.spent["clips"] == pytest.approx(sum(total.escalations > 0 for total in totals) / len(totals))
    config, best = load_config(file, environ={}).config, found.recommended
    assert (config.decoding.defers, config.gate.wake) == (best.wake is not None, best.wake)
    used = specdec("caption", voices / "voice 00.wav", "--config", file, "--json", "-l", "zh")
    settings = json.loads(used.out)["settings"]
    assert (settings["k"], settings["wake"]) == (config.decoding.k, config.gate.wake)
