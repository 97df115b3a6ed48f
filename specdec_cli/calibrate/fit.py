"""From transcripts and references to a calibration, and what it comes to on speakers that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from specdec_cli.batch.lines import Line, stored_lines
from specdec_cli.confidence.calibration import CalibrationFile, OfModel, sharpened
from specdec_cli.decoding.scores import LEAST_PROBABILITY
from specdec_cli.errors import ConfigError, TranscriptError
from specdec_cli.metrics import Reference, References
from specdec_cli.metrics.bootstrap import Figures, Values
from specdec_cli.transcript.schema import ClassScores
from specdec_cli.types import Decider, Mode

BINS: Final = 10
"""Bins of equal width that probabilities are sorted into for the expected calibration error."""
FOLDS: Final = 10
LEAST_CLIPS: Final = 50
"""Decisions of one model about one attribute that a temperature is fitted to."""
_LOG_T: Final = (-2.0, 2.0)
_STEPS: Final = 60
_GOLDEN: Final = (5**0.5 - 1) / 2

_ROLES: Final[tuple[Decider, ...]] = ("edge", "cloud")

Bools = npt.NDArray[np.bool_]
_HeldOut = tuple["Decision", float]
"""A decision, and the temperature at which it is measured."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What one model gave the classes of one attribute in one clip, and which is right.

    Attributes:
        by, attribute: the model, and what it decided.
        classes: class -> probability, before any calibration.
        said, truth: the class in the caption, and the one in the references.
        group: the speaker, or the clip; groups are kept together when data is split.
        weights: fingerprint of the model's files.
        mode: that the caption was made in.
    """

    by: Decider
    attribute: str
    classes: Mapping[str, float]
    said: str
    truth: str
    group: str
    weights: str | None
    mode: Mode

    def probability(self, temperature: float) -> float:
        """Of the class in the caption, at a temperature."""
        return sharpened(self.classes, 1 / temperature)[self.said]


class Bin(Figures):
    """Decisions whose class has about the same probability."""

    clips: int
    probability: float = Field(description="mean of the class in the caption")
    accuracy: float = Field(description="share of these classes that are right")


class Reliability(Figures):
    """How well probabilities hold."""

    clips: int
    accuracy: float = Field(description="share of classes in captions that are right, 0 to 1")
    probability: float = Field(description="mean probability of the class in the caption, 0 to 1")
    ece: float = Field(description="expected calibration error, 0 to 1, over bins of equal width")
    bins: list[Bin]


class Fit(Figures):
    """One attribute: what one model decided in any mode, or what was decided in one mode by either model."""

    attribute: str
    by: Decider | None = Field(description="the model; null: either")
    mode: Mode | None = Field(description="the mode; null: any")
    temperature: float | None = Field(description="of the model; null: too few clips, or no gain")
    raw: Reliability = Field(description="as the models give them")
    calibrated: Reliability | None = Field(
        description="at temperatures that were fitted to other speakers; null: as they are"
    )


class CalibrationFound(Figures):
    """What a calibration comes to."""

    decisions: int
    groups: int = Field(description="speakers, or clips where the references name no speakers")
    by_speaker: bool
    folds: int
    fits: list[Fit]


def finder(table: References) -> Callable[[Line], Reference | None]:
    """Finds the reference of a line."""
    return lambda line: table.find(line.values["file"], line.start_s, line.values.get("end_s"))


def read_decisions(paths: Sequence[Path], find: Callable[[Line], Reference | None]) -> Iterator[Decision]:
    """The decisions in files of transcripts whose right class is known.

    Args:
        paths: the files.
        find: the reference of a line, or None.

    Raises:
        TranscriptError: a file holds something else, or cannot be read.
    """
    for path in paths:
        for line in lines_of(path):
            reference = find(line)
            if reference is None:
                continue
            mode = line.values["mode"]
            for attribute, scores in scores_of(line, path).items():
                said, truth = (line.values.get("labels") or {}).get(attribute), reference.labels.get(attribute)
                if said in scores.classes and truth in scores.classes:
                    model = line.values["models"].get(scores.by) or {}
                    raw = sharpened(scores.classes, scores.temperature or 1.0)
                    group = reference.speaker or reference.key
                    yield Decision(scores.by, attribute, raw, said, truth, group, model.get("weights"), mode)


def lines_of(path: Path) -> Iterator[Line]:
    """The lines of a file of transcripts that have a caption.

    Raises:
        TranscriptError: it holds something else, or cannot be read.
    """
    try:
        yield from (line for line in stored_lines(path) if line.good)
    except OSError as error:
        raise TranscriptError(
            f"The transcript {path} cannot be read: {error.strerror or error}.",
            hint="Name a file that `specdec caption --output` or `specdec batch` wrote.",
        ) from error


def scores_of(line: Line, path: Path) -> dict[str, ClassScores]:
    """Attribute -> scores in a line; empty if it was made without --labels.

    Raises:
        TranscriptError: they are malformed.
    """
    try:
        return {name: ClassScores.model_validate(given) for name, given in (line.values.get("scores") or {}).items()}
    except (ValidationError, AttributeError) as error:
        raise TranscriptError(
            f"{path}:{line.number} is no transcript of schema 1: its scores are malformed.", hint="Delete that line."
        ) from error


def calibrate(decisions: Sequence[Decision], *, by_speaker: bool, seed: int = 0) -> CalibrationFound:
    """Fits a temperature to each model and attribute, and measures it on groups that it was not fitted to.

    Raises:
        ConfigError: there is too little to fit to.
    """
    groups = sorted({decision.group for decision in decisions})
    folds = min(FOLDS, len(groups))
    if folds < 2 or len(decisions) < LEAST_CLIPS:
        raise ConfigError(
            f"{len(decisions)} classes of {len(groups)} speakers or clips are known, which is too little to calibrate",
            hint="Name transcripts that were made with --labels, and references with classes for them.",
        )
    order = np.random.default_rng(seed).permutation(len(groups))
    fold = {group: int(place) % folds for group, place in zip(groups, order, strict=True)}
    fits: list[Fit] = []
    for attribute in dict.fromkeys(decision.attribute for decision in decisions):
        of_attribute = [decision for decision in decisions if decision.attribute == attribute]
        held_out: list[_HeldOut] = []
        for by in _ROLES:
            if own := [decision for decision in of_attribute if decision.by == by]:
                fit, pairs = _fit(by, attribute, own, fold)
                fits.append(fit)
                held_out += pairs
        for mode in dict.fromkeys(decision.mode for decision, _ in held_out):
            pairs = [pair for pair in held_out if pair[0].mode == mode]
            changed = any(temperature != 1.0 for _, temperature in pairs)
            raw, after = _measured([(decision, 1.0) for decision, _ in pairs]), _measured(pairs) if changed else None
            fits.append(Fit(attribute=attribute, by=None, mode=mode, temperature=None, raw=raw, calibrated=after))
    return CalibrationFound(decisions=len(decisions), groups=len(groups), by_speaker=by_speaker, folds=folds, fits=fits)


def calibration_file(found: CalibrationFound, decisions: Sequence[Decision], version: str) -> CalibrationFile:
    """The file of a calibration; `version` is that of specdec.

    Raises:
        ConfigError: the transcripts are of several models in one role, or of models without a fingerprint.
    """
    models: dict[Decider, OfModel] = {}
    for by in _ROLES:
        temperatures = {fit.attribute: fit.temperature for fit in found.fits if fit.by == by and fit.temperature}
        weights = {decision.weights for decision in decisions if decision.by == by}
        if not temperatures:
            continue
        if len(weights) != 1 or None in weights:
            raise ConfigError(
                f"the transcripts do not name one {by} model by the fingerprint of its weights",
                hint="Calibrate transcripts of one pair.",
            )
        models[by] = OfModel(weights=str(weights.pop()), temperatures=temperatures)
    errors = {
        f"{fit.attribute}, {fit.by or f'mode {fit.mode}'}": {
            "clips": fit.raw.clips,
            "ece": round(fit.raw.ece, 4),
            "ece_calibrated": None if fit.calibrated is None else round(fit.calibrated.ece, 4),
        }
        for fit in found.fits
    }
    about = found.model_dump(include={"decisions", "groups", "by_speaker", "folds"})
    return CalibrationFile(models=models, fitted_on={"specdec": version, **about, "errors": errors})


def fit_temperature(decisions: Sequence[Decision]) -> float:
    """The temperature at which the right classes are likeliest: least log loss, by golden section over log T."""
    logs, right = _logs(decisions)

    def loss(log_t: float) -> float:
        scaled = logs / np.exp(log_t)
        return float((np.logaddexp.reduce(scaled, axis=1) - scaled[right]).mean())

    low, high = _LOG_T
    for _ in range(_STEPS):
        one, other = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, other) if loss(one) < loss(other) else (one, high)
    return float(np.exp((low + high) / 2))


def reliability(probabilities: Values, right: Bools) -> Reliability:
    """Bins of probabilities [n] of classes of which `right` [n] are right (Naeini et al. 2015; Guo et al. 2017)."""
    places = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    bins, error = [], 0.0
    for place in range(BINS):
        if (inside := places == place).any():
            mean, share = float(probabilities[inside].mean()), float(right[inside].mean())
            error += float(inside.mean()) * abs(mean - share)
            bins.append(Bin(clips=int(inside.sum()), probability=mean, accuracy=share))
    return Reliability(
        clips=len(right), accuracy=float(right.mean()), probability=float(probabilities.mean()), ece=error, bins=bins
    )


def _logs(decisions: Sequence[Decision]) -> tuple[Values, Bools]:
    """Log-probabilities [n, classes] and which class is right, bool [n, classes]."""
    names = list(decisions[0].classes)
    table = np.array([[decision.classes.get(name, 0.0) for name in names] for decision in decisions])
    right = np.array([[decision.truth == name for name in names] for decision in decisions])
    return np.log(np.maximum(table, LEAST_PROBABILITY)), right  # less likely tokens are not kept


def _fit(
    by: Decider, attribute: str, decisions: Sequence[Decision], fold: Mapping[str, int]
) -> tuple[Fit, list[_HeldOut]]:
    """A temperature, kept if it lowers the error where it was not fitted; each decision at that of the other folds."""
    plain: list[_HeldOut] = [(decision, 1.0) for decision in decisions]
    raw, after, temperature, pairs = _measured(plain), None, None, plain
    if len(decisions) >= LEAST_CLIPS and len({fold[decision.group] for decision in decisions}) > 1:
        others = {
            part: fit_temperature([decision for decision in decisions if fold[decision.group] != part])
            for part in {fold[decision.group] for decision in decisions}
        }
        tried = [(decision, others[fold[decision.group]]) for decision in decisions]
        if (measured := _measured(tried)).ece < raw.ece:
            after, temperature, pairs = measured, round(fit_temperature(decisions), 4), tried
    return Fit(attribute=attribute, by=by, mode=None, temperature=temperature, raw=raw, calibrated=after), pairs


def _measured(pairs: Sequence[_HeldOut]) -> Reliability:
    probabilities = np.array([decision.probability(temperature) for decision, temperature in pairs])
    return reliability(probabilities, np.array([decision.said == decision.truth for decision, _ in pairs]))
