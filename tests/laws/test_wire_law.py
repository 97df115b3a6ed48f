"""Wire law: a cloud behind `specdec serve` gives the rounds that it would give in this process.

Features cross the wire in float16, so the reference encodes them rounded to that, too.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest
import torch

from specdec_cli.cloud.verify_client import VerifyClient
from specdec_cli.decoding.block import Block
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import Engine
from specdec_cli.models.processor import Prompt
from specdec_cli.types import Finished
from tests.laws.cases import Case, collect, make_case
from tests.laws.checks import assert_best, parts
from tests.laws.makers import closing_mixed_case, mixed_case, suggested_case
from tests.laws.reference import assert_rounds, cloud_oracle
from tests.laws.tolerance import most_parting, numbers
from tests.support.servers import Running, remote_cloud, verifying
from tests.tiers import few
from tests.waiting import until


class Servers:
    """A server for each of the verifying models, and a client of it for each edge; started when they are wanted."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._served = cache(self._serve)
        self._linked = cache(self._link)

    def link(self, case: Case) -> VerifyClient:
        """A client for the edge of a case, of a server of its cloud."""
        return self._linked(case.cloud, case.edge)

    def _serve(self, model: AudioLM) -> Running:
        return self._stack.enter_context(verifying(model))

    def _link(self, model: AudioLM, edge: AudioLM) -> VerifyClient:
        return self._stack.enter_context(remote_cloud(self._served(model).url, edge))


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack)


def rounded(prompt: Prompt) -> Prompt:
    """The prompt with features as they come out of the wire."""
    audio = {
        name: values.to(torch.float16).to(values.dtype) if values.is_floating_point() else values
        for name, values in prompt.audio.items()
    }
    return replace(prompt, audio=audio)


def as_sent(case: Case) -> Case:
    """The case with the features that the server gets, for a cloud in this process."""
    return replace(case, cloud_prompt=rounded(case.cloud_prompt))


def far_loop(case: Case, link: VerifyClient, engine: Engine | None = None) -> Loop:
    """The loop of a case over the wire."""
    pair = Pair.of(case.edge, link)
    assert pair.vocab_size == case.pair.vocab_size
    return replace(case, pair=pair).loop(engine)


def assert_wire(case: Case, ran: tuple[list[Block], Finished]) -> str | None:
    """The rounds are the reference's, and nothing was degraded, fed twice or left out of the account."""
    rounds, finished = ran
    assert finished.degraded is None, (case.number, finished.degraded)
    parted = assert_rounds(as_sent(case), rounds, finished)
    asked = [round_.verdict for round_ in rounds if round_.verdict is not None]
    drafted = [round_.verdict for round_ in rounds if round_.verdict is not None and round_.draft_ids]
    work = finished.cloud
    assert all(verdict.network_ms is not None for verdict in asked), case.number
    assert all(verdict.near_ties is not None for verdict in drafted), case.number
    if asked:
        assert work.encoder_passes == 1, case.number
        first = sum((verdict.bytes_up or 0) for verdict in asked)
        assert first <= work.bytes_up, case.number
    return parted


@pytest.fixture
def over_the_wire(servers, law) -> Any:
    """Runs the law over cases whose cloud is behind a server."""

    def run(name: str, cases: Any) -> None:
        def check(case: Case) -> str | None:
            return assert_wire(case, collect(far_loop(case, servers.link(case)).events()))

        law(f"wire: {name}", cases, check)

    return run


def verified(cases: Iterable[Case]) -> Iterator[Case]:
    """Those in which a cloud verifies; what it writes alone has other rounds than in this process."""
    return (case for case in cases if case.given["mode"] in ("hybrid", "lossless"))


def test_the_rounds_are_those_of_one_process(over_the_wire):
    over_the_wire("everything", verified(map(mixed_case, numbers(70_000, 1.0))))


def test_the_sound_bans_at_the_server_what_it_would_ban_here(over_the_wire):
    over_the_wire("beside a sound", (case.heard() for case in verified(map(mixed_case, numbers(78_000, 0.4)))))


@pytest.mark.slow
def test_captions_that_close(over_the_wire):
    over_the_wire("closing", verified(map(closing_mixed_case, numbers(130_000, 0.2))))


def test_a_cloud_alone_writes_what_it_would_write_here(servers, law):
    def check(case: Case) -> str | None:
        rounds, finished = collect(far_loop(case, servers.link(case)).events())
        assert {source for round_ in rounds for source in round_.source} == {"cloud"}
        here = as_sent(case)
        assert_best(here, finished, cloud_oracle(here), here.cloud.processor.eos_ids)
        return parts(here, finished, here.run()[1].token_ids)

    law("wire: cloud alone", (make_case(number, mode="cloud") for number in numbers(73_000, 0.1)), check)


@pytest.mark.slow
def test_settings_that_are_left_open_are_the_servers_own(over_the_wire):
    """null: as the cloud's checkpoint suggests, on either side of the wire."""
    over_the_wire("suggested", map(partial(suggested_case, mode="lossless"), numbers(75_000, 0.1)))


@pytest.mark.slow
def test_clips_in_flight_together_disturb_each_other_in_nothing(servers):
    """Clips in threads, whose verdicts come in whatever order they come."""
    parted, count = list[str](), 0
    for first in range(74_000, 74_024, 8):
        cases = [make_case(number, mode="lossless" if number % 2 else "hybrid") for number in range(first, first + 8)]
        links = [servers.link(case) for case in cases]

        def decode(case: Case, link: VerifyClient, models: Engine) -> tuple[list[Block], Finished]:
            with models.clip():
                return collect(far_loop(case, link, models).events())

        with Engine() as models, ThreadPoolExecutor(len(cases)) as pool:
            futures = [pool.submit(decode, case, link, models) for case, link in zip(cases, links, strict=True)]
            ran = [future.result(120) for future in futures]
        parted += [how for case, each in zip(cases, ran, strict=True) if (how := assert_wire(case, each)) is not None]
        count += len(cases)
    assert len(parted) <= most_parting(count), parted


def test_the_clip_goes_out_once_and_only_if_a_block_escalates(servers):
    case = make_case(72_000, mode="hybrid", gate="entropy", threshold=1e9, loop_period=0)
    _, end = collect(far_loop(case, servers.link(case)).events())
    assert (end.cloud.bytes_up, end.cloud.encoder_passes) == (0, 0)
    case = case.but(threshold=0.0, max_new_tokens=12, k=2)
    rounds, end = collect(far_loop(case, servers.link(case)).events())
    asked = [round_.verdict for round_ in rounds if round_.verdict is not None and round_.escalated]
    features = 2 * case.cloud_prompt.audio["input_features"].numel()
    assert end.cloud.encoder_passes == 1
    assert features < end.cloud.bytes_up < features + 2000 + 300 * len(asked)
    assert sum(verdict.bytes_up or 0 for verdict in asked) == end.cloud.bytes_up
    assert all(verdict.bytes_down for verdict in asked)


@pytest.mark.parametrize("mode", few(["lossless", "cloud"]))
def test_a_server_guesses_from_the_captions_that_it_has_finished(mode):
    given = {"temperature": 0.0, "acceptance": None, "loop_period": 0, "max_new_tokens": 18, "guess_tokens": 8}
    case = make_case(7, mode=mode, k="auto", cost_ratio=9.0, **given)  # lossless, too, the cloud writes alone
    with verifying(case.cloud) as served, remote_cloud(served.url, case.edge) as link:
        forwards, texts = [], set()
        for _ in range(3):
            _, finished = collect(far_loop(case, link).events())
            assert finished.degraded is None
            forwards.append(finished.cloud.forwards)
            texts.add(finished.token_ids)
            assert until(lambda: not len(served.service.clips)), "the client lets it forget the clip"
        assert texts == {as_sent(case).run()[1].token_ids}
        assert max(forwards[1:]) < forwards[0], forwards
