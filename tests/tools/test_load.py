"""The load test: it counts what a server answers, and finds where more clips bring no more."""

from __future__ import annotations

from tests.cloud.serving import linked, serving
from tests.laws.cases import make_case
from tests.tiny import settings
from tools.load import press


def test_every_question_is_answered() -> None:
    case = make_case(92_000)
    config = settings(mode="lossless", max_new_tokens=70, k=4)
    with serving(case.cloud) as served, linked(served.url, case.edge) as link:
        words = [id_ for id_ in range(link.vocab_size) if id_ not in link.processor.banned_ids]
        bearing = press(link, case.cloud_prompt, words, sessions=3, seconds=1.0, k=4, config=config)
    assert (bearing.sessions, bearing.failed) == (3, 0)
    assert bearing.per_s > 0
    assert bearing.median_ms <= bearing.p95_ms
