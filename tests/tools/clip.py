"""A clip to measure with."""

import pytest

from specdec_cli.captioner import Captioner
from tests.mini_pair import captioner, voice
from tools.timing import BenchClip

K = 3
TOKENS = 20


def clip_of(models: Captioner) -> BenchClip:
    """A second and a half of sound, as prompts for both models of a captioner."""
    edge, cloud = models.pair.prompts(models.config, voice(3), models.shared.instruction)
    assert edge is not None
    assert cloud is not None
    return BenchClip("voice", 1.5, edge, cloud())


@pytest.fixture(scope="module")
def lossless() -> Captioner:
    """The mini pair in lossless mode."""
    return captioner(decoding__mode="lossless", decoding__k=K, decoding__max_new_tokens=TOKENS, decoding__loop_period=0)


@pytest.fixture(scope="module")
def clip(lossless) -> BenchClip:
    """A clip for it."""
    return clip_of(lossless)
