"""Calibration: a temperature per model and attribute, so that of classes given 70%, 70% are right.

A class of probability p gets p^(1/T), scaled so that all classes keep their sum (temperature scaling: Guo et al. 2017).
T above 1 makes a model that is too sure less so. The likeliest class stays the likeliest. `specdec_cli.calibrate` fits
temperatures.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from specdec_cli.config.fields import setting
from specdec_cli.errors import ConfigError
from specdec_cli.labels import Lexicon
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
    """A calibration file."""

    format: Literal["specdec calibration"] = "specdec calibration"
    version: Literal[1] = 1
    models: dict[Decider, OfModel]
    fitted_on: dict[str, Any] = Field(description="clips, speakers and measured figures, for people")
    mark: str | None = setting(None, "by which `specdec calibrate` knows the file as its own")


class Labelling(NamedTuple):
    """What transcripts are labelled with; see `Captioner.labelled`."""

    lexicon: Lexicon
    calibration: CalibrationFile | None = None


def read_calibration(path: Path) -> CalibrationFile:
    """The calibration file at `path`; ConfigError if it cannot be read, or is none of this version."""
    return read_json(path, CalibrationFile, "calibration file", "specdec calibrate --output FILE writes one.")


def calibration_for(weights: Mapping[str, str | None], chosen: CalibrationFile | None) -> Calibration | None:
    """The calibration of the models of a run, by the fingerprints of their weights; None if there is none.

    `chosen` is the user's; None: the shipped one, if it is theirs.

    Raises:
        ConfigError: the chosen one is of other weights.
    """
    models = (chosen or read_calibration(SHIPPED)).models
    found = {role: model.temperatures for role, model in models.items() if weights.get(role) == model.weights}
    if chosen is not None and not found:
        message = "The calibration was fitted to other weights than those of the loaded models."
        raise ConfigError(message, hint="Fit one to transcripts of this pair: specdec calibrate")
    return found or None


def sharpened(classes: Mapping[str, float], power: float) -> dict[str, float]:
    """Probabilities raised to a power, with their sum as it was."""
    raised = {name: p**power if p > 0 else 0.0 for name, p in classes.items()}
    total, most = sum(classes.values()), sum(raised.values())
    return {name: total * p / most for name, p in raised.items()} if most > 0 else dict(classes)
