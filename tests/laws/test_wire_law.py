"""Wire law: a cloud behind `specdec serve` gives the text that it would give in this process.

Features cross the wire in float16, so the cloud of this process hears them rounded to that, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache

import pytest
import torch

from specdec_cli.cloud.client import HttpCloud
from specdec_cli.decoding.build import Pair, build_engine
from specdec_cli.decoding.rows import Rows
from specdec_cli.errors import SpecdecError
from specdec_cli.models.family import AudioFeatures, PromptInputs
from specdec_cli.types import Event, Finished, Round
from tests.cloud.serving import Served, linked, serving
from tests.laws.cases import Case, cloud, collect, make_case

MODELS = 9
CHUNK = 40


class Servers:
    """A server for each of the verifying models, and a link to it for each edge; started when they are wanted."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._served = cache(self._serve)
        self._linked = cache(self._link)

    def link(self, case: Case) -> HttpCloud:
        """A link for the edge of a case to a server of its cloud."""
        seed = next(seed for seed in range(MODELS) if cloud(seed) is case.pair.cloud)
        return self._linked(seed, case.pair.edge)

    def _serve(self, seed: int) -> Served:
        return self._stack.enter_context(serving(cloud(seed)))

    def _link(self, seed: int, edge: object) -> HttpCloud:
        return self._stack.enter_context(linked(self._served(seed).url, edge))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack)


def rounded(inputs: PromptInputs) -> PromptInputs:
    """The prompt with features as they come out of the wire."""
    values = inputs.features.values.to(torch.float16).to(torch.float32)
    return PromptInputs(inputs.ids, AudioFeatures(values, inputs.features.frames))


def both(case: Case, link: HttpCloud) -> tuple[tuple[list[Round], Finished], tuple[list[Round], Finished]]:
    """What a case gives in this process, and over the wire."""
    here = build_engine(case.pair, case.options, case.edge_inputs, rounded(case.cloud_inputs))
    away = Pair.of(case.pair.edge, link)
    assert away.vocab_size == case.pair.vocab_size
    there = build_engine(away, case.options, case.edge_inputs, case.cloud_inputs)
    return collect(here.run()), collect(there.run())


def differences(case: Case, servers: Servers) -> Iterator[str]:
    (rounds, end), (far_rounds, far_end) = both(case, servers.link(case))
    if far_end.degraded is not None:
        yield f"case {case.number}: degraded: {far_end.degraded}"
    if (end.token_ids, end.finish_reason) != (far_end.token_ids, far_end.finish_reason):
        yield f"case {case.number}: {far_end.token_ids} != {end.token_ids}"
    if [(r.reason, r.accepted, r.source) for r in rounds] != [(r.reason, r.accepted, r.source) for r in far_rounds]:
        yield f"case {case.number}: other rounds"
    if case.options.cloud_prefill == "overlap":
        return  # where nothing escalates, nobody waits for the prefill, and it may be done or not
    ours, theirs = end.cloud, far_end.cloud
    assert ours is not None
    assert theirs is not None
    if (ours.encoder_passes, ours.forwards, ours.fed_tokens) != (
        theirs.encoder_passes,
        theirs.forwards,
        theirs.fed_tokens,
    ):
        yield f"case {case.number}: other work: {theirs} != {ours}"


@pytest.mark.parametrize("chunk", range(5))
def test_the_text_is_that_of_one_process(servers: Servers, chunk: int) -> None:
    found: list[str] = []
    for number in range(70_000 + chunk * CHUNK, 70_000 + (chunk + 1) * CHUNK):
        rng = random.Random(number)
        rule = rng.choice(("greedy", "greedy", "rank", "prob", "typical"))
        mode = "lossless" if rule == "greedy" and rng.random() < 0.5 else "hybrid"
        ways = {
            "cloud_prefill": rng.choice(("lazy", "early", "overlap")),
            "draft_ahead": ("on", "off")[number % 2],
            "run_on": rng.choice((0, 0, 1, 3)),
        }
        found += differences(make_case(number, mode=mode, acceptance=rule, **ways), servers)
    assert found == []


def test_a_cloud_alone_writes_what_it_would_write_here(servers: Servers) -> None:
    wrong = []
    for number in range(73_000, 73_030):
        case = make_case(number, mode="cloud")
        (_, end), (rounds, far_end) = both(case, servers.link(case))
        if (end.token_ids, end.finish_reason) != (far_end.token_ids, far_end.finish_reason):
            wrong.append(f"case {number}: {far_end.token_ids} != {end.token_ids}")
        assert {source for round_ in rounds for source in round_.source} == {"cloud"}
    assert wrong == []


def test_clips_in_flight_together_disturb_each_other_in_nothing(servers: Servers) -> None:
    """Rows whose answers come from elsewhere, in whatever order they come."""
    for first in range(74_000, 74_040, 8):
        cases = [make_case(number, mode="lossless" if number % 2 else "hybrid") for number in range(first, first + 8)]
        rows: Rows[int] = Rows(patience=4)
        ends: dict[int, Event | SpecdecError] = {}
        happened = []
        for number, case in enumerate(cases):
            away = Pair.of(case.pair.edge, servers.link(case))
            happened += rows.admit(number, build_engine(away, case.options, case.edge_inputs, case.cloud_inputs))
        while len(rows):
            happened += rows.step()
        ends |= {key: what for key, what in happened if isinstance(what, (Finished, SpecdecError))}
        for number, case in enumerate(cases):
            (_, alone), _ = both(case, servers.link(case))
            end = ends[number]
            assert isinstance(end, Finished), end
            assert (end.token_ids, end.degraded) == (alone.token_ids, None), case.number


@pytest.mark.parametrize("chunk", range(2))
def test_a_seed_gives_the_same_text_too(servers: Servers, chunk: int) -> None:
    found: list[str] = []
    for number in range(71_000 + chunk * CHUNK, 71_000 + (chunk + 1) * CHUNK):
        rng = random.Random(number)
        case = make_case(
            number,
            mode=rng.choice(("hybrid", "lossless")),
            temperature=rng.choice((0.7, 1.0, 1.5)),
            top_k=rng.choice((None, None, 20)),
            top_p=rng.choice((None, 0.9)),
        )
        found += differences(case, servers)
    assert found == []


def test_the_clip_goes_out_once_and_only_if_a_block_escalates(servers: Servers) -> None:
    case = make_case(72_000, mode="hybrid", gate="entropy", threshold=1e9, loop_period=0)
    (_, _), (_, end) = both(case, servers.link(case))
    assert end.cloud is not None
    assert (end.cloud.bytes_up, end.cloud.encoder_passes) == (0, 0)
    case = replace(case, options=replace(case.options, threshold=0.0, max_new_tokens=12, k=2))
    (_, _), (rounds, end) = both(case, servers.link(case))
    assert end.cloud is not None
    asked = [round_ for round_ in rounds if round_.escalated]
    features = 2 * case.cloud_inputs.features.values.numel()
    assert end.cloud.encoder_passes == 1
    assert features < end.cloud.bytes_up < features + 2000 + 300 * len(asked)
