"""Calibration: a temperature per model and attribute, so that of classes given 70%, 70% are right.

A class of probability p gets p^(1/T), scaled so that all classes keep their sum (temperature scaling: Guo et al. 2017).
T above 1 lowers probabilities that are too high. The likeliest class stays the likeliest. The mini pair's temperatures
are shipped; those of a user, in `judging.temperatures`, hold for both models.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from specdec_cli.regular_files import read_json
from specdec_cli.types import Decider

SHIPPED: Final = Path(__file__).parent.parent / "mini" / "weights" / "calibration.json"
Calibration = Mapping[Decider, Mapping[str, float]]
"""The temperatures that hold for the models of a run: model -> attribute -> T."""


class FilePart(BaseModel):
    """A frozen part of a calibration file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class OfModel(FilePart):
    """The temperatures of one model."""

    weights: str = Field(description="fingerprint of the model's files, as transcripts have it")
    temperatures: dict[str, Annotated[float, Field(ge=0.05, le=20.0)]] = Field(description="attribute -> T")


class CalibrationFile(FilePart):
    """The shipped calibration, which training writes."""

    format: Literal["specdec calibration"] = "specdec calibration"
    version: Literal[1] = 1
    models: dict[Decider, OfModel]
    fitted_on: dict[str, Any] = Field(description="clips, speakers and measured figures, for people")


@cache
def shipped() -> CalibrationFile:
    """The calibration of the mini pair."""
    return read_json(SHIPPED, CalibrationFile, "calibration file", "Install specdec again.")


def calibration_for(weights: Mapping[str, str | None], own: Mapping[str, float]) -> Calibration:
    """The temperatures for the models of a run.

    Args:
        weights: fingerprint of each model's files.
        own: attribute -> temperature of the user, which holds for both models.
    """
    known = {role: model.temperatures for role, model in shipped().models.items() if weights.get(role) == model.weights}
    roles: tuple[Decider, ...] = ("edge", "cloud")
    return {role: {**known.get(role, {}), **own} for role in roles}


def sharpened(classes: Mapping[str, float], power: float) -> dict[str, float]:
    """Probabilities raised to a power, with their sum as it was."""
    raised = {name: p**power if p > 0 else 0.0 for name, p in classes.items()}
    total, most = sum(classes.values()), sum(raised.values())
    return {name: total * p / most for name, p in raised.items()} if most > 0 else dict(classes)
