"""Scores of classes equal scikit-learn's."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from specdec_cli.evaluate.bootstrap import Resampler
from specdec_cli.evaluate.quality import label_scores
from specdec_cli.evaluate.result import LabelQuality
from specdec_cli.labels import Lexicon

LEXICON = Lexicon.load()
EMOTIONS = LEXICON.attributes["emotion"]


def scored(said: list[dict[str, str | None]], truth: list[dict[str, str]]) -> dict[str, LabelQuality]:
    return label_scores(said, truth, LEXICON, Resampler(len(truth), resamples=20))


def drawn(seed: int, n: int, present: int) -> tuple[list[dict[str, str | None]], list[dict[str, str]]]:
    """Random emotions of `present` classes, said rightly in about half of the captions and not at all in a tenth."""
    rng = np.random.default_rng(seed)
    truth = [{"emotion": EMOTIONS[i]} for i in rng.integers(0, present, n)]
    said: list[dict[str, str | None]] = []
    for known in truth:
        chance = rng.random()
        guess = EMOTIONS[rng.integers(len(EMOTIONS))]
        said.append({"emotion": None if chance < 0.1 else known["emotion"] if chance < 0.6 else guess})
    return said, truth


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("present", [1, 3, 7])
def test_they_are_scikit_learns(seed: int, present: int) -> None:
    from sklearn.metrics import accuracy_score, f1_score  # takes half a second, in one worker

    said, truth = drawn(seed, 200, present)
    ours = scored(said, truth)["emotion"]
    y_true, y_said = [known["emotion"] for known in truth], [one["emotion"] or "none" for one in said]
    classes = [name for name in EMOTIONS if name in y_true]
    assert ours.accuracy.value == pytest.approx(accuracy_score(y_true, y_said))
    assert ours.macro_f1 == pytest.approx(f1_score(y_true, y_said, labels=classes, average="macro", zero_division=0))
    assert ours.majority == max(Counter(y_true).values()) / 200
    assert ours.clips == 200


def test_by_hand() -> None:
    said = [{"rate": "slow"}, {"rate": "fast"}, {"rate": None}, {"rate": "fast"}, {}]
    truth = [{"rate": "slow"}, {"rate": "slow"}, {"rate": "fast"}, {"rate": "fast"}, {"voice": "male"}]
    scores = scored(said, truth)
    assert list(scores) == ["voice", "rate"]
    assert scores["rate"].accuracy.value == 0.5
    assert scores["rate"].macro_f1 == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert scores["rate"].majority == 0.5
    assert scores["rate"].clips == 4
    assert (scores["voice"].accuracy.value, scores["voice"].macro_f1, scores["voice"].clips) == (0, 0, 1)
    assert scored([{"rate": "slow"}], [{}]) == {}
