"""What settings cost: the cloud's time of a replay, from medians of measured parts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
from pydantic import Field

from specdec_cli.metrics.bootstrap import Figures, Values
from specdec_cli.transcript.schema import Transcript


class Parts(Figures):
    """Medians over clips of the cloud's forwards, ms: from them the cloud's time of a replay is estimated."""

    prefill_ms: float = Field(description="audio encoder and prefill, by cloud-only")
    step_ms: float = Field(description="each further forward of cloud-only")
    verification_ms: float = Field(description="each verification after the first one, which the prefill makes too")

    def hybrid_ms(self, woken: Values, escalations: Values) -> Values:
        """Of clips with so many escalations [n], some of which wake the cloud."""
        return np.asarray(woken * self.prefill_ms + np.maximum(escalations - 1, 0.0) * self.verification_ms)

    def alone_ms(self, tokens: Sequence[int]) -> Values:
        """Of cloud-only, which writes so many tokens [n]."""
        return self.prefill_ms + np.maximum(np.array(tokens, dtype=np.float64) - 1, 0.0) * self.step_ms


def parts_of(alone: Sequence[Transcript], lossless: Sequence[Transcript]) -> Parts | None:
    """The parts, by runs of cloud-only and of lossless; None where the cloud does not say what it spent."""
    prefills = [run.timing.prefill_cloud_ms for run in alone if run.timing.prefill_cloud_ms is not None]
    steps, verifications = (
        [ms for run in runs if (ms := _after_prefill_ms(run)) is not None] for runs in (alone, lossless)
    )
    if not (prefills and steps and verifications):
        return None
    found = {"prefill_ms": prefills, "step_ms": steps, "verification_ms": verifications}
    return Parts(**{name: round(median(ms), 4) for name, ms in found.items()})


def cloud_ms(run: Transcript) -> float:
    """Time of the cloud's forwards, audio encoder included; 0 where it did nothing, NaN where it does not say."""
    spent = run.timing.forwards_cloud_ms if run.woken else 0.0
    return float("nan") if spent is None else spent


def _after_prefill_ms(run: Transcript) -> float | None:
    """Mean time of the cloud's forwards after its prefill."""
    spent, read, totals = run.timing.forwards_cloud_ms, run.timing.prefill_cloud_ms, run.totals
    if spent is None or read is None or totals is None or (totals.forwards_cloud or 0) < 2:
        return None
    return (spent - read) / ((totals.forwards_cloud or 0) - 1)
