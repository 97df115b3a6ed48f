"""What the modes are expected to give against the cloud alone, and what is advised."""

import pytest

from specdec_cli.bench.pays import ACCEPTED, BLOCK, VERIFIED, advice, expected_gains, forward_ms, what_to_expect
from tests.tiny import tiny_model


def test_gains_are_those_of_the_formula():
    """Against a plain sum over the outcomes of a block, for verifications that cost what a step does."""
    edge_ms, cloud_ms = 1.0, 10.0
    rates = []
    for share in (1.0, VERIFIED):
        best = 0.0
        for k in range(1, 17):
            chances = [ACCEPTED**n * (1 - ACCEPTED) for n in range(k)] + [ACCEPTED**k]
            added = sum(chance * (n + 1) for n, chance in enumerate(chances))
            best = max(best, (share * added + (1 - share) * k) / (k * edge_ms + share * cloud_ms) * cloud_ms)
        rates.append(best)
    gains = expected_gains(edge_ms, cloud_ms, cloud_ms)
    assert [gains["lossless"], gains["hybrid"]] == pytest.approx(rates)


@pytest.mark.parametrize(
    ("edge_ms", "said"), [(10.0, "use --mode cloud"), (8.0, "use hybrid or cloud, not lossless"), (1.0, "")]
)
def test_an_edge_that_is_too_slow_is_advised_against(edge_ms, said):
    found = advice(expected_gains(edge_ms, 10.0, 11.0))
    assert said in found
    assert bool(said) == bool(found)


def test_both_models_are_measured_here():
    edge, cloud = tiny_model(1, layers=1), tiny_model(2)
    assert 0 < forward_ms(cloud, BLOCK + 1) < 5000
    told = what_to_expect(edge, cloud)
    assert f"a verification of {BLOCK} tokens" in told
    assert "times cloud-only's tokens/s" in told
