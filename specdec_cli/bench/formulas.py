"""Medians of measurements, and what speculative decoding should gain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specdec_cli.metrics.bootstrap import Interval, Resampler, middle


def median(values: Sequence[float]) -> Interval:
    """The median with its percentile bootstrap interval; at least one value is required."""
    found = Resampler(len(values)).interval(middle(np.array(values, dtype=np.float64)))
    assert found is not None  # every resample of finite values has a median
    return found


def tokens_per_round(acceptance: float, k: int) -> float:
    """Tokens that a verified block of k drafted ones yields, the cloud's own included.

    (1 - alpha^(k+1)) / (1 - alpha), Leviathan et al. 2023 ("Fast Inference from Transformers via Speculative
    Decoding"), equation 1: tokens are accepted independently with probability alpha.
    """
    return float(sum(acceptance**position for position in range(k + 1)))


def expected_speedup(acceptance: float, k: int, cost_ratio: float, verification_ratio: float = 1.0) -> float:
    """Speed-up over the cloud's own steps (Leviathan et al. 2023, theorem 3.8).

    Args:
        acceptance: alpha.
        k: drafted tokens a round, gamma in the paper.
        cost_ratio: c, an edge step in cloud steps.
        verification_ratio: a verification in cloud steps; the paper takes it to be 1, which does not hold on a CPU.
    """
    return tokens_per_round(acceptance, k) / (k * cost_ratio + verification_ratio)


def speedup_of_a_clip(speedup: float, *, edge_prefill: float, cloud_prefill: float, cloud_steps: float) -> float:
    """What is left of a speed-up of the steps for a whole clip (Amdahl 1967): prefills are not sped up; times in ms."""
    return (cloud_prefill + cloud_steps) / (edge_prefill + cloud_prefill + cloud_steps / speedup)
