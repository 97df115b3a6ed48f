"""Calibration: a temperature per model and attribute, so that of classes given 70%, 70% are right.

A class of probability p gets p^(1/T), scaled so that all classes keep their sum (temperature scaling: Guo et al. 2017).
T above 1 makes a model that is too sure less so. The likeliest class stays the likeliest. `specdec_cli.calibrate` fits
temperatures.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field

from specdec_cli.config.fields import setting
from specdec_cli.config.gate_file import FilePart
from specdec_cli.errors import ConfigError
from specdec_cli.labels import Lexicon
from specdec_cli.regular_files import read_json
<<<<<<< HEAD
from specdec_cli.types import Decider
=======
from specdec_cli.stats import Figures
from specdec_cli.transcript.lines import Mark, standing, stored_lines, transcript_at
from specdec_cli.transcript.terms import made_by
from specdec_cli.types import LEAST_PROBABILITY, Decider, Mode
>>>>>>> break1

SHIPPED: Final = Path(__file__).parent.parent / "mini" / "weights" / "calibration.json"
Calibration = Mapping[Decider, Mapping[str, float]]
"""The temperatures that hold for the models of a run: model -> attribute -> T."""


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
        message = "the calibration was fitted to other weights than those of the loaded models"
        raise ConfigError(message, hint="Fit one to transcripts of this pair: specdec calibrate")
    return found or None


def sharpened(classes: Mapping[str, float], power: float) -> dict[str, float]:
    """Probabilities raised to a power, with their sum as it was."""
    raised = {name: p**power if p > 0 else 0.0 for name, p in classes.items()}
    total, most = sum(classes.values()), sum(raised.values())
    return {name: total * p / most for name, p in raised.items()} if most > 0 else dict(classes)
<<<<<<< HEAD
=======


def read_decisions(paths: Sequence[Path], references: References) -> Iterator[Decision]:
    """The decisions in files of transcripts whose right class is known; those of a caption in two files count once.

    Raises:
        TranscriptError: a file holds something else, or cannot be read.
        ReferencesError: the references are about none of the recordings, or one row may be about several.
    """
    found: dict[tuple[object, ...], tuple[Path, Mark]] = {}
    files = set[str]()
    for path in paths:
        clips = defaultdict[tuple[object, ...], list[Mark]](list)
        for line in stored_lines(path):
            files.add(line.head.file)
            clips[line.key, line.head.prompt, made_by(line.head)].append(Mark.of(line))
        for clip, marks in clips.items():
            found |= {(*clip, mark.place): (path, mark) for mark in standing(marks) if mark.good}
    references.require_some(sorted(files))
    for path, mark in found.values():
        run = transcript_at(path, mark)
        if (reference := references.of(run)) is None:
            continue
        for attribute, scores in (run.scores or {}).items():
            named, truth = (run.labels or {}).get(attribute), reference.labels.get(attribute)
            if named in scores.classes and truth in scores.classes:
                model = run.models.edge if scores.by == "edge" else run.models.cloud
                weights, group = None if model is None else model.weights, reference.speaker or reference.key
                raw = sharpened(scores.classes, scores.temperature or 1.0)
                yield Decision(scores.by, attribute, raw, named, truth, group, weights, run.mode)


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
            f"{len(decisions)} classes of {len(groups)} speakers or clips are known both from captions and from "
            f"references; a temperature takes {LEAST_CAPTIONS} of one attribute and model, of two or more",
            hint="Name more transcripts that were made with --labels, or references with more of their files.",
        )
    weights = {by: {decision.weights for decision in decisions if decision.by == by} for by in temperatures}
    if any(len(of) != 1 or None in of for of in weights.values()):
        message = f"the transcripts do not name one model by its weights as {' and '.join(weights)} each"
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
    """A temperature, 1 where no other lowers the error; and each decision at the one fitted to the other folds."""
    parts = {fold[decision.group] for decision in decisions}
    if len(decisions) < LEAST_CAPTIONS or len(parts) < 2:
        return None, decisions
    others = {part: fit_temperature([one for one in decisions if fold[one.group] != part]) for part in parts}
    tried = [replace(one, classes=sharpened(one.classes, 1 / others[fold[one.group]])) for one in decisions]
    if reliability(tried).ece >= reliability(decisions).ece:
        return 1.0, decisions
    return round(fit_temperature(decisions), 4), tried
>>>>>>> break1
