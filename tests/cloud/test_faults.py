"""A link that fails at random points: every caption is right or says that it is degraded, and none waits for ever."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from specdec_cli.errors import CloudError
from tests.cloud.faulty import KINDS, Fault, FaultyProxy
from tests.cloud.serving import ServerThread, linked
from tests.laws.cases import Case, cloud, collect, make_case
from tests.laws.reference import assert_rounds
from tests.laws.test_wire_law import as_sent, far_loop
from tests.laws.tolerance import LawBroken

TIMEOUT_S = 1.5
SLACK_S = 6.0  # what the models themselves may take on a busy machine
SEED = 0  # of the verifying model


class Site:
    """A server that can be killed, behind a proxy that can fail."""

    def __init__(self) -> None:
        self.server = ServerThread(cloud(SEED))
        self.proxy = FaultyProxy(self.server.served.port)

    def restart(self) -> None:
        """Another server in its place, which knows none of its clips."""
        old, self.server = self.server, ServerThread(cloud(SEED))
        self.proxy.target = self.server.served.port
        old.stop()

    def forget(self) -> None:
        self.server.served.service.clips.clear()

    def close(self) -> None:
        self.proxy.close()
        self.server.stop()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def case_with(number: int, cloud_seed: int, **fixed: object) -> Case:
    """The first case from `number` on whose verifying model is `cloud(cloud_seed)`."""
    while True:
        case = make_case(number, **fixed)
        if case.pair.cloud is cloud(cloud_seed):
            return case
        number += 10_000


def fault_at(rng: random.Random, kind: str, site: Site, features: int) -> Fault:
    """A fault somewhere between the connection and the last answer."""
    act = {"restarted": site.restart, "forgotten": site.forget}.get(kind)
    if kind == "error" or rng.random() < 0.5:
        return Fault(kind, "down", rng.randrange(2500), act)  # type: ignore[arg-type]
    return Fault(kind, "up", rng.randrange(features + 1500), act)  # type: ignore[arg-type]


@pytest.mark.parametrize("captions", [30, pytest.param(100, marks=pytest.mark.full)])
def test_every_caption_is_right_or_degraded(site: Site, captions: int) -> None:
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    with ExitStack() as stack:
        links = {}
        for number in range(captions):
            rng = random.Random(number)
            kind = KINDS[number % len(KINDS)]
            case = case_with(80_000 + number, SEED, mode="lossless", temperature=0.0, k=3)
            key = id(case.edge)
            if key not in links:
                site.proxy.arm(Fault("slow", "up", 1 << 60))
                links[key] = stack.enter_context(
                    linked(f"http://127.0.0.1:{site.proxy.port}", case.edge, timeout_s=TIMEOUT_S, retry_s=0.0)
                )
            site.proxy.arm(fault_at(rng, kind, site, 2 * case.cloud_prompt.audio["input_features"].numel()))
            started = time.monotonic()
            rounds, end = collect(far_loop(case, links[key]).run())
            elapsed = time.monotonic() - started
            outcomes[f"{kind}: {'degraded' if end.degraded else 'right'}"] += site.proxy.fired
            if end.degraded is None:
                try:
                    assert_rounds(as_sent(case), rounds, end)
                except LawBroken as error:
                    wrong.append(f"caption {number} ({kind}) is wrong and does not say so: {error}")
            if elapsed > TIMEOUT_S + SLACK_S:
                wrong.append(f"caption {number} ({kind}) took {elapsed:.1f} s")
    assert wrong == []
    assert sum(outcomes.values()) >= captions * 0.6, outcomes  # else most faults never happened
    for kind in ("reset", "slow", "restarted", "forgotten", "error", "truncated", "altered"):
        assert outcomes[f"{kind}: right"] > outcomes[f"{kind}: degraded"], outcomes
    assert outcomes["refused: degraded"] + outcomes["hung: degraded"] > 0, outcomes


def test_the_next_clips_do_not_wait_again(site: Site) -> None:
    case = case_with(81_000, SEED, mode="lossless", temperature=0.0)
    url = f"http://127.0.0.1:{site.proxy.port}"
    with linked(url, case.edge, timeout_s=0.5, retry_s=60.0) as link:
        site.proxy.arm(Fault("hung", "up", 0))
        times = []
        for _ in range(6):
            started = time.monotonic()
            assert collect(far_loop(case, link).run())[1].degraded is not None
            times.append(time.monotonic() - started)
    assert times[0] >= 0.5
    assert min(times[1:]) < 0.5  # no deadline in it


def test_it_is_asked_again_when_the_time_has_come(site: Site) -> None:
    case = case_with(82_000, SEED, mode="lossless", temperature=0.0)
    with linked(f"http://127.0.0.1:{site.proxy.port}", case.edge, timeout_s=30.0, retry_s=0.3) as link:

        def degraded() -> str | None:
            return collect(far_loop(case, link).run())[1].degraded

        site.proxy.arm(Fault("refused", "up", 0))
        assert degraded() is not None
        site.proxy.arm(Fault("slow", "up", 1 << 60))
        time.sleep(0.3)
        assert degraded() is None


def test_a_cloud_that_is_required_fails_the_clip(site: Site) -> None:
    case = case_with(83_000, SEED, mode="lossless", temperature=0.0, require_cloud=True)
    with linked(f"http://127.0.0.1:{site.proxy.port}", case.edge, timeout_s=0.5) as link:
        site.proxy.arm(Fault("hung", "down", 0))
        with pytest.raises(CloudError, match=r"did not answer within 0\.5 s"):
            collect(far_loop(case, link).run())
