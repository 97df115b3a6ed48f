"""Which settings are run, and which one is recommended."""

from dataclasses import replace

import numpy as np

from specdec_cli.labels.references import Reference
from specdec_cli.stats import Resampler, Statistic, Values
from specdec_cli.tune.choosing import best_of, worth_running
from specdec_cli.tune.outcomes import Baselines, SettingOutcome
from specdec_cli.tune.replay import Candidate
from specdec_cli.tune.tuning_plan import TuningPlan, groups_of, split
from specdec_cli.types import GateName
from tests.tune.recorded import trace_of


def test_no_speaker_is_on_both_sides_of_the_split():
    traces = [trace_of(0).model_copy(update={"sha256": str(number)}) for number in range(20)]
    said = {trace.sha256: Reference(trace.file, (), {}, f"speaker {n % 5}") for n, trace in enumerate(traces)}
    by, groups = groups_of(traces, said)
    assert by == "speaker"
    for seed in range(10):
        halves = [{said[trace.sha256].speaker for trace in half} for half in split(traces, groups, seed)]
        assert halves[0] | halves[1] == {f"speaker {n}" for n in range(5)}
        assert not halves[0] & halves[1]
    few = {sha256: replace(one, speaker=f"speaker {n % 3}") for n, (sha256, one) in enumerate(said.items())}
    for unfit in (few, dict(list(said.items())[1:])):  # three speakers, and one clip of nobody
        assert groups_of(traces, unfit)[0] == "clip"


def constant(value: float) -> Statistic:
    return lambda counts: np.full(counts.shape[:-1], value)


EDGE = np.zeros((200, 1))


def _outcome(rate: float, quality: list[float], gate: GateName = "entropy", threshold: float = 1.0) -> SettingOutcome:
    calls = np.full(len(quality), 10 * rate)
    candidate, spent = Candidate(gate, threshold, 3), {"blocks": constant(rate)}
    return SettingOutcome(candidate, np.array(quality)[:, None], calls, spent)


def _best(outcomes: list[SettingOutcome], budget: float, edge: Values = EDGE) -> SettingOutcome | None:
    alone = Baselines(edge, np.ones(edge.shape), Resampler(len(edge)))
    return best_of(outcomes, alone, TuningPlan(("entropy",), (3,), budget, seed=0))


def test_the_setting_that_calls_least_within_one_standard_error_of_the_best_is_recommended():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.5, 0.9, 200)
    best = _outcome(0.2, list(base + 0.05), threshold=1)
    swing = np.tile([0.05, -0.05], 100)  # standard error of the mean: 0.0035
    close = _outcome(0.1, list(base + 0.049 + swing), threshold=2)
    worse = _outcome(0.05, list(base + 0.045 + swing), threshold=3)
    dear = _outcome(0.6, list(base + 0.2), threshold=4)
    chance = _outcome(0.05, [1.0] * 200, gate="random", threshold=0.05)  # is never recommended
    assert _best([best, close, worse, dear, chance], 0.3) is close
    assert _best([best, worse, dear], 0.3) is best
    assert _best([best, close, worse, dear], 0.7) is dear
    assert _best([best, close, worse, dear], 0.01) is None


def test_a_gain_that_may_be_none_recommends_nothing():
    """A gate that never calls the cloud closes 0% (0 to 0), and one that gains for few clips may gain nothing."""
    edge = np.tile([[0.0], [1.0]], (20, 1))
    silent, few, half = edge.copy(), edge.copy(), edge.copy()
    few[0] = 1.0
    half[:20] = 1.0
    silent_, few_, half_ = (_outcome(0.1, list(quality[:, 0])) for quality in (silent, few, half))
    assert _best([silent_, few_], 0.3, edge) is None
    assert _best([silent_, few_, half_], 0.3, edge) is half_


def test_each_gate_is_run_at_up_to_three_places_within_the_budget():
    swept = [
        _outcome(rate, [rate, rate], gate=gate, threshold=rate)
        for gate in ("entropy", "random")
        for rate in (0.02, 0.05, 0.1, 0.15, 0.2, 0.5)
    ]
    chosen = worth_running(swept, TuningPlan(("entropy",), (3,), 0.2, seed=0))
    assert [(c.gate, c.threshold) for c in chosen] == [
        ("entropy", 0.05), ("entropy", 0.1), ("entropy", 0.2), ("random", 0.05), ("random", 0.1), ("random", 0.2)
    ]  # fmt: skip
