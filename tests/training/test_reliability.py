"""The shipped calibration, measured on captions that it was not fitted to."""

import pytest

from specdec_cli.calibrate.decisions import Decision
from specdec_cli.labels.calibration import SHIPPED, read_calibration
from training.reliability import errors


def test_errors_before_and_after_the_shipped_temperatures():
    t = read_calibration(SHIPPED).models["cloud"].temperatures["emotion"]
    classes = {"sad": 0.8, "happy": 0.2}
    half_right = [Decision("cloud", "emotion", classes, "sad", truth, "s", "w", "hybrid") for truth in classes]
    ((key, (captions, before, after)),) = errors(half_right).items()
    assert (key, captions) == (("emotion", "hybrid"), 2)
    assert before == pytest.approx(0.3)
    assert after == pytest.approx(1 / (1 + 0.25 ** (1 / t)) - 0.5)
