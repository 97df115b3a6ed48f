"""The guarantee holds over random splits, refuses where it must, and is no looser than it has to be."""

import numpy as np
import pytest

from specdec_cli.stats import Values
from specdec_cli.tune.risk import certify, fewest


def population(seed: int, clips: int = 3000, settings: int = 25) -> Values:
    """Losses of settings that escalate less and less; here and there one that escalates less is right again."""
    rng = np.random.default_rng(seed)
    doubt, thresholds = rng.beta(0.6, 3.0, clips), np.linspace(0, 1, settings) ** 2
    losses = (doubt[:, None] > 1 - thresholds).astype(float)
    losses[rng.random(losses.shape) < 0.02] = 0.0
    return losses


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("clips", [40, 200])
def test_the_risk_of_further_clips_is_within_the_bound_on_average(alpha, clips):
    losses, rng, seen = population(0), np.random.default_rng(1), []
    every = np.concatenate([np.zeros((len(losses), 1)), losses], axis=1)  # first everything is escalated
    for _ in range(400):
        order = rng.permutation(len(losses))
        found = certify(losses[order[:clips]], alpha)
        seen.append(every[order[clips:], found[0]].mean())
    error = np.std(seen) / np.sqrt(len(seen))
    assert np.mean(seen) <= alpha + 3 * error
    assert np.mean(seen) > alpha - 1.5 / clips - 0.05  # it does not escalate everything to be safe


def test_the_last_setting_within_the_bound_is_certified():
    losses = np.zeros((39, 3))
    losses[0, 0] = losses[:3, 1] = losses[:1, 2] = 1.0
    found = certify(losses, 0.05)  # (1 + 1) / 40, and (3 + 1) / 40 is too many
    index, guarantee = found
    assert (index, guarantee.clips, guarantee.differing, guarantee.bound) == (1, 39, 1, 0.05)
    assert certify(losses, 0.1) == (3, guarantee.model_copy(update={"alpha": 0.1, "differing": 3, "bound": 0.1}))


def test_too_few_clips_certify_nothing():
    for alpha, least in ((0.05, 19), (0.1, 9), (0.5, 1), (0.03, 33), (1.0, 0)):
        assert fewest(alpha) == least
        if least > 1:
            assert certify(np.zeros((least - 1, 1)), alpha) is None
        if least:
            assert certify(np.zeros((least, 1)), alpha) is not None
