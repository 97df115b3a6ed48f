"""Servers whose answers cannot be true: the clip is degraded, and its text is the edge's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from specdec_cli.cloud.protocol import Info, content_digest
from specdec_cli.cloud.remote import HttpCloud
from specdec_cli.config import CloudConfig
from specdec_cli.errors import CloudError, ConfigError, TokenizerMismatchError
from tests.cloud.serving import Served, linked, serving
from tests.cloud.vllm_double import Answer, answering
from tests.laws.cases import Case, collect, make_case
from tests.laws.test_wire_law import assert_wire, far_loop

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def case() -> Case:
    return make_case(90_700, mode="lossless", temperature=0.0, k=3, max_new_tokens=12, loop_period=0)


@contextmanager
def lying(served: Served, path: str, change: Change | bytes) -> Iterator[str]:
    """A server in front of another that changes its good answers; yields its address."""
    import http.client

    def respond(method: str, asked: str, body: bytes, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        connection.request(method, asked, body, {"Content-Type": "application/octet-stream"})
        reply = connection.getresponse()
        status, answer = reply.status, reply.read()
        connection.close()
        if path in asked and status == 200:
            if isinstance(change, bytes):
                answer = change
            else:
                told = json.loads(answer)
                change(told)
                answer = json.dumps(told).encode()
        return status, answer, {"Content-Digest": content_digest(answer)}

    with answering(respond) as url:
        yield url


@pytest.fixture(scope="module")
def served(case: Case) -> Iterator[Served]:
    with serving(case.cloud) as running:
        yield running


def assert_degraded(case: Case, link: HttpCloud, said: str) -> None:
    """The clip is the edge's, and says why; a required cloud fails it."""
    rounds, end = collect(far_loop(case, link).run())
    assert end.degraded is not None
    assert link.name in end.degraded or "was not asked again" in end.degraded
    assert said in end.degraded
    assert end.token_ids == case.but(mode="edge").run()[1].token_ids
    assert not any(round_.escalated for round_ in rounds)
    with pytest.raises(CloudError):
        collect(far_loop(case.but(require_cloud=True), link).run())


def _set(name: str, value: Any) -> Change:
    """Changes one field; dots go deeper."""

    def change(told: dict[str, Any]) -> None:
        *path, last = name.split(".")
        for part in path:
            told = told[part]
        told[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("eos_ids", []), "eos_ids"),
        (_set("vocab_size", 0), "vocab_size"),
        (_set("surprise", 1), "surprise"),
        (_set("model", "\x1b[2Jcloud"), "model"),
        (lambda told: told.clear(), "Info"),
        (b'{"protocol": 1e999}', "protocol"),
        (b"[" * 60_000, "Info as a whole"),
        (b'{"a": ' * 5_000 + b"1" + b"}" * 5_000, "Info"),
        (b"\xff\xfe", "Info"),
        (b"x" * 70_000, "longer than any answer should be"),
    ],
)
def test_nonsense_of_a_server_about_itself(case: Case, served: Served, change: Change | bytes, said: str) -> None:
    with lying(served, "/v1/info", change) as url, linked(url, case.edge, retry_s=0.0) as link:
        assert link.http.failure is not None
        assert said in link.http.failure
        assert link.vocab_size == case.edge.processor.vocab_size
        assert_degraded(case, link, said)


def test_limits_that_the_server_itself_keeps(case: Case) -> None:
    for limits in ({"text_tokens": 3}, {"clip_s": 0.01}, {"body_bytes": 100}):
        with serving(case.cloud, **limits) as small, linked(small.url, case.edge) as link:
            assert_degraded(case, link, "refuses: ")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("work.step_ms", 1e308), "work.step_ms"),
        (_set("work.forwards", 10**40), "work.forwards"),
        (_set("cloud_ms", 1e308), "cloud_ms"),
        (_set("cloud_ms", -1.0), "cloud_ms"),
        (_set("judgement.token", 259), "then the tokens (259,)"),
        (_set("judgement.token", 262), "then the tokens (262,)"),
        (_set("judgement.token", 10**6), "then the tokens (1000000,)"),
        (_set("judgement.more", [1, 2]), "1, 2), where 1 may follow"),
        (_set("judgement.accepted", 4), "4 of 3 drafted tokens accepted"),
        (_set("judgement.near_ties", 100), "100 near ties"),
        (_set("judgement", None), "no judgement"),
        (_set("request", "another"), "to another question"),
        (b"[" * 60_000, "Answer"),
    ],
)
def test_nonsense_of_a_server_about_a_block(case: Case, served: Served, change: Change | bytes, said: str) -> None:
    with lying(served, "/v1/sessions", change) as url, linked(url, case.edge, retry_s=0.0) as link:
        assert link.http.failure is None
        assert_degraded(case, link, said)


def test_tokens_after_the_end_of_a_text(case: Case, served: Served) -> None:
    eos = case.cloud.processor.eos_ids[0]

    def change(told: dict[str, Any]) -> None:
        told["judgement"] |= {"token": eos, "more": [1]}

    with lying(served, "/v1/sessions", change) as url, linked(url, case.edge, retry_s=0.0) as link:
        assert_degraded(case.but(run_on=2), link, "answers nonsense")


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"protocol": 1}, ConfigError, "different protocols: 4 and 1"),
        ({"tokenizer": "sha256:0"}, TokenizerMismatchError, "have different tokenizers"),
        ({"prompts": "sha256:0"}, ConfigError, "different features or prompts"),
        ({"eos_ids": [7]}, ConfigError, "different ids that end a text"),
        ({"eos_ids": list(range(266))}, ConfigError, "different ids that end a text"),
        ({"vocab_size": 265}, ConfigError, "different numbers of token ids: 266 and 265"),
    ],
)
@pytest.mark.parametrize("own", [False, True])
def test_a_cloud_of_another_kind_is_refused_with_both_names(
    case: Case, changed: dict[str, Any], error: type[Exception], said: str, own: bool
) -> None:
    with serving(case.cloud) as other:
        other.service.info = other.service.info.model_copy(update=changed)
        config = CloudConfig(url=other.url, timeout_s=20.0)
        if own and "tokenizer" in changed:  # its vocabulary is cut where the two part, by `Pair.of`
            HttpCloud(config, case.edge.processor, own=own).close()
            return
        with pytest.raises(error, match=said) as caught:
            HttpCloud(config, case.edge.processor, own=own)
        for name in (case.edge.name, case.cloud.name, other.url, "cloud.processor" if own else "edge"):
            assert name in str(caught.value)
        assert "cloud.processor" in str(caught.value.hint)  # type: ignore[attr-defined]


def test_a_processor_of_its_own_makes_the_prompts(case: Case, served: Served) -> None:
    with linked(served.url, case.cloud, own=True) as link:
        assert_wire(case, collect(far_loop(case, link).run()))


def test_a_server_that_comes_back_as_another_is_not_used(case: Case) -> None:
    with serving(case.cloud) as other, linked(other.url, case.edge, retry_s=0.0) as link:
        assert_wire(case, collect(far_loop(case, link).run()))
        other.service.info = Info.model_validate({**other.service.info.model_dump(), "identity": "sha256:1"})
        end = collect(far_loop(case, link).run())[1]
        assert end.degraded is not None
        assert "another model" in end.degraded


def test_a_prompt_without_a_recording_is_refused(case: Case, served: Served) -> None:
    from specdec_cli.errors import DecodingError

    with linked(served.url, case.edge) as link, pytest.raises(DecodingError, match="needs the recording"):
        collect(far_loop(replace(case, cloud_prompt=replace(case.cloud_prompt, waveform=None)), link).run())
