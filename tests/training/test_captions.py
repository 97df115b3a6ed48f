"""Captions say every class of their style with its controlled word, and can be read back."""

import itertools
import json
from importlib import resources

import pytest

from specdec_cli.prompts import PROMPTS
from training.captions import TEMPLATES, WORDS, attributes_of, classes_in, compose, fixed_words, is_well_formed
from training.labels import ATTRIBUTES, CLASSES

KINDS = list(TEMPLATES)


def _all_classes(attributes: tuple[str, ...]) -> list[dict[str, str]]:
    widest = max(len(CLASSES[name]) for name in attributes)
    return [
        {name: CLASSES[name][(turn + shift) % len(CLASSES[name])] for name in attributes}
        for turn, shift in itertools.product(range(widest), range(2))
    ]


@pytest.mark.parametrize(("language", "style"), KINDS)
def test_round_trip(language, style):
    for classes in _all_classes(attributes_of(language, style)):
        caption = compose(classes, language, style)
        assert classes_in(caption.text, language) == classes
        assert is_well_formed(caption.text, language, style)
        for name, (start, stop) in caption.spans.items():
            assert caption.text[start:stop] == WORDS[language][name][classes[name]]


def test_every_prompt_has_a_template_and_every_class_a_word():
    assert set(TEMPLATES) == set(PROMPTS)
    for attributes in WORDS.values():
        assert {name: tuple(attributes[name]) for name in ATTRIBUTES} == CLASSES


@pytest.mark.parametrize("role", ["edge", "cloud"])
def test_the_shipped_checkpoints_say_what_their_words_mean(role):
    config = json.loads((resources.files("specdec_cli") / "mini" / "weights" / role / "config.json").read_text())
    assert config["specdec_words"] == fixed_words()
    assert fixed_words()["en"]["pitch"] == "low medium high"
