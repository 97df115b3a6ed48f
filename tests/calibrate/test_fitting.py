"""A temperature that was put in is found again, errors are measured where nothing was fitted, and files are refused."""

import json

import numpy as np
import pytest

from specdec_cli.calibrate.decisions import Decision, read_decisions
from specdec_cli.calibrate.fitting import calibrate, fit_temperature, reliability
from specdec_cli.errors import ConfigError
from specdec_cli.labels import Lexicon
from specdec_cli.labels.calibration import read_calibration, sharpened
from specdec_cli.labels.references import References
from specdec_cli.types import Decider
from tests.cli.conftest import *  # noqa: F403 - its fixtures
from tests.mini_pair import RATE, captioner, voice, write_voice

NAMES = ("happy", "sad", "angry")


def decisions(count: int, too_sure: float, by: Decider = "cloud", weights: str = "sha256:1") -> list[Decision]:
    """Made by a model whose probabilities are those of truth, raised to `too_sure`."""
    rng = np.random.default_rng(0)
    made = []
    for index in range(count):
        honest = dict(zip(NAMES, rng.dirichlet([0.6] * len(NAMES)).tolist(), strict=True))
        truth = str(rng.choice(NAMES, p=list(honest.values())))
        said = max(honest, key=honest.__getitem__)
        given = sharpened(honest, too_sure)
        made.append(Decision(by, "emotion", given, said, truth, f"speaker {index % 8}", weights, "hybrid"))
    return made


@pytest.mark.parametrize("too_sure", [0.5, 1.0, 2.5])
def test_a_temperature_is_found_again(too_sure):
    assert fit_temperature(decisions(4000, too_sure)) == pytest.approx(too_sure, rel=0.1)


def test_a_calibration_lowers_the_error_where_it_was_not_fitted():
    found = calibrate(decisions(2000, 2.5), by_speaker=True)
    (fit,) = found.fits
    assert (fit.attribute, fit.mode, found.groups) == ("emotion", "hybrid", 8)
    assert fit.raw.ece > 0.1
    assert fit.calibrated.ece < 0.05


def test_what_gains_nothing_is_left_as_it_is():
    honest = calibrate([*decisions(2000, 1.0), *decisions(20, 2.0, by="edge")], by_speaker=True)
    assert honest.models["cloud"].temperatures == {"emotion": pytest.approx(1, abs=0.1)}
    assert "edge" not in honest.models


def test_the_error_is_the_mean_distance_of_the_bins():
    given = [(0.95, "happy"), (0.95, "sad"), (0.55, "happy"), (0.55, "happy")]
    made = [
        Decision("edge", "emotion", {"happy": p, "sad": 1 - p}, "happy", truth, "", "", "edge") for p, truth in given
    ]
    found = reliability(made)
    assert found.ece == pytest.approx((0.45 + 0.45) / 2)
    assert [(each.captions, each.accuracy) for each in found.bins] == [(2, 1.0), (2, 0.5)]


def test_a_calibration_is_of_one_pair_and_has_a_temperature():
    made = decisions(300, 2.0)
    file = calibrate(made, by_speaker=True).file("0")
    assert file.models["cloud"].temperatures["emotion"] == pytest.approx(2, rel=0.3)
    assert file.fitted_on["fits"][0]["raw"]["captions"] == 300
    with pytest.raises(ConfigError, match="As cloud the transcripts name several models"):
        calibrate([*made, *decisions(1, 2.0, weights="sha256:2")], by_speaker=True)
    with pytest.raises(ConfigError, match=r"80 classes, .* needs 50"):
        calibrate([*decisions(40, 2.0), *decisions(40, 2.0, by="edge")], by_speaker=True)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "specdec gate"}', '{"models": {"edge": 1}}'])
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "calibration.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is not a calibration file"):
        read_calibration(path)


def test_the_shipped_file_is_of_the_shipped_weights():
    scores = captioner().labelled(Lexicon.load()).run_samples(voice(0), RATE).finish().scores
    assert scores["emotion"].temperature is not None


def test_a_caption_in_two_files_counts_once_and_a_replaced_one_not_at_all(tmp_path):
    made = captioner().labelled(Lexicon.load()).run_samples(voice(0), RATE).finish()
    lines = [made.model_copy(update={"file": f"/in/{name}.wav", "sha256": name * 64}) for name in "aab"]
    lines[0] = lines[0].model_copy(update={"sha256": "c" * 64})  # of another content, which is there no more
    for name in ("one.jsonl", "two.jsonl"):
        (tmp_path / name).write_text("".join(f"{line.to_json()}\n" for line in lines))
    (tmp_path / "truth.csv").write_text(f"file,emotion\na,{made.labels['emotion']}\nb,sad\n")
    truth = References.read(tmp_path / "truth.csv", lexicon=Lexicon.load())
    found = list(read_decisions([tmp_path / "one.jsonl", tmp_path / "two.jsonl"], truth))
    assert [(each.group, each.attribute) for each in found] == [("a", "emotion"), ("b", "emotion")]


@pytest.mark.parametrize("command", ["calibrate", "review"])
def test_a_row_that_may_be_about_two_recordings_is_refused(specdec, tmp_path, command):
    made = captioner().labelled(Lexicon.load()).run_samples(voice(0), RATE).finish()
    lines = [made.model_copy(update={"file": f"/in/{name}/1.wav"}).to_json() for name in ("ann", "bob")]
    (tmp_path / "out.jsonl").write_text("\n".join(lines))
    (tmp_path / "truth.csv").write_text("file,emotion\n1,sad\n")
    outcome = specdec(command, tmp_path / "out.jsonl", "--references", tmp_path / "truth.csv", ends=2)
    assert "may be /in/ann/1.wav or /in/bob/1.wav" in outcome.err


@pytest.mark.slow
def test_from_captions_to_a_calibration_in_use(specdec, tmp_path):
    """Transcripts, references, file, and captions with it."""
    files = [write_voice(tmp_path / f"{seed}.wav", seed, 0.6) for seed in range(50)]
    output, table, file = (tmp_path / name for name in ("out.jsonl", "truth.jsonl", "calibration.json"))
    assert specdec("batch", *files, "--labels", "--mode", "edge", "-o", output, "-q").code == 0
    rng = np.random.default_rng(0)
    rows = []
    for path in files:
        truth = {f"label_{name}": str(rng.choice(classes)) for name, classes in Lexicon.load().attributes.items()}
        rows.append(json.dumps({"file": str(path), **truth}))
    table.write_text("\n".join(rows))
    outcome = specdec("calibrate", output, "--references", table, "-o", file, "-o", tmp_path / "plot.svg", ends=0)
    assert "ECE" in outcome.out
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
    missing = specdec("calibrate", output)
    assert (missing.code, "--references" in missing.err) == (2, True)
    specdec("calibrate", output, "--references", table, "-o", table.with_suffix(".json"), ends=0)
    assert specdec("calibrate", output, "--references", table, "-o", output).code == 2
