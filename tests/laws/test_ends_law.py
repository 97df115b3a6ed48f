"""Models whose end-of-text ids differ: each bans its own before `min_new_tokens`, and ends at its own."""

import random
from copy import copy
from dataclasses import replace
from typing import Any

from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from tests.laws.cases import Case, make_case
from tests.laws.checks import cloud_law, edge_law, reference_law
from tests.laws.tolerance import numbers


def ends_case(number: int, gate: str | None = None) -> Case:
    """A pair in mode hybrid, each with many end ids of its own, few of them shared."""
    rng = random.Random(f"ends {number}")
    given: dict[str, Any] = {"mode": "hybrid", "min_new_tokens": rng.choice((0, 3, 5, 8)), "max_new_tokens": 12}
    given["defer"] = rng.random() < 0.3
    if gate is not None:
        given |= {"gate": gate, "threshold": None, "loop_period": 0}
    case = make_case(number, **given)

    def ending(model: AudioLM) -> AudioLM:
        model = copy(model)
        model.processor = copy(model.processor)
        model.processor.eos_ids = tuple(sorted({256, *rng.sample(range(256), 40)}))
        return model

    return replace(case, pair=Pair.of(ending(case.edge), ending(case.cloud)))


def test_a_cloud_that_verifies_everything_ends_where_its_generate_does(law):
    law("ends, cloud", (ends_case(number, "always") for number in numbers(410_000, 0.5)), cloud_law)


def test_an_edge_that_never_escalates_ends_where_its_generate_does(law):
    law("ends, edge", (ends_case(number, "never") for number in numbers(420_000, 0.5)), edge_law)


def test_every_round_in_between_is_that_of_the_reference(law):
    law("ends, reference", map(ends_case, numbers(430_000, 0.5)), reference_law)
