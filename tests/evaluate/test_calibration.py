"""The temperature that fits references: one that was put in is found again, and advised where it helps others."""

import numpy as np
import pytest

from specdec_cli.evaluate.calibration import Decision, advice, error, fitted
from specdec_cli.labels.calibration import sharpened
from specdec_cli.labels.references import Reference
from specdec_cli.transcript.records import ClassScores
from tests.support.transcripts import good_line

NAMES = ("happy", "sad", "angry")


def made(count: int, too_sure: float) -> list[Decision]:
    """By a model whose probabilities are those of the truth, raised to `too_sure`."""
    rng, found = np.random.default_rng(0), []
    for index in range(count):
        honest = dict(zip(NAMES, rng.dirichlet([0.6] * len(NAMES)).tolist(), strict=True))
        truth = str(rng.choice(NAMES, p=list(honest.values())))
        named = max(honest, key=honest.__getitem__)
        found.append(Decision("emotion", sharpened(honest, too_sure), 1.0, named, truth, f"speaker {index % 8}"))
    return found


@pytest.mark.parametrize("too_sure", [0.5, 1.0, 2.5])
def test_a_temperature_is_found_again(too_sure):
    assert fitted(made(4000, too_sure)) == pytest.approx(too_sure, rel=0.1)


def test_the_error_is_the_mean_distance_of_the_bins():
    given = [(0.95, "happy"), (0.95, "sad"), (0.55, "happy"), (0.55, "happy")]
    own = [Decision("emotion", {"happy": p, "sad": 1 - p}, 1.0, "happy", truth, "") for p, truth in given]
    assert error(own) == pytest.approx((0.45 + 0.45) / 2)


def test_advice_is_given_where_a_temperature_helps_other_speakers_and_nowhere_else():
    def told(too_sure: float, count: int = 400) -> list[str]:
        runs = []
        for index, each in enumerate(made(count, too_sure)):
            scores = {"emotion": ClassScores(by="edge", classes=dict(each.classes), other=0.0, temperature=None)}
            run = good_line(f"/{index}.wav", labels={"emotion": each.named}, scores=scores)
            runs.append((run, Reference(str(index), (), {"emotion": each.truth}, each.group)))
        return list(advice(runs))

    (sentence,) = told(2.5)
    assert "--set judging.temperatures=emotion=2." in sentence
    assert "Probabilities of emotion: " in sentence
    assert told(2.5, 40) == []
