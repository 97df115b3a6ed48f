"""Stop rules: on committed text only, at every prefix of it, whatever the block."""

import pytest
import torch
from transformers import StoppingCriteriaList, StopStringCriteria

from specdec_cli.decoding.stop import StopRules, count_sentences
from tests.laws.cases import make_case
from tests.tiny import settings


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("说话人是女声，语速较快。听起来情绪愤怒。", 2),
        ("说话人是女声，语速较快。听起来", 1),
        ("真的吗？！太好了……好。", 3),
        ("他说：“好的。”然后走了。", 2),
        ("A fast pace, a high pitch. The emotion sounds angry.", 2),
        ("It is 3.5 syllables a second", 0),
        ("It is 3.5 syllables a second.", 1),
        ("About 3. Then more.", 2),
        ("e.g. a calm voice", 0),
        ("Really?! Yes!", 2),
        ('He said "yes." Then left.', 2),
        ("(A calm voice.) Slow.", 2),
        ("", 0),
        ("no end", 0),
    ],
)
def test_sentences_in_both_scripts(text, sentences):
    assert count_sentences(text) == sentences


def test_n_sentences_end_the_text_at_the_same_token_for_every_k():
    words = {1: "。", 2: "快", 3: "慢", 4: "！"}
    ids = [2, 3, 1, 3, 2, 4, 2, 1]
    rules = StopRules(settings(sentences=2).decoding, [0], lambda got: "".join(words[i] for i in got))
    for block in range(1, 9):
        text: list[int] = []
        stop = None
        while stop is None:
            new = ids[len(text) : len(text) + block]
            stop = rules.first_stop([*text, *new], len(text))
            text += new
        assert stop == (6, "sentences")


def test_no_text_is_longer_than_allowed():
    rules = StopRules(settings(max_new_tokens=4).decoding, [0], lambda got: "")
    assert rules.first_stop([1] * 3, 0) is None
    assert rules.first_stop([1] * 4, 3) == rules.first_stop([1] * 9, 2) == (4, "max_tokens")


@pytest.mark.slow
def test_stop_strings_end_where_transformers_would_end():
    for number in range(93_000, 93_016):
        case = make_case(number, mode="edge", loop_period=0, min_new_tokens=0, max_new_tokens=18)
        tokenizer = case.edge.processor.tokenizer
        whole = case.run()[1].token_ids
        letters = [p for p in (tokenizer.decode([t]) for t in whole if t < 256) if p.isascii() and p.isprintable()]
        # transformers looks into special tokens, too
        letters = [p for p in letters if p.strip() and p not in "<|endoftext|>"]
        if not letters:
            continue
        stop = letters[len(letters) // 2]
        _, finished = make_case(
            number, mode="edge", loop_period=0, min_new_tokens=0, max_new_tokens=18, stop_strings=(stop,)
        ).run()
        criteria = StoppingCriteriaList([StopStringCriteria(tokenizer, [stop])])
        expected = next(
            n for n in range(1, len(whole) + 1) if bool(criteria(torch.tensor([whole[:n]]), torch.zeros(1, 1)))
        )
        assert finished.token_ids == whole[:expected]
        assert finished.finish_reason == "stop_string"
