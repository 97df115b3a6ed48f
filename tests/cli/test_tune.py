"""`specdec tune` on the mini pair: what it finds, what it writes, what it goes on from, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdec_cli.captioner import Captioner
from specdec_cli.config.gate_file import read_gate_file
from specdec_cli.tune.record import Recorder
from specdec_cli.tune.result import Tuning
from tests.cli.conftest import Specdec
from tests.mini_pair import captioner, write_voice

QUICK = ("--ks", "2", "--gates", "entropy", "--budget", "0.5", "-l", "en")


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("to tune on")
    for seed in range(12):
        write_voice(folder / f"voice {seed:02}.wav", seed, 0.8)
    return folder


def test_it_recommends_a_setting_that_the_gate_option_takes(specdec: Specdec, voices: Path, tmp_path: Path) -> None:
    gate, plot = tmp_path / "gate.json", tmp_path / "frontier.svg"
    outcome = specdec("tune", voices, *QUICK, "--json", "--save-gate", gate, "--plot", plot)
    assert outcome.code == 0, outcome.err
    found = Tuning.model_validate_json(outcome.out)
    assert (found.measure, found.clips, found.fitted_on + found.confirmed_on) == ("agreement", 12, 12)
    assert found.cloud_quality == 1.0
    assert {point.gate for point in found.confirmed} == {"entropy", "random"}
    best = found.recommended
    assert best is not None
    assert best.confirmed
    assert best.escalation_rate <= 0.5
    file = read_gate_file(gate)
    assert (file.gate, file.threshold, file.k, file.stop_drafting) == (
        best.gate, best.threshold, best.k, best.stop_drafting
    )  # fmt: skip
    assert plot.read_text(encoding="utf-8").startswith("<svg")
    used = specdec("caption", voices / "voice 00.wav", "--gate", gate, "--json", "-l", "en")
    transcript = json.loads(used.out)
    settings = transcript["settings"]
    assert (settings["gate"], settings["threshold"], settings["k"]) == (best.gate, best.threshold, best.k)
    assert file.fitted_on["weights"] == {role: transcript["models"][role]["weights"] for role in ("edge", "cloud")}


def test_what_a_confirmed_point_says_is_what_a_run_does(specdec: Specdec, voices: Path, tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    found = Tuning.model_validate_json(specdec("tune", voices, *QUICK, "--json", "--recordings", path).out)
    point = next(point for point in found.confirmed if point.gate == "entropy")
    runs = captioner(
        gate__threshold=point.threshold,
        gate__stop_drafting=point.stop_drafting,
        decoding__k=point.k,
        prompt__language="en",
    )
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    held_out = {line["file"] for line in lines if "schema" in line}
    assert len(held_out) == found.confirmed_on
    totals = [run.totals for file in sorted(held_out) if (run := runs.caption(file)).totals is not None]
    assert point.escalation_rate == pytest.approx(
        sum(total.escalations for total in totals) / sum(total.rounds for total in totals)
    )


def test_a_second_run_does_nothing_again(
    specdec: Specdec, voices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "recorded.jsonl"
    first = specdec("tune", voices, *QUICK, "--json", "--recordings", path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)

    def refuse(*_: object) -> None:
        raise AssertionError("this was done before")

    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "record", refuse)
        patched.setattr(Captioner, "caption", refuse)
        assert specdec("tune", voices, *QUICK, "--json", "--recordings", path).out == first.out
    path.write_text("".join(lines[:5]) + lines[5][:80], encoding="utf-8")
    again = specdec("tune", voices, *QUICK, "--json", "--recordings", path)
    assert again.out == first.out
    assert len(path.read_text(encoding="utf-8").splitlines()) == len(lines)


def test_the_learned_gate_is_fitted_and_used(specdec: Specdec, voices: Path, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="needs the extra [tune]")
    gate = tmp_path / "gate.json"
    quick = ("--ks", "2", "--gates", "learned", "--budget", "0.9", "-l", "en")
    outcome = specdec("tune", voices, *quick, "--json", "--save-gate", gate)
    assert outcome.code == 0, outcome.err
    found = Tuning.model_validate_json(outcome.out)
    assert found.learned is not None
    assert found.recommended is not None
    file = read_gate_file(gate)
    assert file.learned is not None
    shown = specdec("caption", voices / "voice 01.wav", "--gate", gate, "-l", "en", "--no-live")
    assert shown.code == 0, shown.err
    other = file.model_copy(update={"tokenizer": "sha256:00"})
    gate.write_text(other.to_json(), encoding="utf-8")
    refused = specdec("caption", voices / "voice 01.wav", "--gate", gate, "-l", "en")
    assert refused.code == 2
    assert "was fitted with the tokenizer sha256:00" in refused.err


def test_the_page_names_the_gap_the_advice_and_every_setting(specdec: Specdec, voices: Path) -> None:
    outcome = specdec("tune", voices, *QUICK)
    said = " ".join(outcome.out.split())
    assert "Recommended: entropy" in said
    assert "the cloud is better by" in said
    assert "run on clips that nothing was chosen on" in said
    assert max(map(len, outcome.lines)) <= 120


def test_a_broken_recording_costs_no_other(specdec: Specdec, voices: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.wav"
    broken.write_bytes(b"RIFF nothing")
    outcome = specdec("tune", voices, broken, *QUICK, "--json")
    assert outcome.code == 3
    assert "broken.wav" in outcome.err
    assert Tuning.model_validate_json(outcome.out).clips == 12


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gates", "always"], "'always' cannot be tuned"),
        (["--gates", ","], "nothing cannot be tuned"),
        (["--ks", "0"], "'0' is no whole number from 1 to 64"),
        (["--ks", "2,x"], "'x' is no whole number"),
        (["--set", "decoding.temperature=0.7"], "at temperature 0.7 there is no one text"),
        (["--save-gate", "gate.yaml"], "does not end in .json"),
        (["--plot", "frontier.png"], "does not end in .svg"),
        (["--limit", "3"], "3 clips could be recorded, and tuning needs at least 8"),
        (["--label-column", "emotion=mood"], "there are no references"),
        (["--budget", "2"], "--budget"),
    ],
)
def test_what_cannot_be_is_refused(specdec: Specdec, voices: Path, arguments: list[str], said: str) -> None:
    outcome = specdec("tune", voices, "-l", "en", *arguments)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())
