"""Scores of captions, on rows and texts written by hand."""

from __future__ import annotations

from specdec_cli.prompts import Style
from training.captions import compose
from training.labels import EMOTION_OF, Measures, Row
from training.scoring import Scored, attribute_accuracy, emotion_by_corpus, emotion_mean, majority, summarise

CLASSES = {
    "voice": "male",
    "rate": "slow",
    "pitch": "low",
    "range": "flat",
    "volume": "soft",
    "pauses": "few",
    "timbre": "bright",
}


def row(corpus: str, emotion: str, heard: str = "") -> Row:
    classes = {name: value for name, value in CLASSES.items() if name != "timbre"}
    classes["emotion"] = EMOTION_OF[emotion]
    return Row("a.flac", corpus, "en", "s", emotion, 2.0, "", "", heard, 0.7, Measures(), classes)


def said(about: Row, emotion: str, style: Style = "default", **changes: str) -> Scored:
    text = compose({**CLASSES, "emotion": emotion, **changes}, "en", style).text
    return Scored(about, "en", style, text)


def test_accuracy_counts_what_the_style_mentions() -> None:
    about = row("ravdess", "anger")
    scored = [said(about, "angry"), said(about, "angry", rate="fast"), said(about, "angry", style="concise")]
    assert attribute_accuracy(scored, "rate") == 66.7
    assert attribute_accuracy(scored, "pauses") == 100.0  # two of the three mention pauses
    assert attribute_accuracy(scored, "timbre") is None


def test_a_missing_word_is_wrong() -> None:
    assert attribute_accuracy([Scored(row("nemo", "fear"), "en", "default", "Hello.")], "emotion") == 0.0


def test_calm_is_neutral_and_cremad_is_scored_twice() -> None:
    scored = [
        said(row("ravdess", "calm"), "neutral"),
        said(row("cremad", "anger", heard="anger"), "angry"),
        said(row("cremad", "anger", heard="neutral"), "neutral"),
    ]
    by_corpus = emotion_by_corpus(scored)
    assert by_corpus == {"ravdess": 100.0, "cremad": 100.0, "cremad_all": 50.0}
    assert emotion_mean(by_corpus) == 100.0


def test_majority_is_the_commonest_class() -> None:
    rows = [row("nemo", "fear"), row("nemo", "fear"), row("nemo", "anger")]
    assert majority(rows, "emotion") == 66.7


def test_summary_counts_broken_captions() -> None:
    about = row("nemo", "fear")
    summary = summarise([said(about, "fearful"), Scored(about, "en", "default", "The speaker")])
    assert summary["well_formed"] == 50.0
    assert summary["emotion_mean"] == 50.0
    assert summary["mean_of_seven"] == 50.0
