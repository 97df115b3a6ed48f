"""All laws with the rule that ends a caption where it stops describing, on tokens that read as words.

The text is that of `generate()`, cut by the same rule; and the caption of what was generated until then is that of all
that `generate()` writes.
"""

import random
from collections import Counter
from typing import Any

import pytest

from specdec_cli.reading import caption_of
from tests.laws.cases import Case, generate, make_case, mixed
from tests.laws.checks import cloud_law, edge_law, reference_law
from tests.laws.test_batch_law import batches_law
from tests.laws.test_cloud_law import lossless_case
from tests.laws.test_edge_law import edge_case
from tests.laws.test_wire_law import over_the_wire, servers  # noqa: F401 - fixtures
from tests.laws.tolerance import ENOUGH, cases, numbers

CLOSING: dict[str, Any] = {"closing": "on", "max_new_tokens": 24, "min_new_tokens": 0, "loop_period": 0}


def closing(case: Case, **more: Any) -> Case:
    """The same case with the rule."""
    given = {**case.given, **CLOSING, "language": random.Random(case.number).choice(("zh", "en")), **more}
    return make_case(case.number, **given)


def ends(ran: list[Case]) -> Counter[str]:
    """Why the texts ended."""
    return Counter(finished.finish_reason for case in ran for _, finished in case.ran)


def same_caption(case: Case, finished_ids: tuple[int, ...]) -> None:
    """The caption is that of all that the model writes."""
    model, clip = (case.edge, case.edge_prompt) if case.given["mode"] == "edge" else (case.cloud, case.cloud_prompt)
    text, whole = case.pair.processor.text, generate(model, clip, case.pair.vocab_size, case.config.decoding)
    if tuple(whole[: len(finished_ids)]) == finished_ids:
        assert caption_of(text(finished_ids)) == caption_of(text(whole)), (case.number, text(whole))


def test_the_edge_alone_and_the_cloud_alone_and_lossless(law):
    edge = law("closing, edge", (closing(edge_case(n), mode="edge") for n in numbers(0, 0.2)), edge_law)
    cloud = law("closing, cloud", (closing(lossless_case(n)) for n in numbers(20_000, 0.3)), cloud_law)
    for case in [*edge, *cloud]:
        if case.given["mode"] != "hybrid":
            same_caption(case, case.ran[0][1].token_ids)
    assert cases() < ENOUGH or min(ends(ran)["closing"] for ran in (edge, cloud)) > 5


def test_the_reference(law):
    def case(number: int) -> Case:
        given = mixed(rng := random.Random(f"closing {number}"))
        if rng.random() < 0.5:
            given["gate"] = "never"  # a fault is the reason only where the gate keeps the draft
        return closing(make_case(number, **given), sentences=None, stop_strings=())

    ran = law("closing, reference", map(case, numbers(57_500, 0.3)), reference_law)
    if cases() >= ENOUGH:
        assert ends(ran)["closing"] > 10
        reasons = Counter(round_.reason for case in ran for rounds, _ in case.ran for round_ in rounds)
        assert min(reasons["refusal"], reasons["language"]) > 0, reasons


@pytest.mark.slow
def test_a_batch():
    batches_law(900, 0.1, lambda _: CLOSING)


@pytest.mark.slow
def test_the_wire(over_the_wire):  # noqa: F811 - a fixture
    drawn = (make_case(n, mode=("hybrid", "lossless")[n % 2], cloud_prefill="lazy") for n in numbers(130_000, 0.1))
    over_the_wire("closing", (closing(case) for case in drawn))
