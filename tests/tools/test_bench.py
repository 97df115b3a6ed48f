"""Assisted generation beside lossless decoding: the same tokens, and nothing left changed in the models."""

import pytest

from tests.mini_pair import captioner
from tests.tools.clip import clip_of
from tools.bench import generate_assisted
from tools.timing import caption

TOKENS = 12


@pytest.mark.slow
def test_the_assistant_changes_no_token_and_is_left_as_it_was():
    lossless = captioner(decoding__mode="lossless", decoding__max_new_tokens=TOKENS, decoding__loop_period=0)
    edge, cloud = lossless.pair.loaded
    clip = clip_of(lossless)
    stated = edge.module.config.get_text_config().vocab_size
    assisted = generate_assisted(cloud, edge, clip.cloud, lossless.config.decoding)
    assert assisted.ids == caption(lossless, clip).ids
    assert edge.module.config.get_text_config().vocab_size == stated
