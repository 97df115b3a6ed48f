"""What a tuning found, as `specdec tune --json` prints it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from specdec_cli.metrics import Interval
from specdec_cli.metrics.bootstrap import Figures
from specdec_cli.tune.frontier import FrontierPoint
from specdec_cli.tune.quality import Measure


class Tuning(Figures):
    """Gates against each other on one set of clips. Shares are between 0 and 1."""

    measure: Measure = Field(
        description="classes of references, chrF with their texts, or (agreement) with the cloud's caption"
    )
    clips: int = Field(description="clips that were recorded")
    fitted_on: int = Field(description="clips that thresholds and weights were chosen on")
    confirmed_on: int = Field(description="other clips, on which settings were run")
    split_by: str = Field(description="what keeps the two apart: speaker or clip")
    budget: float = Field(description="largest escalation rate that was to be recommended")
    edge_quality: float = Field(description="mean quality of the edge alone, on the clips of the runs")
    cloud_quality: float = Field(description="mean quality of the cloud alone, on the same clips")
    gap: Interval = Field(description="their difference")
    replays_exact: float = Field(description="share of the estimates' clips whose text never left the recorded ones")
    estimated: tuple[FrontierPoint, ...] = Field(description="every setting, replayed on the clips of the fitting")
    confirmed: tuple[FrontierPoint, ...] = Field(description="the settings that were run")
    recommended: FrontierPoint | None = Field(description="the setting to take; null: none, for the reason below")
    reason: str | None = Field(default=None, description="why nothing is recommended; null: a setting is")
    notes: list[str] = Field(default=[], description="what was left out, and how to have it")
    learned: dict[str, Any] | None = Field(description="how the learned gate was fitted; null without it")
    output: str | None = Field(default=None, description="gate file that was written")
