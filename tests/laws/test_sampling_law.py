"""Sampling law: with speculative-sampling acceptance, the text follows the cloud's distribution, not the edge's."""

import itertools
import math

import pytest

from tests.laws.cases import collect
from tests.laws.tolerance import cases
from tests.table import EOS, START, TableModel, random_table, table_loop

RUNS = max(10 * cases(), 1500)
LENGTH = 3


def _exact(model: TableModel, temperature: float) -> dict[tuple[int, ...], float]:
    """Probability of every text of up to three tokens under a model alone."""
    rows = (model.table / temperature).softmax(-1).tolist()
    found: dict[tuple[int, ...], float] = {}
    for text in itertools.product(range(len(rows)), repeat=LENGTH):
        cut = text[: text.index(EOS) + 1] if EOS in text else text
        probability, last = 1.0, START
        for token in cut:
            probability *= rows[last][token]
            last = token
        found[cut] = probability
    return found


def _chi_square(counts: dict[tuple[int, ...], int], expected: dict[tuple[int, ...], float]) -> tuple[float, int]:
    """Statistic and degrees of freedom; texts expected fewer than five times are pooled."""
    assert set(counts) <= set(expected)
    assert math.isclose(sum(expected.values()), 1.0, rel_tol=1e-5)
    statistic, cells, rare_seen, rare_expected = 0.0, 0, 0, 0.0
    for text, probability in expected.items():
        wanted, seen = probability * RUNS, counts.get(text, 0)
        if wanted < 5:
            rare_seen, rare_expected = rare_seen + seen, rare_expected + wanted
            continue
        statistic += (seen - wanted) ** 2 / wanted
        cells += 1
    if rare_expected > 0:
        statistic += (rare_seen - rare_expected) ** 2 / rare_expected
        cells += 1
    return statistic, cells - 1


def _sampled(edge: TableModel, cloud: TableModel, k: int, temperature: float) -> dict[tuple[int, ...], int]:
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(RUNS):
        loop = table_loop(
            edge, cloud, mode="lossless", k=k, temperature=temperature, seed=seed, max_new_tokens=LENGTH, loop_period=0
        )
        text = collect(loop.events())[1].token_ids
        counts[text] = counts.get(text, 0) + 1
    return counts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "temperature", "seed"),
    [(2, 1.0, 2), *(pytest.param(*row, marks=pytest.mark.slow) for row in ((1, 1.0, 1), (3, 0.7, 3), (4, 1.3, 4)))],
)
def test_text_follows_the_cloud(k, temperature, seed):
    edge, cloud = random_table(seed), random_table(seed + 50)
    counts = _sampled(edge, cloud, k, temperature)
    statistic, freedom = _chi_square(counts, _exact(cloud, temperature))
    # Wilson-Hilferty: 3.7 standard deviations, about one false alarm in 10,000; seeds are fixed, so it is all or none.
    limit = freedom * (1 - 2 / (9 * freedom) + 3.7 * math.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < limit, (statistic, freedom)
    other, freedom = _chi_square(counts, _exact(edge, temperature))
    assert other > 5 * limit, "the test could not tell the edge from the cloud"
