"""Gap closed: by hand, above random escalation, and absent where it would mislead."""

import numpy as np
import numpy.typing as npt
import pytest

from specdec_cli.evaluate.gap import measure_gap
from specdec_cli.stats import Resampler, mean, ratio
from specdec_cli.types import Interval

NAN = float("nan")


def gap_closed(edge: npt.ArrayLike, hybrid: npt.ArrayLike, cloud: npt.ArrayLike) -> Interval | None:
    found = measure_gap(edge, hybrid, cloud, Resampler(len(np.asarray(edge))))
    return found.closed if found else None


def test_by_hand():
    edge, cloud = np.zeros(40), np.ones(40)
    hybrid = np.array([1.0, 0.0, 1.0, 1.0] * 10)
    found = measure_gap(edge, hybrid, cloud, Resampler(40))
    assert (found.clips, found.edge, found.value, found.cloud) == (40, 0, 0.75, 1)
    assert (found.gap, found.gain) == (Interval(1.0, 1.0, 1.0), found.closed)
    share = gap_closed(edge, hybrid, cloud)
    assert share == found.closed
    assert share.low < share.value == 0.75 < share.high
    assert gap_closed(edge, cloud, cloud) == Interval(1.0, 1.0, 1.0)
    assert gap_closed(edge, edge, cloud) == Interval(0.0, 0.0, 0.0)
    assert gap_closed(edge, 1.5 * cloud, cloud) == Interval(1.5, 1.5, 1.5)


def test_every_attribute_weighs_the_same_however_many_clips_know_it():
    # the rate of all 40 clips is known, the emotion of 4: the edge names neither, the hybrid the emotion only
    known = np.array([[1.0, 1.0 if clip < 4 else NAN] for clip in range(40)])
    found = measure_gap(0 * known, known * [0, 1], known, Resampler(40))
    assert (found.clips, found.value) == (40, 0.5)  # over clips it would be 4 of 44 classes
    assert found.closed.value == 0.5


def test_what_one_of_the_three_does_not_know_counts_for_none():
    assert gap_closed([0, 0, NAN, 9], [1, 1, 5, NAN], [1, 1, 5, 0]) == Interval(1.0, 1.0, 1.0)
    assert gap_closed([NAN], [1], [1]) is None
    assert gap_closed([], [], []) is None


def test_no_share_of_a_gap_that_is_not_there():
    rng = np.random.default_rng(0)
    edge, hybrid, cloud = (rng.random((3, 300)) < 0.7).astype(float)  # equally good: the gap is noise
    assert gap_closed(edge, hybrid, cloud) is None
    assert gap_closed(np.ones(50), np.ones(50), np.zeros(50)) is None
    assert gap_closed(np.ones(50), np.ones(50), np.ones(50)) is None
    assert gap_closed([0], [1], [1]) is None  # of a single clip nothing is sure


CLIPS = 200


def drawn(seed: int) -> npt.NDArray[np.float64]:
    """Right or wrong of edge and cloud in three classes, some unknown."""
    rng = np.random.default_rng(seed)
    edge = (rng.random((CLIPS, 3)) < 0.5).astype(float)
    cloud = (rng.random((CLIPS, 3)) < 0.75).astype(float)
    edge[rng.random((CLIPS, 3)) < 0.1] = np.nan
    return np.stack([edge, cloud])


def test_a_hybrid_is_measured_against_chance_in_pairs():
    edge, cloud = drawn(2)
    woken = np.arange(CLIPS) < 80
    hybrid = np.where(woken[:, None] & (cloud > edge), cloud, edge)
    spent = {"clips": mean(woken.astype(float)), "time": ratio(np.full(CLIPS, NAN), np.ones(CLIPS))}
    found = measure_gap(edge, hybrid, cloud, Resampler(CLIPS), spent)
    (at,) = found.at_costs  # time was not measured
    assert (at.cost, at.spent.value) == ("clips", 0.4)
    assert at.above_random.low > 0
    assert at.above_random.value == pytest.approx(found.closed.value - 0.4)
