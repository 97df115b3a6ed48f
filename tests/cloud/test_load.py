"""The load test: it counts what a server answers, and finds where more clips bring no more."""

from __future__ import annotations

from specdec_cli.serve.load import Bearing, knee, press
from tests.cloud.serving import linked, serving
from tests.laws.cases import make_case


def test_every_question_is_answered() -> None:
    case = make_case(92_000)
    assert case.pair.cloud is not None
    assert case.pair.edge is not None
    with serving(case.pair.cloud) as served, linked(served.url, case.pair.edge) as link:  # type: ignore[arg-type]
        words = [id_ for id_ in range(link.vocab_size) if id_ not in case.pair.edge.placeholder_ids]
        bearing = press(link, case.cloud_inputs, words, sessions=3, seconds=1.0, k=4)
    assert (bearing.sessions, bearing.failed) == (3, 0)
    assert bearing.per_s > 0
    assert bearing.median_ms <= bearing.p95_ms


def test_the_knee_is_where_more_brings_no_more() -> None:
    found = [Bearing(n, per_s, 1.0, 1.0, 0) for n, per_s in ((1, 50.0), (2, 90.0), (4, 96.0), (8, 99.0))]
    assert knee(found).sessions == 2
