"""Scores of classes equal scikit-learn's."""

from collections import Counter

import numpy as np
import pytest

from specdec_cli.evaluate.quality import label_scores
from specdec_cli.evaluate.result import LabelQuality
from specdec_cli.labels import Lexicon
from specdec_cli.stats import Resampler

LEXICON = Lexicon.read()
EMOTIONS = LEXICON.attributes["emotion"]


def scored(said: list[dict[str, str | None]], truth: list[dict[str, str]]) -> dict[str, LabelQuality]:
    return label_scores(said, truth, LEXICON, Resampler(len(truth), resamples=20))


@pytest.mark.parametrize("present", [1, 3, 7])
def test_they_are_scikit_learns(present):
    """Of random emotions of `present` classes, half of them said rightly and a tenth not at all."""
    from sklearn.metrics import accuracy_score, recall_score  # takes half a second, in one worker

    rng = np.random.default_rng(present)
    true = rng.choice(EMOTIONS[:present], 200).tolist()
    chances, guesses = rng.random(200), rng.choice(EMOTIONS, 200).tolist()
    said = [
        None if p < 0.1 else one if p < 0.6 else other for p, one, other in zip(chances, true, guesses, strict=True)
    ]
    ours = scored([{"emotion": one} for one in said], [{"emotion": one} for one in true])["emotion"]
    y_said, classes = [one or "none" for one in said], sorted(set(true))
    assert ours.accuracy.value == pytest.approx(accuracy_score(true, y_said))
    uar = recall_score(true, y_said, labels=classes, average="macro", zero_division=0)
    assert ours.uar.value == pytest.approx(uar)
    assert sum(each.clips for each in ours.confusions) == 200
    assert {(each.true, each.named or "none"): each.clips for each in ours.confusions} == Counter(
        zip(true, y_said, strict=True)
    )
    assert (ours.majority, ours.clips) == (max(Counter(true).values()) / 200, 200)


def test_by_hand():
    said = [{"rate": "slow"}, {"rate": "fast"}, {"rate": None}, {"rate": "fast"}, {}]
    truth = [{"rate": "slow"}, {"rate": "slow"}, {"rate": "fast"}, {"rate": "fast"}, {"voice": "male"}]
    scores = scored(said, truth)
    voice, rate = scores.items()
    assert (voice[0], voice[1].accuracy.value, voice[1].clips) == ("voice", 0, 1)
    assert (rate[0], rate[1].accuracy.value, rate[1].majority, rate[1].clips) == ("rate", 0.5, 0.5, 4)
    assert rate[1].uar.value == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert scored([{"rate": "slow"}], [{}]) == {}


def test_the_recall_of_a_rare_class_counts_as_much_as_that_of_a_common_one():
    said = [{"emotion": "neutral"}] * 100
    truth = [{"emotion": "neutral"}] * 90 + [{"emotion": "sad"}] * 10
    found = label_scores(said, truth, LEXICON, Resampler(100, resamples=500))["emotion"]
    assert (found.accuracy.value, found.uar.value) == (0.9, 0.5)
    assert (found.uar.low, found.uar.high) == (0.5, 0.5)  # whichever clips are drawn, but for those without a sad one
