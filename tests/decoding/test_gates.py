"""What the gates read and when they escalate, worked out by hand; the reference law has all of them at work."""

import math

import pytest
import torch

from specdec_cli.decoding.gate import Gate, GateState, crosses
from specdec_cli.decoding.pair import gate_generator
from specdec_cli.decoding.rows import CANDIDATES, Groups, TokenEvidence, read
from specdec_cli.errors import DecodingError
from specdec_cli.models.processor import Prompt
from specdec_cli.types import DEFAULT_THRESHOLDS
from tests.tiny import settings

# Two drafted tokens: 2 with p = 0.7 (then 1: 0.2, 0: 0.1), and 0 with p = 0.5 where 1 was as likely.
ROWS = torch.tensor([[0.1, 0.2, 0.7, 0.0], [0.5, 0.5, 0.0, 0.0]]).log()
IDS = (2, 0)


def _read(gate: Gate, rows: torch.Tensor = ROWS, ids: tuple[int, ...] = IDS) -> GateState:
    """The gate after the drafted tokens."""
    state = gate.open()
    for row in read(rows, CANDIDATES, ids=torch.tensor(ids), doubt=True, groups=gate.summed):
        state.add(TokenEvidence.of(row))
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


def test_a_figure_at_its_threshold_escalates():
    assert crosses("entropy", 0.5, 0.5)
    assert crosses("margin", 0.5, 0.5)
    assert not crosses("random", 0.0, 0.0)


@pytest.mark.parametrize(("gate", "threshold"), [("entropy", 0.75), ("margin", 0.3), ("logprob", -0.6)])
def test_one_unsure_token_escalates_the_block(gate, threshold):
    state = _read(Gate(gate, threshold))
    assert state.escalates
    assert [_read(Gate(gate, threshold), ROWS[at : at + 1], IDS[at : at + 1]).escalates for at in (0, 1)].count(
        True
    ) == 1


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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (2.5, 2.5)),
        ({"threshold": 0.9}, (0.9, 0.9)),
        ({"wake": 0.2}, (2.5, 0.2)),
        ({"threshold": 0.9, "wake": 0.2}, (0.9, 0.2)),
    ],
)
def test_the_threshold_that_counts(given, expected):
    gate = Gate.of(settings(gate="entropy", **given))
    assert (gate.threshold, gate.wake) == expected


def test_every_gate_has_a_threshold_of_its_own():
    for name, threshold in DEFAULT_THRESHOLDS.items():
        made = Gate.of(settings(gate=name))
        assert (made.threshold, made.wake) == (threshold, threshold)
    for mode, name in (("lossless", "always"), ("edge", "never")):
        assert Gate.of(settings(mode=mode, gate="entropy", threshold=0.9)).name == name


def test_a_random_gate_without_a_generator_is_refused():
    with pytest.raises(DecodingError, match="random"):
        Gate("random").open()


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
