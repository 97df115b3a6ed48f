"""The learned gate against values worked out by hand, the random one against its share, and stopping a draft."""

from __future__ import annotations

import math

import pytest
import torch

from specdec_cli.config.gate_file import LearnedWeights
from specdec_cli.decoding.assemble import gate_generator
from specdec_cli.decoding.evidence import evidence_of
from specdec_cli.decoding.gate import Gate, GateState
from specdec_cli.decoding.learned import Classifier
from specdec_cli.errors import ConfigError, DecodingError
from specdec_cli.models.processor import Prompt
from tests.laws.cases import collect, make_case
from tests.table import certain, spelled, table_loop
from tests.tiny import settings

# Two drafted tokens: 2 with p = 0.7 (then 1: 0.2, 0: 0.1), and 0 with p = 0.5 where 1 was as likely.
ROWS = torch.tensor([[0.1, 0.2, 0.7, 0.0], [0.5, 0.5, 0.0, 0.0]]).log()
IDS = (2, 0)


def _classifier(combination: str = "any", **weights: float) -> Classifier:
    named = {name.replace("__", "="): weight for name, weight in weights.items()}
    fitted = LearnedWeights(
        features=tuple(named), weights=tuple(named.values()), bias=-1.0, slope=2.0, offset=0.5, combination=combination
    )
    return Classifier(fitted, 0.4)


def _judged(gate: Gate) -> GateState:
    """The gate's judgement of the two tokens."""
    judge = gate.open(0)
    judge.add_all(ROWS, IDS)
    return judge


def _chance(logit: float) -> float:
    return 1 / (1 + math.exp(-(2 * (logit - 1) + 0.5)))


def test_evidence_by_hand() -> None:
    first, second = evidence_of(ROWS, IDS)
    assert first.entropy == pytest.approx(-0.1 * math.log(0.1) - 0.2 * math.log(0.2) - 0.7 * math.log(0.7))
    assert first.margin == pytest.approx(0.5)
    assert first.logprob == pytest.approx(math.log(0.7))
    assert first.candidates == ((2, pytest.approx(0.7)), (1, pytest.approx(0.2)), (0, pytest.approx(0.1)))
    assert second.margin == pytest.approx(0.0)
    assert len(second.candidates) == 2  # what is impossible is no candidate


@pytest.mark.parametrize(
    ("feature", "values"),
    [
        ("entropy", (0.801819, 0.693147)),
        ("log_entropy", (math.log(0.801819), math.log(0.693147))),
        ("margin", (0.5, 0.0)),
        ("logprob", (math.log(0.7), math.log(0.5))),
        ("odds", (math.log(0.2 / 0.7), 0.0)),
        ("third", (0.1, 0.0)),
        ("place", (math.log(11), math.log(12))),
        ("in_block", (0.0, 1.0)),
        ("before", (0.0, 0.801819)),
        ("id__2", (1.0, 0.0)),
        ("id__3", (0.0, 0.0)),
    ],
)
def test_every_feature_is_what_its_name_says(feature: str, values: tuple[float, ...]) -> None:
    classifier = _classifier(**{feature: 1.0})
    block = evidence_of(ROWS, IDS)
    for t, value in enumerate(values):
        assert classifier.token_probability(block, t, 10) == pytest.approx(_chance(value), abs=1e-5)


def test_a_block_is_as_doubtful_as_any_of_its_tokens_together() -> None:
    one, two = _chance(1.0), _chance(0.0)
    together = _judged(Gate("learned", classifier=_classifier(id__2=1.0)))
    assert together.values == pytest.approx([one, two])
    assert together.block_value == pytest.approx(1 - (1 - one) * (1 - two))
    largest = _judged(Gate("learned", classifier=_classifier("largest", id__2=1.0)))
    assert largest.block_value == pytest.approx(max(one, two))
    assert together.reason == "learned"


def test_a_token_that_is_less_certain_than_any_in_the_fit_escalates() -> None:
    fitted = LearnedWeights(features=("entropy",), weights=(0.0,), bias=-9.0, combination="any", most_entropy=0.75)
    judge = _judged(Gate("learned", classifier=Classifier(fitted, 0.4)))
    assert judge.values[0] == 1.0  # 0.80 nats; the second has 0.69
    assert judge.escalates
    known = fitted.model_copy(update={"most_entropy": None})
    assert not _judged(Gate("learned", classifier=Classifier(known, 0.4))).escalates


def test_its_own_threshold_holds_unless_another_is_given() -> None:
    classifier = _classifier(entropy=1.0)
    assert Gate("learned", classifier=classifier).threshold == 0.4
    assert Gate("learned", 0.9, classifier=classifier).threshold == 0.9


@pytest.mark.parametrize("name", ["colour", "doubt", "grid"])
def test_a_feature_of_another_version_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}=3'") as refused:
        _classifier(**{f"{name}__3": 1.0})
    assert "specdec tune" in str(refused.value.hint)


@pytest.mark.parametrize("gate", ["learned", "random"])
def test_a_gate_without_what_it_needs_is_refused(gate: str) -> None:
    with pytest.raises(DecodingError, match=gate):
        Gate(gate)  # type: ignore[arg-type]


def test_the_random_gate_escalates_its_share_of_the_blocks() -> None:
    gate = Gate("random", 0.3, generator=torch.Generator().manual_seed(0))
    judged = [_judged(gate) for _ in range(2000)]
    assert sum(judge.escalates for judge in judged) / 2000 == pytest.approx(0.3, abs=0.04)
    assert all(judge.escalates == (judge.values[0] < 0.3) for judge in judged)
    assert all(len(set(judge.values)) == 1 for judge in judged), "one draw a block"
    ends = [(Gate("random", end, generator=torch.Generator()), end == 1.0) for end in (0.0, 1.0)]
    assert all(_judged(gate).escalates is always for gate, always in ends for _ in range(50))


def test_its_draws_depend_on_the_seed_and_on_the_clip_and_on_nothing_else() -> None:
    def draws(seed: int, clip: float, threshold: float = 0.5) -> float:
        config = settings(gate="random", threshold=threshold, seed=seed)
        generator = gate_generator(config, Prompt((0,), {"input_features": torch.full((2, 3), clip)}))
        assert generator is not None
        return float(torch.rand((), generator=generator))

    assert draws(1, 0.5) == draws(1, 0.5, threshold=0.1)
    assert len({draws(1, 0.5), draws(2, 0.5), draws(1, 0.25)}) == 3


def test_asking_at_random_draws_no_token_differently() -> None:
    """With nothing escalated, a sampled text is the one that it would have been under any other gate."""
    for number in range(75_000, 75_010):
        case = make_case(number, mode="hybrid", temperature=1.0, loop_period=0, gate="never", acceptance=None)
        drawn = case.but(gate="random", threshold=0.0)
        assert case.run()[1].token_ids == drawn.run()[1].token_ids


def test_a_draft_stops_at_the_first_unsure_token_and_goes_to_the_cloud_at_once() -> None:
    edge = certain({"^": "a", "a": "b", "b": "c", "c": "d", "d": "e", "e": ""}, size=8)
    edge.table[4] = torch.tensor([0.0, 0, 0, 0, 0, 0.2, 0, 0])  # behind "c" it hardly knows
    cloud = certain({"^": "a", "a": "b", "b": "c", "c": "d", "d": "e", "e": ""}, size=8)
    for k, lengths in ((8, (4, 1)), (2, (2, 2, 1))):
        loop = table_loop(edge, cloud, gate="entropy", threshold=1.0, k=k, stop_drafting=True, max_new_tokens=9)
        rounds, finished = collect(loop.run())
        assert spelled(edge, finished.token_ids) == "abcde"
        assert tuple(len(round_.draft_ids) for round_ in rounds) == lengths
        (asked,) = [round_ for round_ in rounds if round_.escalated]
        assert asked.gate_values[-1] == asked.gate_value >= 1.0 > max((0.0, *asked.gate_values[:-1]))
        assert asked.committed_ids[-1] == cloud.processor.tokenizer.get_vocab()["e"]
