"""What quality is in a tuning: what is heard, or what is measured, never a mean of both; and why nothing is advised."""

import numpy as np

from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference
from specdec_cli.stats import Resampler
from specdec_cli.tune.choosing import best_of
from specdec_cli.tune.outcomes import Baselines, CaptionQuality, SettingOutcome
from specdec_cli.tune.replay import Candidate
from specdec_cli.tune.tuning import _reason
from specdec_cli.tune.tuning_plan import TuningPlan
from specdec_cli.types import Interval
from tests.tune.recorded import trace_of

TEXTS = {
    (1,): "A sad woman speaks loudly.",  # what is heard is right, what is measured is wrong
    (2,): "An angry man speaks softly.",  # the reverse
    (3,): "An angry man speaks loudly.",  # nothing is right
}
LABELS = {"voice": "female", "emotion": "sad", "volume": "soft"}
TRACES = [trace_of(0).model_copy(update={"sha256": str(number)}) for number in range(40)]
PLAN = TuningPlan(("entropy",), (3,), 0.5, seed=0, cost="clips")


def quality(**labels: str) -> CaptionQuality:
    """By the same labels of every clip."""
    references = {trace.sha256: Reference(trace.file, (), labels) for trace in TRACES}
    return CaptionQuality(Lexicon.shipped(), references, "en", lambda ids: TEXTS[tuple(ids)])


def outcome(by: CaptionQuality, text: int, clips: float) -> SettingOutcome:
    """That of a setting with one text for all clips."""
    table, spent = (
        by.table(TRACES, [(text,)] * len(TRACES)),
        {"clips": lambda counts: np.full(counts.shape[:-1], clips)},
    )
    return SettingOutcome(Candidate("entropy", float(text), 3), table, np.ones(len(TRACES)), spent)


def alone(by: CaptionQuality) -> Baselines:
    table = by.table(TRACES, [(3,)] * len(TRACES))
    return Baselines(table, np.ones(table.shape) + 0 * table, Resampler(len(TRACES)))


def test_what_is_heard_decides_and_what_is_measured_decides_alone():
    by = quality(**LABELS)
    assert (by.judged, by.left_out) == (["voice", "emotion"], ["volume"])
    assert by.notes() == ["not judged: volume. The sound decides these without the cloud"]
    heard, measured = outcome(by, 1, 0.4), outcome(by, 2, 0.1)
    assert (heard.mean, measured.mean) == (1.0, 0.0)
    assert best_of([heard, measured], alone(by), PLAN) is heard
    only = quality(volume="soft")
    assert (only.judged, only.left_out, only.notes()) == (["volume"], [], [])
    assert outcome(only, 2, 0.1).mean == 1.0


def test_a_setting_whose_gain_is_certain_beyond_the_budget_is_named_with_its_cost():
    by = quality(**LABELS)
    dear, base = outcome(by, 1, 0.624), alone(by)
    assert best_of([dear], base, PLAN) is None
    gain = dear.point(base).gain
    assert _reason(PLAN, 90, [dear.point(base)], gain) == (
        "No setting within a budget of clips=0.5 is measurably better than the edge alone. entropy 1, k 3 is, "
        "at clips=0.62: allow more than that, or set this gate yourself."
    )
    assert "some 90 recordings would show it" in _reason(PLAN, 90, [outcome(by, 2, 0.1).point(base)], gain)


def test_no_gain_on_few_recordings_is_uncertain_and_none_on_many_is_none():
    wide, narrow = Interval(value=0.0, low=-0.222, high=0.4), Interval(value=-0.01, low=-0.02, high=0.004)
    assert _reason(PLAN, None, [], wide) == (
        "No setting within a budget of clips=0.5 is measurably better than the edge alone: the largest gain is "
        "+0.0 points (-22.2 to +40.0). That is too uncertain to decide by: tune on more recordings."
    )
    assert _reason(PLAN, None, [], narrow).endswith("would hardly change it: use --mode edge.")
    assert _reason(PLAN, None, [], None).endswith("none keeps within it.")
