"""Figures out of measurements, and what speculative decoding should gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specdec_cli.compare.result import Spread
from specdec_cli.metrics.bootstrap import Resampler, middle


def median(values: Sequence[float]) -> Spread:
    """The median with its percentile bootstrap interval; at least one value is wanted."""
    found = Resampler(len(values)).interval(middle(np.array(values, dtype=np.float64)))
    assert found is not None  # every resample of finite values has a median
    return found


def tokens_per_round(acceptance: float, k: int) -> float:
    """Tokens that a verified block of k drafted ones yields, the cloud's own included.

    (1 - alpha^(k+1)) / (1 - alpha), Leviathan et al. 2023 ("Fast Inference from Transformers via Speculative
    Decoding"), equation 1: tokens pass independently with probability alpha.
    """
    return float(sum(acceptance**position for position in range(k + 1)))


def expected_speedup(acceptance: float, k: int, cost_ratio: float, verification_ratio: float = 1.0) -> float:
    """How many times faster than the cloud's own steps (Leviathan et al. 2023, theorem 3.8).

    Args:
        acceptance: alpha.
        k: drafted tokens a round, gamma in the paper.
        cost_ratio: c, an edge step in cloud steps.
        verification_ratio: a verification in cloud steps; the paper takes it to be 1, which a CPU does not grant.
    """
    return tokens_per_round(acceptance, k) / (k * cost_ratio + verification_ratio)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is paid once a clip, and what the cloud alone would pay for its steps, ms."""

    edge_ms: float
    cloud_ms: float
    cloud_steps_ms: float

    def of_a_clip(self, speedup: float) -> float:
        """What is left of a speed-up of the steps for the whole clip (Amdahl 1967): the readings are not sped up."""
        alone = self.cloud_ms + self.cloud_steps_ms
        return alone / (self.edge_ms + self.cloud_ms + self.cloud_steps_ms / speedup)
