"""Open emotion words against others, by sets worked out by hand."""

from __future__ import annotations

import pytest

from specdec_cli.evaluate.bootstrap import Resampler
from specdec_cli.evaluate.emotions import word_scores
from specdec_cli.labels import Lexicon


def test_precision_recall_and_their_mean_over_groups() -> None:
    said = [{"anger", "guilt"}, {"joy"}, set(), {"fear"}]
    known = [{"anger"}, {"joy", "hope", "pride", "calm"}, {"doubt"}, set()]  # the last clip's reference names nothing
    found = word_scores(said, known, Resampler(4))
    assert found is not None
    assert found.clips == 3
    figures = (found.precision.value, found.recall.value, found.mean.value)
    assert figures == pytest.approx(((0.5 + 1 + 0) / 3, (1 + 0.25 + 0) / 3, (0.75 + 0.625 + 0) / 3))
    assert word_scores(said, [set()] * 4, Resampler(4)) is None


def test_words_of_two_languages_meet_in_groups() -> None:
    lexicon = Lexicon.load()
    said = lexicon.emotion_groups(lexicon.emotions("She sounds furious and somewhat embarrassed.", "en"))
    known = lexicon.emotion_groups(lexicon.emotions("语气恼怒，又带着歉意。", "zh"))
    assert said == known == {"anger", "guilt"}
