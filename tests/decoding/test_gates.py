"""What the gates read and when they escalate, worked out by hand; the reference law has all of them at work."""

import math

import pytest
import torch

from specdec_cli.config.gate_file import LearnedWeights
from specdec_cli.decoding.assemble import gate_generator
from specdec_cli.decoding.evidence import Groups
from specdec_cli.decoding.gate import Gate, GateState
from specdec_cli.decoding.learned import Classifier
from specdec_cli.errors import ConfigError, DecodingError
from specdec_cli.models.processor import Prompt
from specdec_cli.types import DEFAULT_THRESHOLDS
from tests.tiny import gate_file, settings

# Two drafted tokens: 2 with p = 0.7 (then 1: 0.2, 0: 0.1), and 0 with p = 0.5 where 1 was as likely.
ROWS = torch.tensor([[0.1, 0.2, 0.7, 0.0], [0.5, 0.5, 0.0, 0.0]]).log()
IDS = (2, 0)


def _read(gate: Gate, rows: torch.Tensor = ROWS, ids: tuple[int, ...] = IDS) -> GateState:
    """The gate after the drafted tokens."""
    state = gate.open(0)
    state.read(rows, ids)
    return state


@pytest.mark.parametrize(
    ("gate", "threshold", "escalates"),
    [
        ("entropy", 0.5, True),
        ("entropy", 0.6, False),
        ("margin", 0.61, True),
        ("margin", 0.59, False),
        ("logprob", -0.22, True),
        ("logprob", -0.23, False),
        ("always", None, True),
        ("never", None, False),
    ],
)
def test_gates(gate, threshold, escalates):
    # p = 0.8, 0.2: entropy 0.500 nats, margin 0.6, log p = -0.223
    state = _read(Gate(gate, threshold), torch.tensor([[0.8, 0.2]]).log(), (0,))
    assert state.escalates is escalates
    assert state.reason == (gate if escalates else None)
    assert [token.entropy for token in state.evidence] == pytest.approx([0.5004024])
    figure = {"margin": 0.6, "logprob": math.log(0.8)}.get(gate, 0.5004024)
    assert state.values == pytest.approx([figure])


@pytest.mark.parametrize(
    ("groups", "nats"),
    [
        ({0: 0, 1: 0, 2: 1}, 0.5004024),  # two words for one class, 0.8, and a word for another
        ({0: 0, 1: 1}, 1.0549202),  # 0.4, 0.4 and all else, 0.2
        ({3: 0}, 0.0),  # all of it names no class
    ],
)
def test_entropy_between_classes(groups, nats):
    rows = torch.tensor([[0.4, 0.4, 0.2, 0.0]]).log()
    state = _read(Gate("class-entropy", 0.45, groups=Groups.of(groups, 4)), rows, (0,))
    assert state.values == pytest.approx([nats], abs=1e-6)
    assert state.evidence[0].entropy == pytest.approx(1.0549202)
    assert state.reason == ("class-entropy" if nats > 0.45 else None)


def test_class_entropy_needs_groups():
    with pytest.raises(DecodingError, match="no groups"):
        _read(Gate("class-entropy"))


def _classifier(combination: str = "any", **weights: float) -> Classifier:
    named = {name.replace("__", "="): weight for name, weight in weights.items()}
    fitted = LearnedWeights(
        features=tuple(named), weights=tuple(named.values()), bias=-1.0, slope=2.0, offset=0.5, combination=combination
    )
    return Classifier(fitted)


def test_a_token_that_is_less_certain_than_any_in_the_fit_escalates():
    fitted = LearnedWeights(features=("entropy",), weights=(0.0,), bias=-9.0, combination="any", most_entropy=0.75)
    state = _read(Gate("learned", 0.4, classifier=Classifier(fitted)))
    assert state.values[0] == 1.0  # 0.80 nats; the second has 0.69
    assert state.escalates
    known = fitted.model_copy(update={"most_entropy": None})
    assert not _read(Gate("learned", 0.4, classifier=Classifier(known))).escalates


@pytest.mark.parametrize(
    ("given", "of_file", "expected"),
    [
        ({}, {}, (0.4, 0.4)),
        ({}, {"wake": 0.7}, (0.4, 0.7)),
        ({"threshold": 0.9}, {"wake": 0.7}, (0.9, 0.9)),  # a file's wake threshold belongs to its own threshold
        ({"wake": 0.2}, {"wake": 0.7}, (0.4, 0.2)),
        ({"threshold": 0.9, "wake": 0.2}, {}, (0.9, 0.2)),
    ],
)
def test_the_threshold_that_counts(given, of_file, expected):
    file = gate_file(LearnedWeights(features=("entropy",), weights=(1.0,), bias=0.0, combination="any"), 0.4, **of_file)
    gate = Gate.of(settings(gate="learned", **given), file)
    assert (gate.threshold, gate.wake) == expected


def test_no_threshold_is_taken_from_another_gates_file():
    file = gate_file(LearnedWeights(features=("entropy",), weights=(1.0,), bias=0.0, combination="any"), 0.4, wake=0.7)
    for gate, threshold in DEFAULT_THRESHOLDS.items():
        made = Gate.of(settings(gate=gate), file)
        assert (made.threshold, made.wake, made.classifier) == (threshold, threshold, None)
    for mode, name in (("lossless", "always"), ("edge", "never")):
        assert Gate.of(settings(mode=mode, gate="learned", threshold=0.9), file).name == name


@pytest.mark.parametrize("name", ["colour", "doubt", "grid"])
def test_a_feature_of_another_version_is_refused(name):
    with pytest.raises(ConfigError, match=f"'{name}=3'") as refused:
        _classifier(**{f"{name}__3": 1.0})
    assert "specdec tune" in str(refused.value.hint)


@pytest.mark.parametrize("gate", ["learned", "random"])
def test_a_gate_without_what_it_needs_is_refused(gate):
    with pytest.raises(DecodingError, match=gate):
        Gate(gate).open(0)


def test_the_random_gate_escalates_its_share_of_the_blocks():
    gate = Gate("random", 0.3, generator=torch.Generator().manual_seed(0))
    states = [_read(gate) for _ in range(2000)]
    assert sum(state.escalates for state in states) / 2000 == pytest.approx(0.3, abs=0.04)
    assert all(state.escalates == (state.values[0] < 0.3) for state in states)
    assert all(len(set(state.values)) == 1 for state in states), "one draw a block"
    ends = [(Gate("random", end, generator=torch.Generator()), end == 1.0) for end in (0.0, 1.0)]
    assert all(_read(gate).escalates is always for gate, always in ends for _ in range(50))


def test_its_draws_depend_on_the_seed_and_on_the_clip_and_on_nothing_else():
    def draws(seed: int, clip: float, threshold: float = 0.5) -> float:
        config = settings(gate="random", threshold=threshold, seed=seed)
        generator = gate_generator(config, Prompt((0,), {"input_features": torch.full((2, 3), clip)}))
        assert generator is not None
        return float(torch.rand((), generator=generator))

    assert draws(1, 0.5) == draws(1, 0.5, threshold=0.1)
    assert len({draws(1, 0.5), draws(2, 0.5), draws(1, 0.25)}) == 3
