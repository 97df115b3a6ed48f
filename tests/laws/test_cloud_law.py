"""Cloud law: with every block escalated under greedy acceptance, the tokens equal the cloud's own `generate()`."""

from __future__ import annotations

import pytest

from tests.laws.cases import Case, make_case
from tests.laws.checks import cloud_law, k_law
from tests.laws.conftest import Run
from tests.laws.tolerance import numbers


def test_lossless_equals_generate(law: Run) -> None:
    law("cloud", (make_case(n, mode="lossless") for n in numbers(20_000)), cloud_law)


def test_cloud_mode_equals_generate(law: Run) -> None:
    law("cloud, alone", (make_case(n, mode="cloud") for n in numbers(30_000, 0.5)), cloud_law)


def test_hybrid_that_always_escalates_equals_generate(law: Run) -> None:
    cases = (make_case(n, mode="hybrid", gate="always", loop_period=0) for n in numbers(31_000, 0.5))
    law("cloud, hybrid that always escalates", cases, cloud_law)


@pytest.mark.parametrize("mode", ["lossless", "edge", "cloud"])
def test_k_changes_the_speed_and_never_the_text(law: Run, mode: str) -> None:
    period = {"loop_period": 0} if mode == "edge" else {}
    law(f"k, {mode}", (make_case(n, mode=mode, **period) for n in numbers(32_000, 0.1)), k_law)


@pytest.mark.parametrize("cost", [0.02, 0.15, 0.5, 0.9, 3.0])
def test_blocks_that_pay_do_not_change_the_text(law: Run, cost: float) -> None:
    def case(number: int) -> Case:
        return make_case(number, mode="lossless", k="auto", cost_ratio=cost)

    law(f"k auto, cost ratio {cost}", map(case, numbers(34_000, 0.2)), cloud_law)
    lengths = {len(round_.draft_ids) for n in range(34_000, 34_040) for round_ in case(n).run()[0]}
    assert len(lengths) > 2 if cost < 0.9 else 0 in lengths, "a guard against trivial cases"


def test_measured_costs_do_not_change_the_text(law: Run) -> None:
    law("k auto, measured", (make_case(n, mode="lossless", k="auto") for n in numbers(35_000, 0.2)), cloud_law)
    law("k auto, cloud", (make_case(n, mode="cloud", k="auto") for n in numbers(35_000, 0.1)), cloud_law)


@pytest.mark.parametrize("prefill", ["early", "overlap"])
def test_when_the_cloud_reads_the_prompt_changes_nothing(law: Run, prefill: str) -> None:
    cases = (make_case(n, mode="lossless", cloud_prefill=prefill) for n in numbers(33_000, 0.25))
    law(f"cloud, {prefill} prefill", cases, cloud_law)
