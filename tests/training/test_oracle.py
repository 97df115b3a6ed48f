"""The oracle against figures by hand."""

import numpy as np
import pytest

from training.oracle import oracle


def test_the_oracle_takes_what_is_worth_most_first():
    edge = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    cloud = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    best = oracle(edge, cloud, np.full(4, 4.0), np.full(4, 7.0), 4.0)
    # the first clip gains two classes of eight, the second one; nothing else is worth a call
    for share, gained in ((0.0, 0.0), (0.125, 1 / 8), (0.25, 2 / 8), (0.5, 3 / 8), (1.0, 3 / 8)):
        assert float(best.gain("clips", share)(np.ones(4))) == pytest.approx(gained)
    # of ten forwards a clip it takes five and four
    assert float(best.gain("time", 5 / 40)(np.ones(4))) == pytest.approx(2 / 8)
    assert float(best.gain("time", 9 / 40)(np.ones(4))) == pytest.approx(3 / 8)
