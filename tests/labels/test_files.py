"""Lexicon files: what a user's own may change, and refusals that name the line."""

from __future__ import annotations

import pickle
import random
import time
from pathlib import Path

import pytest

from specdec_cli.errors import LexiconError
from specdec_cli.labels import Lexicon

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
    return Lexicon.load(path)


def extending(attributes: str) -> str:
    return f"schema: 1\nextends: default\nattributes:\n{attributes}"


def test_a_lexicon_of_ones_own(tmp_path: Path) -> None:
    lexicon = load(tmp_path, WHOLE)
    assert dict(lexicon.attributes) == {"energy": ("calm", "lively")}
    assert lexicon.labels("A high-energy voice.", "en") == {"energy": "lively"}
    assert lexicon.labels("There is no energy.", "en") == {"energy": "calm"}
    assert lexicon.labels("High, with an energy drink.", "en") == {"energy": None}
    assert lexicon.labels("孩子很活泼", "zh") == {"energy": "lively"}


def test_it_reaches_another_process_whole(tmp_path: Path) -> None:
    lexicon = load(tmp_path, WHOLE)
    copy = pickle.loads(pickle.dumps(lexicon))
    assert copy.attributes == lexicon.attributes
    assert copy.labels("There is no energy.", "en") == {"energy": "calm"}


def test_words_are_added_to_the_shipped_ones(tmp_path: Path) -> None:
    text = extending("  emotion:\n    en: {alone: {happy: [chuffed]}}\n    zh: {alone: {sad: [emo了]}}\n")
    lexicon = load(tmp_path, text)
    assert lexicon.labels("She is chuffed, he is not happy.", "en")["emotion"] == "happy"
    assert lexicon.labels("他有点emo了", "zh")["emotion"] == "sad"
    assert lexicon.labels("He sounds angry.", "en")["emotion"] == "angry"
    assert lexicon.attributes == Lexicon.load().attributes


def test_a_word_may_mean_something_else(tmp_path: Path) -> None:
    lexicon = load(tmp_path, extending("  emotion:\n    en: {alone: {surprised: [Excited]}}\n"))
    assert Lexicon.load().labels("She is excited.", "en")["emotion"] == "happy"
    assert lexicon.labels("She is excited.", "en")["emotion"] == "surprised"
    near = "  volume:\n    en:\n      near:\n        - {about: [pitch], words: {loud: [high]}}\n"
    both = load(tmp_path, extending(near)).labels("a high pitch", "en")
    assert (both["pitch"], both["volume"]) == ("high", "loud")


def test_a_class_and_an_attribute_may_be_added(tmp_path: Path) -> None:
    more = "  emotion:\n    classes: [bored]\n    aliases: {bored: [boredom]}\n    en: {alone: {bored: [bored]}}\n"
    lexicon = load(tmp_path, extending(more + "  age:\n    classes: [young, old]\n    zh: {alone: {old: [年老]}}\n"))
    assert lexicon.attributes["emotion"][-1] == "bored"
    assert list(lexicon.attributes)[-1] == "age"
    assert lexicon.labels("She sounds bored.", "en")["emotion"] == "bored"
    assert lexicon.canonical("emotion", "Boredom") == "bored"
    assert lexicon.labels("年老的女声", "zh") | {"age": "old", "voice": "female"} == lexicon.labels("年老的女声", "zh")


def test_numbers_and_truth_values_are_words(tmp_path: Path) -> None:
    lexicon = load(tmp_path, extending("  emotion: {aliases: {happy: [true, 3]}, ignored: [false]}\n"))
    assert [lexicon.canonical("emotion", word) for word in ("True", "true", "3")] == ["happy"] * 3
    assert lexicon.ignores("emotion", "False")


def test_what_tables_write() -> None:
    lexicon = Lexicon.load()
    words = {
        "calm": "neutral",
        "Anger": "angry",
        "愤怒": "angry",
        "HAPPINESS": "happy",
        "fearful": "fearful",
        "中性": "neutral",
    }
    assert {word: lexicon.canonical("emotion", word) for word in words} == words
    assert lexicon.canonical("voice", "F") == "female"
    assert lexicon.canonical("rate", "较慢") == "slow"
    assert lexicon.canonical("volume", " Low ") == "soft"
    assert lexicon.canonical("pauses", "none") == "few"
    assert lexicon.canonical("emotion", "boredom") is None
    assert lexicon.ignores("emotion", "boredom")
    assert lexicon.ignores("emotion", "n/a")
    assert not lexicon.ignores("emotion", "hapy")
    assert not lexicon.ignores("emotion", "sad")
    with pytest.raises(KeyError):
        lexicon.canonical("colour", "red")
    for attribute, classes in lexicon.attributes.items():
        assert [lexicon.canonical(attribute, name) for name in classes] == list(classes)


def measured(entry: str) -> str:
    return extending(f"  rate: {{measured: [{entry}]}}\n")


def wheel(groups: str) -> str:
    return extending(f"  emotion: {{wheel: {{{groups}}}}}\n")


REFUSED = [
    ("", "words.yaml", "schema"),
    ("- a\n- b\n", "no lexicon", "schema"),
    ("schema: 2\nattributes: {}\n", ":1:", "1"),
    ("attributes: {a: {classes: [b]}}\n", "schema", "schema"),
    ("schema: 1\n", "no attributes", "head"),
    ("schema: 1\nextend: default\n", ":2:", "Did you mean extends?"),
    ("schema: 1\nextends: mini\nattributes: {}\n", ":2:", "should be 'default', not 'mini'"),
    (extending("  emotoin: {en: {alone: {happy: [chuffed]}}}\n"), ":4:", "Did you mean emotion?"),
    (extending("  emotion:\n    en: {alone: {hapy: [chuffed]}}\n"), ":5:", "Did you mean happy?"),
    (extending("  emotion:\n    clases: [bored]\n"), ":5:", "Did you mean classes?"),
    (extending("  emotion:\n    en: {alone: {happy: chuffed}}\n"), ":5:", "valid list, not 'chuffed'"),
    (extending("  emotion:\n    en: {alone: {happy: [ok], sad: [OK]}}\n"), ":5:", "happy and under sad"),
    (extending("  emotion:\n    en: {alone: {happy: ['!!']}}\n"), ":5:", "needs a letter"),
    (extending("  emotion:\n    en: {alone: {happy: ['... happy']}}\n"), ":5:", "between two words"),
    (extending("  emotion:\n    en: {alone: {happy: ['h*ppy']}}\n"), ":5:", "end of a word"),
    (extending(f"  emotion:\n    en: {{alone: {{happy: [{'x' * 61}]}}}}\n"), ":5:", "at most 60"),
    (extending("  emotion:\n    en: {near: [{about: [], words: {happy: [up]}}]}\n"), ":5:", "at least 1 item"),
    (extending("  emotion:\n    negated: {happy: sadd}\n"), ":5:", "Did you mean sad?"),
    (extending("  emotion:\n    absent: none\n"), ":5:", "no class none"),
    (extending("  Emotion:\n    classes: [a]\n"), ":4:", "match pattern"),
    (extending("  age:\n    en: {alone: {}}\n"), ":4:", "no classes"),
    (extending("  emotion: {en: *words}\n"), ":4:", "aliases"),
    (extending("  emotion: [\n"), ":", "not valid YAML"),
    ("schema: 1\nextends: default\nmarkers: {en: {negatoin: [nae]}}\n", ":3:", "Did you mean negation?"),
    (measured("{figure: f0, classes: {fast: {least: 1}}}"), ":4:", "attributes.rate.measured.0.figure"),
    (measured("{figure: rate_per_s, classes: {fast: {least: 3, most: 2}}}"), ":4:", "least 3 is above most 2"),
    (measured("{figure: rate_per_s, classes: {fast: {least: .nan}}}"), ":4:", "finite number"),
    (measured("{figure: rate_per_s, where: {voise: male}, classes: {fast: {}}}"), ":4:", "voise has no class male"),
    (wheel("awe: {class: astonished, en: [awe]}"), ":4:", "emotion has no class astonished"),
    (wheel("awe: {en: [glee]}, more: {en: [glee]}"), ":4:", "'glee' stands under awe and under more"),
]


@pytest.mark.parametrize(("text", "place", "said"), REFUSED)
def test_a_malformed_file_is_refused_with_its_line(tmp_path: Path, text: str, place: str, said: str) -> None:
    with pytest.raises(LexiconError) as caught:
        load(tmp_path, text)
    whole = f"{caught.value.message}\n{caught.value.hint}"
    assert place in caught.value.message, whole
    assert said in whole, whole
    assert caught.value.hint
    assert "Input should" not in whole
    assert "config file" not in whole


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(LexiconError, match="1 more problem") as caught:
        load(tmp_path, extending("  emotion:\n    clases: [x]\n    en: {alone: {happy: 3}}\n"))
    assert ":6:" in str(caught.value.hint)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LexiconError, match="cannot be read"):
        Lexicon.load(tmp_path / "missing.yaml")
    with pytest.raises(LexiconError, match="cannot be read"):
        Lexicon.load(tmp_path)
    with pytest.raises(LexiconError, match="UTF-8"):
        load(tmp_path, b"schema: 1\nextends: \xff\n")


def test_random_damage_never_escapes_as_another_error(tmp_path: Path) -> None:
    rng = random.Random(0)
    refused = 0
    for _ in range(200):
        data = bytearray(WHOLE.encode())
        for _ in range(rng.randrange(1, 5)):
            place = rng.randrange(len(data))
            data[place : place + rng.randrange(4)] = bytes(
                rng.choices(b"{}[]:,-&*!'\"\n ?a0.\xff\x00", k=rng.randrange(4))
            )
        try:
            load(tmp_path, bytes(data)).labels("no high energy 安静", "en")
        except LexiconError:
            refused += 1
    assert refused > 50


def test_no_file_and_no_caption_can_make_reading_slow(tmp_path: Path) -> None:
    words = ", ".join(f"'a* ... b{number}'" for number in range(200))
    lexicon = load(tmp_path, f"schema: 1\nattributes: {{x: {{classes: [y], en: {{alone: {{y: [{words}]}}}}}}}}\n")
    start = time.process_time()
    lexicon.labels("a " * 5000 + "a" * 5000, "en")
    Lexicon.load().labels("不" * 5000 + "语速" * 1000 + "快" * 1000, "zh")
    assert time.process_time() - start < 5


def test_a_wheel_of_ones_own(tmp_path: Path) -> None:
    awe = "{class: surprised, en: [awestruck/awe], zh: [敬畏]}"
    lexicon = load(tmp_path, extending(f"  emotion:\n    wheel:\n      awe: {awe}\n      zeal: {{en: [zealous]}}\n"))
    assert lexicon.emotions("In awe, zealous and glad.", "en") == ("awestruck", "zealous", "glad")
    assert lexicon.emotion_groups(["敬畏"]) == {"awe"}
    assert lexicon.labels("He is zealous and in awe.", "en")["emotion"] == "surprised"
