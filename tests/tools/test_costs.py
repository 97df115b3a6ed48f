"""Single forwards, what speculative decoding should gain from them, and bytes of weights and caches."""

from __future__ import annotations

import pytest

from specdec_cli.bench.timing import BenchClip
from specdec_cli.captioner import Captioner
from tests.bench.clip import K, clip, lossless
from tools.costs import expected_speedup, measure_steps

__all__ = ["clip", "lossless"]


def test_the_speed_up_pays_for_drafts_and_verification() -> None:
    assert expected_speedup(0.8, 5, 0.0) == pytest.approx(3.689, abs=1e-3)
    assert expected_speedup(0.8, 5, 0.1) == pytest.approx(3.68928 / 1.5, rel=1e-4)
    assert expected_speedup(0.8, 5, 0.1, verification_ratio=1.5) == pytest.approx(3.68928 / 2.0, rel=1e-4)
    assert expected_speedup(0.0, 3, 0.2) < 1, "drafts that never pass only cost"


def test_single_forwards_are_those_of_a_loop(lossless: Captioner, clip: BenchClip) -> None:
    text = tuple(range(20, 20 + 11))
    found = list(measure_steps(lossless.pair, clip, text, K))
    names = [step.name for step in found]
    assert names[:2] == ["edge-tower", "edge-prefill"]
    assert [names.count(name) for name in ("edge-step", "cloud-step")] == [len(text)] * 2
    verifications = [step for step in found if step.name == "verification"]
    assert [step.tokens for step in verifications] == [K + 1] * 3
    assert all(step.ms > 0 for step in found)
