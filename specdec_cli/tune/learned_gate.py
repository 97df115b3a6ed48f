"""Fitting the learned gate: a logistic regression from recorded evidence to "the cloud's token changes a class".

A call is worth its cost where the caption then names another class (voice, rate, emotion ...), not where another word
means the same.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from specdec_cli.config.gate_file import LearnedWeights
from specdec_cli.decoding.evidence import TokenEvidence
from specdec_cli.decoding.learned import OF_TOKEN
from specdec_cli.errors import ConfigError
from specdec_cli.tune.recording import Trace, Track

PENALTIES: Final = (10.0, 30.0, 100.0, 300.0, 1000.0)
"""Strengths of the L2 penalty on the weights of standardised features that are tried (scikit-learn's 1 / C)."""

FOLDS: Final = 5
_UNCERTAIN_NATS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Example:
    """One drafted token, and what the cloud's own token would change there."""

    token: TokenEvidence
    place: int  # tokens of the text before it
    changed: bool  # the cloud's likeliest token is another one, and with it the caption names another class
    group: str | int  # the speaker or clip, which is kept together when data is split
    weight: float = 1.0  # how much it counts in the fit


class Consequences:
    """What a token changes about the classes that a caption names.

    `classes` gives those of a text: attribute -> the class that it names, or None. `weights` is how much a change of an
    attribute's class counts; 1 where it is missing.
    """

    def __init__(
        self, classes: Callable[[tuple[int, ...]], Mapping[str, str | None]], weights: Mapping[str, float] | None = None
    ) -> None:
        self._classes, self._weights = classes, weights or {}

    def weight(self, track: Track, position: int) -> float:
        """The largest weight of a class that the cloud's token changes in place of the edge's; 0: it changes none."""
        changed = self._changed(track, position, track.target[position])
        return max((self._weights.get(name, 1.0) for name in changed), default=0.0)

    def decided(self, traces: Sequence[Trace]) -> dict[int, str]:
        """Token id -> the attribute that it decides: the one that changes most often if its rival takes its place.

        Tokens are those that the edge chose or nearly chose while it was unsure; others decide nothing.
        """
        votes: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for track in (track for trace in traces for track in (trace.edge, trace.cloud)):
            for position, token in enumerate(track.edge):
                if token.entropy >= _UNCERTAIN_NATS and len(token.candidates) > 1:
                    rival = token.candidates[1][0]
                    changed = self._changed(track, position, rival)
                    for id_ in (token.id, rival):
                        votes[id_].update(changed)
        return {id_: names.most_common(1)[0][0] for id_, names in sorted(votes.items()) if names}

    def _changed(self, track: Track, position: int, token: int) -> list[str]:
        """Attributes whose class changes with `token` in place of the edge's choice."""
        if track.edge[position].id == token:
            return []
        before, after = track.ids[:position], track.ids[position + 1 :]
        one, other = (self._classes((*before, id_, *after)) for id_ in (track.edge[position].id, token))
        return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def examples(traces: Sequence[Trace], groups: Sequence[str | int], consequences: Consequences) -> list[Example]:
    """Every position of both texts of these clips, shared ones once; `groups`: the speaker or clip of each."""
    found: list[Example] = []
    for trace, group in zip(traces, groups, strict=True):
        pairs = enumerate(zip(trace.edge.ids, trace.cloud.ids, strict=False))
        parting = next((place for place, (one, other) in pairs if one != other), len(trace.cloud.ids))
        for track, first in ((trace.edge, 0), (trace.cloud, parting + 1)):  # from there the texts differ
            for place in range(first, len(track.ids)):
                weight = consequences.weight(track, place)
                found.append(Example(track.edge[place], place, weight > 0, group, weight or 1.0))
    return found


def fit(found: Sequence[Example], decided: Mapping[int, str], *, seed: int = 0) -> LearnedWeights:
    """Fits the classifier, with the penalty of the least log loss on folds that keep clips together.

    All tokens that decide an attribute (`decided`: token id -> attribute) share one weight: words of their own would
    take more speakers to learn than anybody has.

    Raises:
        ConfigError: the cloud changed too little to learn from.
    """
    names = (*OF_TOKEN, *sorted(set(decided.values())))
    values = np.array([_features(example, decided, names) for example in found])
    changed, groups, counted = (np.array([getattr(e, name) for e in found]) for name in ("changed", "group", "weight"))
    folds = min(FOLDS, len(set(groups[changed].tolist())))
    if folds < 2:
        raise ConfigError(
            f"The cloud changes a class in {folds} of the clips, which is too little to fit a gate to.",
            hint="Tune with more clips, or leave the learned gate out.",
        )
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky", max_iter=200)),
        {"logisticregression__C": [1 / penalty for penalty in PENALTIES]},
        scoring=lambda model, x, y: -log_loss(y, model.predict_proba(x), labels=[False, True]),
        cv=StratifiedGroupKFold(folds, shuffle=True, random_state=seed),
    ).fit(values, changed, groups=groups, logisticregression__sample_weight=counted)
    scaler, regression = search.best_estimator_
    weights = regression.coef_[0] / scaler.scale_  # for features that are not standardised
    by_name = {name: round(float(weight), 6) for name, weight in zip(names, weights, strict=True)}
    features = {name: by_name[name] for name in OF_TOKEN}
    features |= {f"id={id_}": by_name[attribute] for id_, attribute in decided.items()}
    return LearnedWeights(
        features=tuple(features),
        weights=tuple(features.values()),
        bias=round(float(regression.intercept_[0] - scaler.mean_ @ weights), 6),
        most_entropy=math.ceil(100 * max(example.token.entropy for example in found)) / 100,
        combination="any",
    )


def _features(example: Example, decided: Mapping[int, str], names: Sequence[str]) -> list[float]:
    """The features of the token, and 1 for the attribute that it decides."""
    own = {name: feature([example.token], 0, example.place) for name, feature in OF_TOKEN.items()}
    attribute = decided.get(example.token.id)
    return [own[name] if name in own else float(name == attribute) for name in names]
