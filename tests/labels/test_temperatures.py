"""A temperature that was put in is found again, errors are measured where nothing was fitted, and files are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.errors import ConfigError
from specdec_cli.labels import Lexicon
from specdec_cli.labels.calibration import read_calibration, sharpened
from specdec_cli.labels.temperatures import (
    CalibrationFound,
    Decision,
    calibrate,
    calibration_file,
    fit_temperature,
    reliability,
)
from specdec_cli.plot.reliability import reliability as diagram
from specdec_cli.types import Decider
from tests.cli.conftest import *  # noqa: F403 - its fixtures
from tests.cli.conftest import Specdec
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
def test_a_temperature_is_found_again(too_sure: float) -> None:
    assert fit_temperature(decisions(4000, too_sure)) == pytest.approx(too_sure, rel=0.1)


def test_a_calibration_lowers_the_error_where_it_was_not_fitted() -> None:
    found = calibrate(decisions(2000, 2.5), by_speaker=True)
    model, mode = found.fits
    assert (model.by, model.mode, mode.by, mode.mode) == ("cloud", None, None, "hybrid")
    assert model.raw.ece > 0.1
    assert model.calibrated.ece < 0.05
    assert mode.calibrated == model.calibrated
    assert found.folds == found.groups == 8


def test_what_gains_nothing_is_left_as_it_is() -> None:
    (model, _) = calibrate(decisions(2000, 1.0), by_speaker=True).fits
    assert model.temperature == pytest.approx(1, abs=0.1)
    few = calibrate([*decisions(2000, 2.0), *decisions(20, 2.0, by="edge")], by_speaker=True)
    assert [fit.temperature for fit in few.fits if fit.by == "edge"] == [None]


def test_the_error_is_the_mean_distance_of_the_bins() -> None:
    found = reliability(np.array([0.95, 0.95, 0.55, 0.55]), np.array([True, False, True, True]))
    assert found.ece == pytest.approx((0.45 + 0.45) / 2)
    assert [(each.captions, each.accuracy) for each in found.bins] == [(2, 1.0), (2, 0.5)]
    assert reliability(np.array([1.0]), np.array([True])).ece == 0


def test_a_file_is_of_one_pair(tmp_path: Path) -> None:
    made = decisions(300, 2.0)
    found = calibrate(made, by_speaker=True)
    path = tmp_path / "calibration.json"
    path.write_text(calibration_file(found, made, "0").to_json())
    assert read_calibration(path).models["cloud"].temperatures["emotion"] == pytest.approx(2, rel=0.3)
    with pytest.raises(ConfigError, match="one cloud model"):
        calibration_file(found, [*made, *decisions(1, 2.0, weights="sha256:2")], "0")


def test_a_file_without_a_temperature_is_not_written() -> None:
    few = [*decisions(40, 2.0), *decisions(40, 2.0, by="edge")]
    with pytest.raises(ConfigError, match="50 known classes of one model"):
        calibration_file(calibrate(few, by_speaker=True), few, "0")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "specdec gate"}', '{"models": {"edge": 1}}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is not a calibration file"):
        read_calibration(path)


def test_too_little_is_refused_with_what_was_found_and_what_would_do() -> None:
    with pytest.raises(ConfigError, match=r"10 classes .* takes 50"):
        calibrate(decisions(10, 2.0), by_speaker=True)


def test_the_diagram_says_what_it_shows() -> None:
    found: CalibrationFound = calibrate(decisions(500, 2.0), by_speaker=True)
    drawn = diagram(found, "emotion").decode()
    assert "ECE " in drawn
    assert "mode hybrid, 500 captions" in drawn
    assert "captions" not in diagram(found, "voice").decode()


def test_the_shipped_file_is_of_the_shipped_weights() -> None:
    scores = captioner().labelled(Lexicon.load()).run_samples(voice(0), RATE).finish().scores
    assert scores["emotion"].temperature is not None


def test_from_captions_to_a_calibration_in_use(specdec: Specdec, tmp_path: Path) -> None:
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
    outcome = specdec("calibrate", output, "--references", table, "-o", file, "--plot", tmp_path / "plot.svg")
    assert outcome.code == 0, outcome.err
    assert "ECE" in outcome.out
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
    missing = specdec("calibrate", output)
    assert (missing.code, "--references" in missing.err) == (2, True)
    taken = specdec("calibrate", output, "--references", table, "-o", table.with_suffix(".json"))
    assert taken.code == 0
    assert specdec("calibrate", output, "--references", table, "-o", output).code == 2
