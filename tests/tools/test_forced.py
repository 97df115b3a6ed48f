"""Chosen tokens: drafts pass as often as asked, and the text is the one that was given."""

import pytest

from specdec_cli.captioner import Captioner
from tests.tiers import few
from tests.tools.clip import TOKENS, K
from tools.forced import ForcedLM, ForcedLoop, ForcedMode, accepted, verified
from tools.timing import BenchClip, CaptionTiming


def forced(captioner: Captioner, clip: BenchClip) -> ForcedLoop:
    edge, cloud = map(ForcedLM, captioner.pair.loaded)
    return ForcedLoop(edge, cloud, clip, captioner.config)


@pytest.fixture(scope="module")
def loop(lossless, clip) -> ForcedLoop:
    return forced(lossless, clip)


def take(loop: ForcedLoop, mode: ForcedMode, text: tuple[int, ...], acceptance: float, seed: int = 0) -> CaptionTiming:
    return loop.take(mode, text, acceptance, seed, loop.pair())[0]


@pytest.mark.parametrize(
    ("mode", "acceptance"), few([("lossless", 0.5), ("hybrid", 0.0), ("hybrid", 1.0), ("edge", 0.5), ("cloud", 0.5)])
)
def test_forced_drafts_never_change_the_text(loop, mode, acceptance):
    target = loop.target()
    assert len(target) == TOKENS
    assert take(loop, mode, target, acceptance, 1).ids == target


@pytest.mark.slow
def test_forced_drafts_pass_as_often_as_asked(loop):
    target = loop.target()
    all_of_them, none = take(loop, "lossless", target, 1.0), take(loop, "lossless", target, 0.0)
    assert accepted(all_of_them) == verified(all_of_them) == TOKENS - TOKENS // (K + 1)
    assert accepted(none) == 0
    assert verified(none) == TOKENS
    runs = [take(loop, "lossless", target, 0.7, seed) for seed in range(20)]
    share = sum(map(accepted, runs)) / sum(map(verified, runs))
    assert share == pytest.approx(0.7, abs=0.09)
