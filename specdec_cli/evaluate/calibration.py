"""The temperature at which the probabilities of an attribute's classes fit references, and their error at it.

The error is the expected calibration error: the mean distance between the probability of the classes that captions name
and the share of them that is right, over ten bins (Guo et al. 2017). At a temperature it is that of speakers to whom it
was not fitted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from specdec_cli.format import share
from specdec_cli.labels.calibration import sharpened
from specdec_cli.labels.references import Reference
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import LEAST_PROBABILITY

LEAST: Final = 50
"""Captions to which a temperature is fitted."""
_FOLDS: Final = 5
_BINS: Final = 10
_LOG_T: Final = (-2.0, 2.0)


@dataclass(frozen=True, slots=True)
class Decision:
    """The probabilities of the classes of one attribute in one caption, and the class that is right."""

    attribute: str
    classes: Mapping[str, float]  # before any temperature
    temperature: float  # at which the transcript has them
    named: str  # the class in the caption
    truth: str
    group: str  # the speaker, or the clip


def decisions(runs: Iterable[tuple[Transcript, Reference | None]]) -> Iterator[Decision]:
    """The decisions in transcripts whose right class is known."""
    for run, reference in runs:
        if reference is None:
            continue
        for name, found in (run.scores or {}).items():
            named, truth = (run.labels or {}).get(name), reference.labels.get(name)
            if named in found.classes and truth in found.classes:
                at = found.temperature or 1.0
                yield Decision(name, sharpened(found.classes, at), at, named, truth, reference.speaker or reference.key)


def advice(runs: Iterable[tuple[Transcript, Reference | None]]) -> Iterator[str]:
    """A sentence for each attribute whose probabilities are nearer to the truth at another temperature."""
    by_name = defaultdict[str, list[Decision]](list)
    for decision in decisions(runs):
        by_name[decision.attribute].append(decision)
    for name, own in by_name.items():
        groups = sorted({decision.group for decision in own})
        if len(own) < LEAST or len(groups) < _FOLDS:
            continue
        before, right = error(own), np.mean([decision.named == decision.truth for decision in own])
        fold = {group: place % _FOLDS for place, group in enumerate(groups)}
        fits = [fitted([each for each in own if fold[each.group] != part]) for part in range(_FOLDS)]
        after = error(own, [fits[fold[each.group]] for each in own])
        if after < before:
            yield (
                f"Probabilities of {name}: {share(float(right))} of the classes are right, and the probabilities are "
                f"off by {share(before)}. At one temperature they are off by {share(after)} on other speakers: "
                f"--set judging.temperatures={name}={fitted(own):.2f}"
            )


def error(own: Sequence[Decision], temperatures: Sequence[float] | None = None) -> float:
    """The expected calibration error, 0 to 1, at a temperature for each decision; None: those of the transcripts."""
    used = temperatures or [decision.temperature for decision in own]
    given = np.array([sharpened(each.classes, 1 / t)[each.named] for each, t in zip(own, used, strict=True)])
    right = np.array([decision.named == decision.truth for decision in own])
    places = np.minimum((given * _BINS).astype(int), _BINS - 1)
    return sum(
        abs(float((given[bin_] - right[bin_]).sum())) for bin_ in (places == place for place in np.unique(places))
    ) / len(own)


def fitted(own: Sequence[Decision]) -> float:
    """The temperature at which the right classes are likeliest: least log loss, over log T."""
    from scipy.optimize import minimize_scalar

    names = list(dict.fromkeys(name for decision in own for name in decision.classes))
    table = np.array([[decision.classes.get(name, 0.0) for name in names] for decision in own])
    right = np.array([[decision.truth == name for name in names] for decision in own])
    logs = np.log(np.maximum(table, LEAST_PROBABILITY))  # less likely tokens are not kept

    def loss(log_t: float) -> float:
        scaled = logs / np.exp(log_t)
        return float((np.logaddexp.reduce(scaled, axis=1) - scaled[right]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=_LOG_T, method="bounded", options={"xatol": 1e-6}).x))
