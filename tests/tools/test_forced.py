"""Forced drafts: they pass as often as asked, and never change the text."""

from __future__ import annotations

from itertools import pairwise

import pytest

from specdec_cli.bench.clips import Clip
from specdec_cli.captioner import Captioner
from tests.bench.clip import TOKENS, K
from tools.forced import ForcedLoop, ForcedMode, force


@pytest.fixture(scope="module")
def loop(lossless: Captioner, clip: Clip) -> ForcedLoop:
    return ForcedLoop(lossless.pair, clip, lossless.config)


@pytest.mark.parametrize("mode", ["cloud", "lossless", "hybrid"])
@pytest.mark.parametrize("acceptance", [0.0, 0.5, 1.0])
def test_forced_drafts_never_change_the_text(loop: ForcedLoop, mode: ForcedMode, acceptance: float) -> None:
    target = loop.target()
    assert len(target) == TOKENS
    assert loop.take(mode, target, acceptance, seed=1).ids == target


@pytest.mark.full
def test_forced_drafts_pass_as_often_as_asked(loop: ForcedLoop) -> None:
    target = loop.target()
    all_of_them, none = loop.take("lossless", target, 1.0, 0), loop.take("lossless", target, 0.0, 0)
    assert all_of_them.accepted == all_of_them.judged == TOKENS - TOKENS // (K + 1)
    assert none.accepted == 0
    assert none.judged == TOKENS
    runs = [loop.take("lossless", target, 0.7, seed) for seed in range(20)]
    share = sum(run.accepted for run in runs) / sum(run.judged for run in runs)
    assert share == pytest.approx(0.7, abs=0.09)


def test_the_oracle_escalates_blocks_with_a_mistake_alone(loop: ForcedLoop) -> None:
    target = loop.target()
    assert loop.take("hybrid", target, 1.0, 0).judged == 0, "nothing was wrong, and the cloud was asked"
    mistaken = loop.take("hybrid", target, 0.0, 0)
    assert (mistaken.accepted, mistaken.judged) == (0, TOKENS)


def test_forcing_reports_every_mode_at_every_acceptance(lossless: Captioner, clip: Clip) -> None:
    found = list(force([ForcedLoop(lossless.pair, clip, lossless.config)], (0.6, 0.9), rounds=1))
    assert [(forced.acceptance, forced.mode) for forced in found] == [
        (share, mode) for share in (0.6, 0.9) for mode in ("cloud", "lossless", "hybrid")
    ]
    assert all(forced.tokens_per_s.value > forced.caption_tokens_per_s.value > 0 for forced in found)


def test_settings_of_forced_runs_keep_the_processors(lossless: Captioner, clip: Clip) -> None:
    settings = lossless.config.decoding.model_copy(update={"no_repeat_ngram": 2})
    strict = ForcedLoop(lossless.pair, clip, lossless.config.model_copy(update={"decoding": settings}))
    target = strict.target()
    pairs = list(pairwise(target))
    assert len(pairs) == len(set(pairs))
    assert strict.take("lossless", target, 0.5, 0).ids == target
