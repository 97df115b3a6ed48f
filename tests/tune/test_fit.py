"""The fit: it finds what is there, is calibrated, and survives the way into a gate file and back."""

import math
import random

import pytest

from specdec_cli.decoding.evidence import TokenEvidence
from specdec_cli.decoding.learned import Classifier
from specdec_cli.errors import ConfigError
from tests.tune.recorded import trace_of

pytest.importorskip("sklearn", reason="needs the extra [tune]")
from specdec_cli.tune.learned_gate import Consequences, Example, examples, fit

ANY = Consequences(lambda ids: {"text": str(ids)})
"""By which any other token changes a class."""


def _example(rng: random.Random, group: int) -> Example:
    """Tokens 7 and 8 are changed with the probability of their rival, token 5 never."""
    id_, second = rng.choice((5, 7, 8)), rng.uniform(0.02, 0.48)
    entropy = -second * math.log(second) - (1 - second) * math.log(1 - second)
    candidates = ((id_, 1 - second), (9, second))
    token = TokenEvidence(id_, entropy, 1 - 2 * second, math.log(1 - second), candidates)
    return Example(token, rng.randrange(20), id_ != 5 and rng.random() < second, group)


def test_it_learns_which_attributes_are_changed_and_how_likely():
    rng = random.Random(0)
    found = [_example(rng, number // 10) for number in range(4000)]
    fitted = fit(found, {5: "volume", 7: "emotion", 8: "emotion"})
    weights = dict(zip(fitted.features, fitted.weights, strict=True))
    assert weights["id=7"] == weights["id=8"] > weights["id=5"]
    classifier = Classifier(fitted)
    fresh = [_example(rng, 0) for _ in range(4000)]
    chances = [classifier.token_probability([example.token], 0, example.place) for example in fresh]
    assert sum(chances) / sum(example.changed for example in fresh) == pytest.approx(1, abs=0.15)
    of_five = [p for p, example in zip(chances, fresh, strict=True) if example.token.id == 5]
    assert max(of_five) < 0.1


def test_a_token_counts_by_the_class_that_it_changes():
    """Synonyms are no changes, and an attribute may count more than others."""
    traces = [trace_of(seed) for seed in range(3, 9)]

    def classes(ids: tuple[int, ...]) -> dict[str, str | None]:
        return {"high": str(sum(id_ >= 7 for id_ in ids))}

    groups = range(len(traces))
    everything = examples(traces, groups, ANY)
    counted = examples(traces, groups, Consequences(classes, {"high": 3.0}))
    tokens = zip(traces[0].edge.edge, traces[0].edge.target, strict=True)
    expected = [(one.id >= 7) != (other >= 7) for one, other in tokens]
    assert [example.changed for example in counted[: len(expected)]] == expected
    assert 0 < sum(example.changed for example in counted) < sum(example.changed for example in everything)
    assert {example.weight for example in counted if example.changed} == {3.0}


def test_a_token_decides_the_attribute_that_changes_with_its_rival():
    traces = [trace_of(seed) for seed in range(3, 9)]

    def classes(ids: tuple[int, ...]) -> dict[str, str | None]:
        return {"high": str(sum(id_ >= 7 for id_ in ids)), "always": "same"}

    decided = Consequences(classes).decided(traces)
    assert decided
    assert set(decided.values()) == {"high"}
    tokens = [token for trace in traces for token in (*trace.edge.edge, *trace.cloud.edge)]
    unsure = [(t.id, t.candidates[1][0]) for t in tokens if len(t.candidates) > 1 and t.entropy >= 0.05]
    assert decided.keys() == {id_ for pair in unsure if (pair[0] >= 7) != (pair[1] >= 7) for id_ in pair}


def test_too_little_to_learn_from_is_refused():
    rng = random.Random(2)
    found = [_example(rng, 0) for _ in range(100)]
    with pytest.raises(ConfigError, match="too little"):
        fit(found, {})
