"""Fitting temperatures to decisions whose right class is known.

Their error is measured on speakers that they were not fitted to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import Field

from specdec_cli.calibrate.decisions import Decision
from specdec_cli.errors import ConfigError
from specdec_cli.labels.calibration import CalibrationFile, OfModel, sharpened
from specdec_cli.stats import Figures
from specdec_cli.types import LEAST_PROBABILITY, Decider, Mode

BINS: Final = 10
"""Bins of equal width that probabilities are sorted into for the expected calibration error."""
FOLDS: Final = 10
LEAST_CAPTIONS: Final = 50
"""Decisions of one model about one attribute that a temperature is fitted to."""
_LOG_T: Final = (-2.0, 2.0)


class Bin(Figures):
    """Classes in captions that have about the same probability, or all of them."""

    captions: int
    probability: float = Field(description="their mean probability, 0 to 1")
    accuracy: float = Field(description="share of them that are right, 0 to 1")


class Reliability(Bin):
    """How well the probabilities of classes agree with how often they are right."""

    ece: float = Field(description="expected calibration error, 0 to 1, over bins of equal width")
    bins: list[Bin]


class TemperatureFit(Figures):
    """The reliability of one attribute in captions of one mode, before and after calibration."""

    attribute: str
    mode: Mode
    raw: Reliability = Field(description="as the models give them")
    calibrated: Reliability = Field(description="at temperatures that were fitted to other speakers, if to any")


class CalibrationFound(Figures):
    """A calibration and its figures."""

    decisions: int
    groups: int = Field(description="speakers, or clips where the references name no speakers")
    by_speaker: bool
    models: dict[Decider, OfModel] = Field(description="temperatures; 1: none lowers the error; too few captions: none")
    fits: list[TemperatureFit]

    def file(self, version: str) -> CalibrationFile:
        """The calibration file; `version`: of specdec."""
        bins = {"raw": {"bins"}, "calibrated": {"bins"}}
        figures = self.model_dump(exclude={"models": True, "fits": {"__all__": bins}})
        return CalibrationFile(models=self.models, fitted_on={"specdec": version, **figures})


def calibrate(decisions: Sequence[Decision], *, by_speaker: bool, seed: int = 0) -> CalibrationFound:
    """Fits a temperature to each model and attribute, and measures them on groups that they were not fitted to.

    Raises:
        ConfigError: there is too little to fit to, or a role was not one model's with a fingerprint.
    """
    groups = sorted({decision.group for decision in decisions})
    order = np.random.default_rng(seed).permutation(len(groups))
    fold = {group: int(place) % FOLDS for group, place in zip(groups, order, strict=True)}
    temperatures: defaultdict[Decider, dict[str, float]] = defaultdict(dict)
    measured: defaultdict[tuple[str, Mode], list[tuple[Decision, Decision]]] = defaultdict(list)
    for by, attribute in dict.fromkeys((decision.by, decision.attribute) for decision in decisions):
        own = [decision for decision in decisions if (decision.by, decision.attribute) == (by, attribute)]
        temperature, held_out = _fit(own, fold)
        for raw, calibrated in zip(own, held_out, strict=True):
            measured[attribute, raw.mode].append((raw, calibrated))
        if temperature is not None:
            temperatures[by][attribute] = temperature
    if not temperatures:
        raise ConfigError(
            f"Captions and references both name {len(decisions)} classes, of {len(groups)} speakers or clips. "
            f"A temperature needs {LEAST_CAPTIONS} of one attribute and model, of at least two speakers or clips.",
            hint="Name more transcripts that were made with --labels, or references with more of their files.",
        )
    weights = {by: {decision.weights for decision in decisions if decision.by == by} for by in temperatures}
    if any(len(of) != 1 or None in of for of in weights.values()):
        message = f"As {' and '.join(weights)} the transcripts name several models, or one without its weights."
        raise ConfigError(message, hint="Calibrate transcripts of one pair.")
    models = {by: OfModel(weights=of.pop() or "", temperatures=temperatures[by]) for by, of in weights.items()}
    fits = []
    for (attribute, mode), pairs in sorted(measured.items()):
        before, after = (reliability(found) for found in zip(*pairs, strict=True))
        fits.append(TemperatureFit(attribute=attribute, mode=mode, raw=before, calibrated=after))
    return CalibrationFound(
        decisions=len(decisions), groups=len(groups), by_speaker=by_speaker, models=models, fits=fits
    )


def fit_temperature(decisions: Sequence[Decision]) -> float:
    """The temperature at which the right classes are likeliest: least log loss, over log T."""
    from scipy.optimize import minimize_scalar

    names = list(decisions[0].classes)
    table = np.array([[decision.classes.get(name, 0.0) for name in names] for decision in decisions])
    right = np.array([[decision.truth == name for name in names] for decision in decisions])
    logs = np.log(np.maximum(table, LEAST_PROBABILITY))  # less likely tokens are not kept

    def loss(log_t: float) -> float:
        scaled = logs / np.exp(log_t)
        return float((np.logaddexp.reduce(scaled, axis=1) - scaled[right]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=_LOG_T, method="bounded", options={"xatol": 1e-6}).x))


def reliability(decisions: Sequence[Decision]) -> Reliability:
    """How often the classes in captions are right, by their probability (Naeini et al. 2015; Guo et al. 2017)."""
    given = np.array([decision.classes[decision.named] for decision in decisions])
    right = np.array([decision.named == decision.truth for decision in decisions])
    places = np.minimum((given * BINS).astype(int), BINS - 1)
    bins = [_bin(given[places == place], right[places == place]) for place in np.unique(places)]
    ece = sum(each.captions * abs(each.probability - each.accuracy) for each in bins) / len(decisions)
    return Reliability(**dict(_bin(given, right)), ece=ece, bins=bins)


def _bin(given: npt.NDArray[np.float64], right: npt.NDArray[np.bool_]) -> Bin:
    return Bin(captions=len(given), probability=float(given.mean()), accuracy=float(right.mean()))


def _fit(decisions: Sequence[Decision], fold: Mapping[str, int]) -> tuple[float | None, Sequence[Decision]]:
    """A temperature, 1 if no other lowers the error; and each decision at the temperature of the other folds."""
    parts = {fold[decision.group] for decision in decisions}
    if len(decisions) < LEAST_CAPTIONS or len(parts) < 2:
        return None, decisions
    others = {part: fit_temperature([one for one in decisions if fold[one.group] != part]) for part in parts}
    tried = [replace(one, classes=sharpened(one.classes, 1 / others[fold[one.group]])) for one in decisions]
    if reliability(tried).ece >= reliability(decisions).ece:
        return 1.0, decisions
    return round(fit_temperature(decisions), 4), tried
