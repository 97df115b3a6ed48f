"""Lexicon files: what a user's own may change, and refusals that name the key."""

import pickle
import time
from pathlib import Path

import pytest

from specdec_cli.errors import LexiconError
from specdec_cli.labels import Lexicon
from specdec_cli.labels.units import folded

WHOLE = """
schema: 1
attributes:
  energy:
    classes: [calm, lively]
    absent: calm
    zh: {alone: {calm: [安静], lively: [活泼]}}
    en:
      near:
        - about: [energy]
          words: {calm: [low], lively: [high]}
markers:
  en: {negation: [no], nothing: [energy drink]}
"""


def load(tmp_path: Path, text: str | bytes) -> Lexicon:
    path = tmp_path / "words.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Lexicon.read(path)


def extending(attributes: str) -> str:
    return f"schema: 1\nextends: default\nattributes:\n{attributes}"


def test_a_lexicon_of_ones_own(tmp_path):
    lexicon = load(tmp_path, WHOLE)
    assert dict(lexicon.attributes) == {"energy": ("calm", "lively")}
    assert lexicon.labels("A high-energy voice.", "en") == {"energy": "lively"}
    assert lexicon.labels("There is no energy.", "en") == {"energy": "calm"}
    assert lexicon.labels("High, with an energy drink.", "en") == {"energy": None}
    assert lexicon.labels("孩子很活泼", "zh") == {"energy": "lively"}


def test_it_reaches_another_process_whole(tmp_path):
    lexicon = load(tmp_path, WHOLE)
    copy = pickle.loads(pickle.dumps(lexicon))
    assert copy.attributes == lexicon.attributes
    assert copy.labels("There is no energy.", "en") == {"energy": "calm"}


def test_words_are_added_to_the_shipped_ones(tmp_path):
    text = extending("  emotion:\n    en: {alone: {happy: [chuffed]}}\n    zh: {alone: {sad: [emo了]}}\n")
    lexicon = load(tmp_path, text)
    assert lexicon.labels("She is chuffed, he is not happy.", "en")["emotion"] == "happy"
    assert lexicon.labels("他有点emo了", "zh")["emotion"] == "sad"
    assert lexicon.labels("He sounds angry.", "en")["emotion"] == "angry"
    assert lexicon.attributes == Lexicon.read().attributes


def test_a_word_may_mean_something_else(tmp_path):
    lexicon = load(tmp_path, extending("  emotion:\n    en: {alone: {surprised: [Excited]}}\n"))
    assert Lexicon.read().labels("She is excited.", "en")["emotion"] == "happy"
    assert lexicon.labels("She is excited.", "en")["emotion"] == "surprised"
    near = "  volume:\n    en:\n      near:\n        - {about: [pitch], words: {loud: [high]}}\n"
    both = load(tmp_path, extending(near)).labels("a high pitch", "en")
    assert (both["pitch"], both["volume"]) == ("high", "loud")


def test_a_class_and_an_attribute_may_be_added(tmp_path):
    more = "  emotion:\n    classes: [bored]\n    aliases: {bored: [boredom]}\n    en: {alone: {bored: [bored]}}\n"
    lexicon = load(tmp_path, extending(more + "  age:\n    classes: [young, old]\n    zh: {alone: {old: [年老]}}\n"))
    assert lexicon.attributes["emotion"][-1] == "bored"
    assert list(lexicon.attributes)[-1] == "age"
    assert lexicon.labels("She sounds bored.", "en")["emotion"] == "bored"
    assert lexicon.table_words["emotion"]["boredom"] == "bored"
    assert lexicon.labels("年老的女声", "zh") | {"age": "old", "voice": "female"} == lexicon.labels("年老的女声", "zh")


def test_what_tables_write():
    lexicon = Lexicon.read()

    def known(attribute: str, *words: str) -> list[str | None]:
        return [lexicon.table_words[attribute].get(folded(word), "unknown") for word in words]

    classes = ["neutral", "angry", "angry", "happy", "neutral"]
    assert known("emotion", "calm", "Anger", "愤怒", "HAPPINESS", "中性") == classes
    assert (known("voice", "F"), known("rate", "较慢"), known("volume", " Low ")) == (["female"], ["slow"], ["soft"])
    assert (known("pauses", "none"), known("emotion", "none", "hapy")) == (["few"], [None, "unknown"])
    for attribute, classes in lexicon.attributes.items():
        assert known(attribute, *classes) == list(classes)


REFUSED = [
    ("", "the whole"),
    ("- a\n- b\n", "the whole"),
    ("schema: 2\nattributes: {}\n", "schema: "),
    ("schema: 1\n", "attributes: Field required"),
    ("schema: 1\nattributes: {}\nextend: default\n", "extend: "),
    ("schema: 1\nattributes: {}\nmarkers: {en: {negatoin: [nae]}}\n", "markers.en.negatoin"),
    (extending("  emotoin: {en: {alone: {happy: [chuffed]}}}\n"), "emotoin has no class happy"),
    (extending("  emotion:\n    en: {alone: {hapy: [chuffed]}}\n"), "no class hapy"),
    (extending("  emotion:\n    clases: [bored]\n"), "attributes.emotion.clases"),
    (extending("  emotion:\n    en: {alone: {happy: chuffed}}\n"), "en.alone.happy: .*valid list"),
    (extending("  emotion:\n    en: {alone: {happy: ['!!']}}\n"), "a phrase is words"),
    (extending("  emotion:\n    en: {alone: {happy: ['... happy']}}\n"), "a phrase is words"),
    (extending("  emotion:\n    en: {alone: {happy: ['h*ppy']}}\n"), "a phrase is words"),
    (extending(f"  emotion:\n    en: {{alone: {{happy: [{'x' * 61}]}}}}\n"), "at most 60"),
    (extending("  emotion:\n    negated: {happy: sadd}\n"), "no class sadd"),
    (extending("  emotion:\n    absent: none\n"), "no class none"),
    (extending("  Emotion:\n    classes: [a]\n"), "match pattern"),
    (extending("  emotion: {en: *words}\n"), "aliases"),
    (extending("  emotion: {wheel: {awe: {class: astonished, en: [awe]}}}\n"), "emotion has no class astonished"),
    (extending("  rate: {measured: [{figure: f0, classes: {fast: {least: 1}}}]}\n"), "rate.measured.0.figure"),
    (extending("  rate: {measured: [{figure: rate_per_s, classes: {fast: {least: .nan}}}]}\n"), "valid number"),
    (b"schema: 1\nextends: \xff\n", "utf-8"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_a_malformed_file_is_refused_with_its_key(tmp_path, text, said):
    with pytest.raises(LexiconError, match=said) as caught:
        load(tmp_path, text)
    assert "words.yaml" in caught.value.message
    assert "the head of the shipped one" in str(caught.value.hint)


def test_what_cannot_be_read_is_refused(tmp_path):
    for path in (tmp_path / "missing.yaml", tmp_path):
        with pytest.raises(LexiconError, match="cannot be read"):
            Lexicon.read(path)


def test_no_caption_can_make_reading_slow():
    start, lexicon = time.process_time(), Lexicon.shipped()
    lexicon.labels("不" * 5000 + "语速" * 1000 + "快" * 1000, "zh")
    lexicon.labels("neither too " * 5000 + "no signs " * 1000, "en")
    assert time.process_time() - start < 5


def test_a_wheel_of_ones_own(tmp_path):
    awe = "{class: surprised, en: [awestruck/awe], zh: [敬畏]}"
    lexicon = load(tmp_path, extending(f"  emotion:\n    wheel:\n      awe: {awe}\n      zeal: {{en: [zealous]}}\n"))
    assert lexicon.emotions("In awe, zealous and glad.", "en") == ("awestruck", "zealous", "glad")
    assert lexicon.labels("He is zealous and in awe.", "en")["emotion"] == "surprised"
