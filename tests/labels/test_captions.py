"""Captions name the classes that a person would read in them, and no others.

`captions.tsv` holds captions as people and large models write them; no two attributes share the name of a class.
"""

import itertools
import random
from pathlib import Path

import pytest

from specdec_cli.labels import Lexicon
from specdec_cli.prompts import Language
from tests.tiers import few
from training.captions import TEMPLATES, attributes_of, compose
from training.labels import CLASSES

LEXICON = Lexicon.read()
WRITTEN = [line.split("\t") for line in Path(__file__).with_name("captions.tsv").read_text("utf-8").splitlines()[1:]]


def said(text: str, language: Language) -> dict[str, str]:
    return {name: class_ for name, class_ in LEXICON.labels(text, language).items() if class_ is not None}


@pytest.mark.parametrize(("language", "classes", "text"), WRITTEN)
def test_a_caption_in_free_prose(language, classes, text):
    assert set(said(text, language).values()) == set(classes.split())


@pytest.mark.parametrize(("language", "style"), few(TEMPLATES, 2))
def test_every_caption_of_the_mini_pair(language, style):
    names = attributes_of(language, style)
    every = list(itertools.product(*(CLASSES[name] for name in names)))
    for classes in random.Random(0).sample(every, min(300, len(every))):
        text = compose(dict(zip(names, classes, strict=True)), language, style).text
        assert said(text, language) == dict(zip(names, classes, strict=True))


@pytest.mark.parametrize("language", ["zh", "en"])
def test_every_attribute_is_answered(language):
    assert LEXICON.labels("", language) == dict.fromkeys(CLASSES)
    assert dict(LEXICON.attributes) == CLASSES


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "She answers angrily, with some regret and a firm voice.", ("angry", "regretful", "firm")),
        ("en", "Anger turns to rage; the anger is not feigned, and there is no fear.", ("angry", "enraged")),
        ("en", "The mood is low.", ("sad",)),
        ("en", "Calm, because nobody is afraid.", ("calm",)),
        ("zh", "语气坚定，带着喜悦和一丝不舍。", ("坚定", "喜悦", "不舍")),
        ("en", "Helpless, sceptical and confused.", ("helpless", "skeptical", "confused")),
        ("zh", "语气无奈，带着疑惑。", ("无奈", "疑惑")),
        ("zh", "没有停顿。", ()),
    ],
)
def test_the_open_words_of_a_caption(language, text, words):
    assert LEXICON.emotions(text, language) == words
