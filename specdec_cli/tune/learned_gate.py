"""Fitting the learned gate: a logistic regression from recorded evidence to "the cloud's token changes a class".

A call is worth its cost where the caption then names another class (voice, rate, emotion ...), not where another word
means the same.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from specdec_cli.config.gate_file import Combination, LearnedWeights
from specdec_cli.decoding.evidence import TokenEvidence
from specdec_cli.decoding.learned import DENSE, OF_TOKEN
from specdec_cli.errors import ConfigError
from specdec_cli.evaluate.bootstrap import Values
from specdec_cli.tune.recording import Trace, Track

PENALTIES: Final = (10.0, 30.0, 100.0, 300.0, 1000.0)
"""Strengths of the L2 penalty on the weights of standardised features that are tried (scikit-learn's 1 / C)."""

FOLDS: Final = 5
_UNCERTAIN_NATS: Final = 0.05
_WEIGHTS: Final = "logisticregression__sample_weight"


@dataclass(frozen=True, slots=True)
class Example:
    """One drafted token, and what the cloud's own token would change there."""

    block: list[TokenEvidence]  # of its block up to it
    start: int  # tokens of the text before the block
    changed: bool  # the cloud's likeliest token is another one, and with it the caption names another class
    group: int  # index of the speaker or clip, which is kept together when data is split
    text: int  # index of the recorded text among all of them
    weight: float = 1.0  # how much it counts in the fit


class Consequences:
    """What a token changes about the classes that a caption names.

    Args:
        classes: of a text: attribute -> the class that it names, or None.
        weights: attribute -> how much a change of its class counts; 1 where it is missing.
    """

    def __init__(
        self,
        classes: Callable[[tuple[int, ...]], Mapping[str, str | None]],
        weights: Mapping[str, float] | None = None,
    ) -> None:
        self._classes, self._weights = classes, weights or {}

    def weight(self, track: Track, position: int) -> float:
        """Of what the cloud's token changes in place of the edge's, the rest of the text as it is; 0: no class."""
        changed = self._changed(track, position, track.target[position])
        return max((self._weights.get(name, 1.0) for name in changed), default=0.0)

    def decided(self, traces: Sequence[Trace]) -> dict[int, str]:
        """Token id -> the attribute that it decides: what changes most often where it and its rival change places.

        Of the tokens that the edge ever chose, or nearly chose, where it was not certain; others decide nothing.
        """
        votes: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for track in (track for trace in traces for track in (trace.edge, trace.cloud)):
            for position, candidates in enumerate(track.candidates):
                if track.entropy[position] >= _UNCERTAIN_NATS and len(candidates) > 1:
                    rival = candidates[1][0]
                    changed = self._changed(track, position, rival)
                    for id_ in (track.chosen[position], rival):
                        votes[id_].update(changed)
        return {id_: names.most_common(1)[0][0] for id_, names in sorted(votes.items()) if names}

    def _changed(self, track: Track, position: int, token: int) -> list[str]:
        """Attributes whose class changes with `token` in place of the edge's choice."""
        if track.chosen[position] == token:
            return []
        before, after = track.ids[:position], track.ids[position + 1 :]
        one, other = (self._classes((*before, id_, *after)) for id_ in (track.chosen[position], token))
        return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def examples(traces: Sequence[Trace], groups: Sequence[int], k: int, consequences: Consequences) -> list[Example]:
    """Every position of both texts once, in blocks of `k` as a run that keeps all of them would draft them.

    Args:
        traces, groups: clips, and the index of each one's speaker or clip.
        k: tokens drafted per block.
        consequences: which changes count, and how much.
    """
    found: list[Example] = []
    texts = count()
    for trace, group in zip(traces, groups, strict=True):
        parting = _parting(trace.edge, trace.cloud)
        for track, first in ((trace.edge, 0), (trace.cloud, parting)):
            text = next(texts)
            for position in range(first, len(track.ids)):
                start = position - (position - first) % k
                block = [track.evidence(place) for place in range(start, position + 1)]
                weight = consequences.weight(track, position)
                found.append(Example(block, start, weight > 0, group, text, weight or 1.0))
    return found


def _parting(edge: Track, cloud: Track) -> int:
    """First position at which the two texts have a history of their own."""
    pairs = enumerate(zip(edge.ids, cloud.ids, strict=False), 1)
    return next((after for after, (one, other) in pairs if one != other), max(len(edge.ids), len(cloud.ids)))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted classifier: what a gate file holds, and figures for people of how it was fitted and how it separates."""

    weights: LearnedWeights
    figures: dict[str, Any]


def fit(found: Sequence[Example], decided: Mapping[int, str], *, seed: int = 0) -> Fitted:
    """Fits and calibrates the classifier.

    Examples count by their weights in the fit, and alike in the calibration, so that a figure is still a probability.

    What is chosen is chosen by log loss on folds that keep clips together: the penalty, whether features of the block
    pay, and whether a block's probability is that of any of its tokens or that of the likeliest.

    Args:
        found: the examples.
        decided: token id -> the attribute that it decides. All tokens of an attribute share one weight: words of their
            own would take more speakers to learn than anybody has.
        seed: of the folds.

    Raises:
        ConfigError: the cloud changed too little to learn from.
    """
    attributes = sorted(set(decided.values()))
    weights_of = np.array([example.weight for example in found])
    changed = np.array([example.changed for example in found])
    values = _matrix(found, decided, attributes)
    splits = _splits(found, changed, seed)
    best = _simplest(list(_trials(values, changed, weights_of, splits)))
    model = _regression(best.penalty).fit(values[:, best.columns], changed, **{_WEIGHTS: weights_of})
    scaler, regression = model[0], model[1]
    weights = regression.coef_[0] / scaler.scale_  # for features that are not standardised
    # Platt (1999): a logistic regression of the outcome on the held-out logit
    platt = LogisticRegression(C=1e6).fit(best.logits[:, None], changed)
    slope, offset = float(platt.coef_[0, 0]), float(platt.intercept_[0])
    losses = {name: _block_loss(found, expit(slope * best.logits + offset), name) for name in ("any", "largest")}
    combination: Combination = "any" if losses["any"] <= losses["largest"] else "largest"
    names = (*DENSE, *attributes)
    by_name = {names[column]: round(float(weight), 6) for column, weight in zip(best.columns, weights, strict=True)}
    features = {name: by_name[name] for name in DENSE if name in by_name}
    features |= {f"id={id_}": by_name[attribute] for id_, attribute in decided.items()}
    return Fitted(
        LearnedWeights(
            features=tuple(features),
            weights=tuple(features.values()),
            bias=round(float(regression.intercept_[0] - scaler.mean_ @ weights), 6),
            slope=round(slope, 4),
            offset=round(offset, 4),
            most_entropy=math.ceil(100 * max(example.block[-1].entropy for example in found)) / 100,
            combination=combination,
        ),
        {
            "groups": len({example.group for example in found}),
            "tokens": len(found),
            "changed": int(changed.sum()),
            "penalty": best.penalty,
            "log_loss": round(best.loss, 5),
            "log_loss_of_a_constant": round(float(log_loss(changed, np.full(len(found), changed.mean()))), 5),
            "roc_area": round(float(roc_auc_score(changed, best.logits)), 4),
            "roc_area_of_entropy": round(
                float(roc_auc_score(changed, [example.block[-1].entropy for example in found])), 4
            ),
        },
    )


@dataclass(frozen=True, slots=True)
class _Trial:
    """One choice of features and penalty, with the logit of every example when its clip was held out."""

    columns: list[int]
    penalty: float
    logits: Values
    losses: Values  # log loss of each fold

    @property
    def loss(self) -> float:
        return float(self.losses.mean())


def _trials(
    values: Values,
    changed: npt.NDArray[np.bool_],
    weights: Values,
    splits: Sequence[tuple[Any, Any]],
) -> Iterator[_Trial]:
    """Every choice, those with fewer features first."""
    of_block = range(len(OF_TOKEN), len(DENSE))
    every = list(range(values.shape[1]))
    for columns in ([column for column in every if column not in of_block], every):
        for penalty in reversed(PENALTIES):
            logits = cross_val_predict(
                _regression(penalty),
                values[:, columns],
                changed,
                cv=splits,
                method="decision_function",
                params={_WEIGHTS: weights},
            )
            losses = [
                log_loss(changed[test], expit(logits[test]), labels=[False, True], sample_weight=weights[test])
                for _, test in splits
            ]
            yield _Trial(columns, penalty, logits, np.array(losses))


def _regression(penalty: float) -> Any:
    """A logistic regression on standardised features."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=1.0 / penalty, solver="newton-cholesky", max_iter=200))


def _simplest(trials: Sequence[_Trial]) -> _Trial:
    """The first trial that is within one standard error of the best, over the folds (Breiman et al. 1984)."""
    best = min(trials, key=lambda trial: trial.loss)

    def noise(trial: _Trial) -> float:
        return float((trial.losses - best.losses).std(ddof=1) / np.sqrt(len(best.losses)))

    return next(trial for trial in trials if trial.loss - best.loss <= noise(trial))


def _splits(found: Sequence[Example], changed: npt.NDArray[np.bool_], seed: int) -> list[tuple[Any, Any]]:
    """Folds of clips, (train, test) indices each."""
    groups = np.array([example.group for example in found])
    folds = min(FOLDS, len(set(groups[changed].tolist())))
    if folds < 2:
        raise ConfigError(
            f"the cloud changes a class in {folds} of the clips, which is too little to fit a gate to",
            hint="Tune with more clips, or leave the learned gate out.",
        )

    chooser = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    return list(chooser.split(np.zeros(len(found)), changed, groups))


def _block_loss(found: Sequence[Example], probabilities: Values, combination: str) -> float:
    """Log loss of the probability that a block is changed, over the blocks as they were cut."""
    blocks: dict[tuple[int, int, int], list[tuple[float, bool]]] = defaultdict(list)
    for example, p in zip(found, probabilities.tolist(), strict=True):
        blocks[example.group, example.text, example.start].append((p, example.changed))
    chances, outcomes = [], []
    for tokens in blocks.values():
        ps = np.array([p for p, _ in tokens])
        chances.append(1.0 - np.prod(1.0 - ps) if combination == "any" else ps.max())
        outcomes.append(any(changed for _, changed in tokens))

    return float(log_loss(outcomes, chances, labels=[False, True]))


def _matrix(found: Sequence[Example], decided: Mapping[int, str], attributes: Sequence[str]) -> Values:
    """[examples, features]: the dense ones, and 1 for the attribute that the token decides."""
    columns = {attribute: len(DENSE) + at for at, attribute in enumerate(attributes)}
    values = np.zeros((len(found), len(DENSE) + len(attributes)))
    for row, example in enumerate(found):
        token = example.block[-1]
        values[row, : len(DENSE)] = [
            feature(example.block, len(example.block) - 1, example.start) for feature in DENSE.values()
        ]
        if token.id in decided:
            values[row, columns[decided[token.id]]] = 1.0
    return values
