"""What can happen to a call, and what becomes of the clip: it is right, or the edge's own and so marked. One table.

A proxy in front of a verify server stands for the link, and for servers that lie.
"""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from specdec_cli.cloud.remote import Call, RemoteModel, RemoteVerifier
from specdec_cli.cloud.verify_client import VerifyClient
from specdec_cli.config import Server
from specdec_cli.decoding.block import Draft
from specdec_cli.decoding.remote import RemoteClip
from specdec_cli.errors import CloudError, ConfigError, DecodingError, TokenizerMismatchError
from tests.laws.cases import Case, collect, make_case
from tests.laws.reference import assert_rounds
from tests.laws.test_wire_law import as_sent, assert_wire, far_loop
from tests.support.machine import NOBODY
from tests.support.servers import Answer, Running, answering, behaving, remote_cloud, verifying
from tests.tiers import few, named
from tests.waiting import until

TIMEOUT_S = 0.3
SLACK_S = 60.0  # what a busy machine may take beside; without deadlines these calls take ten minutes

Pass = Callable[[], tuple[int, bytes]]
"""Passes a request on to the server."""


@dataclass(frozen=True)
class Fault:
    """What happens to a request; `path`: which, `always`: to all of them, or to the first."""

    name: str
    happens: Callable[[Pass], tuple[int, bytes]]
    said: str = ""  # why the clip is degraded; empty: it is not
    path: str = "/v1/sessions"
    always: bool = False


def _instead(body: bytes, status: int = 200) -> Callable[[Pass], tuple[int, bytes]]:
    return lambda _: (status, body)


def _reset(_: Pass) -> tuple[int, bytes]:
    raise ConnectionError


def _late(seconds: float, go_on: Pass) -> tuple[int, bytes]:
    time.sleep(seconds)
    return go_on()


def _changed(name: str, value: Any) -> Callable[[Pass], tuple[int, bytes]]:
    """One field of a good answer is another; dots go deeper."""

    def change(go_on: Pass) -> tuple[int, bytes]:
        status, body = go_on()
        answer = place = json.loads(body)
        *path, last = name.split(".")
        for part in path:
            place = place[part]
        place[last] = value
        return status, json.dumps(answer).encode()

    return change


def lie(name: str, value: Any, said: str, path: str = "/v1/sessions") -> Fault:
    return Fault(f"{name} = {str(value)[:20]}", _changed(name, value), said, path, always=True)


def problem(status: int, reason: str = "so it is") -> Callable[[Pass], tuple[int, bytes]]:
    return _instead(json.dumps({"detail": reason}).encode(), status)


FAULTS = (
    Fault("reset", _reset),
    Fault("busy", problem(503)),
    Fault("slow", partial(_late, 0.2)),
    Fault("another's page", _instead(b"<html>", 500)),
    Fault("forgotten", problem(404, "cache miss: no such clip is held"), path="/verify"),
    Fault("hung", partial(_late, 2 * TIMEOUT_S), "did not answer within 0.3 s", always=True),
    Fault("reset for good", _reset, "(if it uses TLS, write https:// in cloud.model)", always=True),
    Fault("busy for good", problem(503), "status 503: so it is", always=True),
    Fault("another model now", problem(409), "answers status 409: so it is", always=True),
    Fault("another's server", _instead(b"oops", 404), "answers status 404: no reason given", always=True),
    Fault("long", _instead(b"x" * 70_000), "the answer is longer than the 65536 bytes", always=True),
    Fault("no text", _instead(b"\xff\xfe"), "Answer", always=True),
    lie("work.step_ms", 1e308, "work"),
    lie("cloud_ms", -1.0, "cloud_ms"),
    lie("verdict.token", 259, "token=259"),
    lie("verdict.run_on", [1, 2], "run_on=(1, 2)"),
    lie("verdict.accepted", 4, "accepted=4"),
    lie("verdict.likeliest", [[[5, 0.9], [6, 0.9]]] * 4, "nonsense"),
    lie("verdict", None, "nonsense: None"),
    lie("eos_ids", [], "eos_ids", "/v1/info"),
    lie("surprise", 1, "surprise", "/v1/info"),
    lie("model", "\x1b[2Jcloud", "model", "/v1/info"),
)


@pytest.fixture(scope="module")
def case() -> Case:
    return make_case(90_700, mode="lossless", fallback="on", temperature=0.0, k=3, max_new_tokens=12, loop_period=0)


@pytest.fixture(scope="module")
def served(case) -> Iterator[Running]:
    with verifying(case.cloud) as running:
        yield running


@contextmanager
def faulty(served: Running, fault: Fault) -> Iterator[str]:
    """The server behind a link with a fault; yields its address."""
    seen = list[str]()

    def respond(method: str, path: str, body: bytes, _headers: dict[str, str]) -> Answer:
        def go_on() -> tuple[int, bytes]:
            with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)) as connection:
                connection.request(method, path, body)
                reply = connection.getresponse()
                return reply.status, reply.read()

        if fault.path not in path or method == "DELETE":
            return go_on()
        seen.append(path)
        return fault.happens(go_on) if fault.always or len(seen) == 1 else go_on()

    with answering(respond) as url:
        yield url


def assert_degraded(case: Case, link: VerifyClient, said: str) -> None:
    """The clip is the edge's and says why; a required cloud fails it."""
    rounds, end = collect(far_loop(case, link).events())
    assert end.degraded is not None
    assert said in end.degraded, end.degraded
    assert end.token_ids == case.but(mode="edge").run()[1].token_ids
    assert not any(round_.escalated for round_ in rounds)
    with pytest.raises(CloudError):
        collect(far_loop(case.but(fallback="off"), link).events())


@pytest.mark.parametrize("fault", few(FAULTS, 4), ids=lambda fault: fault.name)
def test_a_caption_is_right_or_says_that_it_is_degraded(case, served, fault):
    started = time.monotonic()
    limit_s = TIMEOUT_S if "did not answer" in fault.said else 20.0
    with faulty(served, fault) as url, remote_cloud(url, case.edge, retry_s=0.0, timeout_s=limit_s) as link:
        if fault.said:
            assert_degraded(case, link, fault.said)
        else:
            rounds, end = collect(far_loop(case, link).events())
            assert end.degraded is None
            assert_rounds(as_sent(case), rounds, end)
    assert time.monotonic() - started < 3 * limit_s + SLACK_S


# --- deadlines ---


def dripping(head: bytes, piece: bytes, connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(head)
    for _ in range(12_000):
        connection.sendall(piece)
        time.sleep(0.05)


class Anything(RemoteModel):
    """A server that fits whatever it is."""

    content_type, most_bytes = "text/plain", 1 << 16

    def require_fit(self, call: Call) -> None: ...

    def sound_fault(self, lexicon: str) -> str | None:
        raise AssertionError

    def verifier(self, clip: RemoteClip) -> RemoteVerifier:
        raise AssertionError


BEHAVIOURS = {
    "http: silent": lambda _: time.sleep(600),
    "https: silent": lambda _: time.sleep(600),
    "http: a head that drips": partial(dripping, b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
    "http: a body that drips": partial(dripping, b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b"x"),
}


@pytest.mark.parametrize("behaviour", named(BEHAVIOURS, "https: silent"))
def test_a_call_ends_when_its_time_is_up(case, behaviour):
    with behaving(BEHAVIOURS[behaviour]) as url:
        config = Server(url=url.replace("http:", behaviour.split()[0]), timeout_s=0.5)
        with closing(Anything(config, case.edge.processor, "features", own=False)) as link:
            call, started = Call(link), time.monotonic()
            with pytest.raises(CloudError, match=r"did not answer within 0\.5 s"), call.within_deadline():
                call.fetch("POST", "/", bytes, b"x" * 64_000_000)  # more than sockets keep
            assert time.monotonic() - started < SLACK_S


def test_requests_go_to_the_configured_address_and_nowhere_else(case, monkeypatch):
    """Through no proxy of the environment, and to no address that an answer names."""
    elsewhere = list[str]()
    with answering(lambda _, path, *more: elsewhere.append(path) or (200, b"{}")) as other:
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        for name in ("HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, other)
            monkeypatch.setenv(name.lower(), other)
        with answering(lambda *_: (307, b"", {"Location": f"{other}/moved"})) as url:
            config = Server(url=url, timeout_s=60.0)
            with closing(Anything(config, case.edge.processor, "features", own=False)) as link:
                call = Call(link)
                with pytest.raises(CloudError, match="answers status 307"), call.within_deadline():
                    call.fetch("POST", "/", bytes, b"features")
    assert elsewhere == []


@pytest.mark.slow
def test_an_answer_is_read_within_the_deadline_and_beside_other_calls(case):
    with answering(lambda *_: (200, b"here")) as url:
        config = Server(url=url, timeout_s=60.0)
        with closing(Anything(config, case.edge.processor, "features", own=False)) as link:
            reading, answered, failed = threading.Event(), threading.Event(), threading.Event()
            one, other = Call(link), Call(link)

            def slow(_: bytes) -> None:
                reading.set()
                assert answered.wait(60)
                while time.monotonic() < one._deadline:
                    time.sleep(0.01)

            def ask() -> None:
                with pytest.raises(CloudError, match="did not answer within 2 s"), one.within_deadline(2.0):
                    one.fetch("GET", "/", slow)
                failed.set()

            asking = threading.Thread(target=ask)
            asking.start()
            assert reading.wait(60)
            with other.within_deadline():
                assert other.fetch("GET", "/", bytes) == b"here"
            answered.set()
            asking.join()
            assert failed.is_set()


def test_closing_ends_a_call_under_way(case, served):
    """From another thread, as an abandoned stream does; nothing is believed broken for it."""
    over = threading.Event()

    def hang(_: Pass) -> tuple[int, bytes]:
        over.wait(600)
        raise ConnectionError

    hung = Fault("hung", hang, always=True)
    with faulty(served, hung) as url, remote_cloud(url, case.edge, timeout_s=600.0) as link:
        verifier = link.verifier(RemoteClip(lambda: case.cloud_prompt, case.config, case.pair.vocab_size, (1,)))
        threading.Timer(0.3, verifier.close).start()
        started = time.monotonic()
        for _ in range(2):
            with pytest.raises(CloudError, match="the clip is closed"):
                verifier.verify((), Draft((5, 6)))
        assert time.monotonic() - started < SLACK_S
        assert link.failure is None
        over.set()


@pytest.mark.slow
def test_the_end_of_a_link_ends_its_calls_as_that_of_a_clip_does(case):
    reached = threading.Event()
    with behaving(lambda _: time.sleep(600) if reached.set() is None else None) as url:
        link = Anything(Server(url=url, timeout_s=600.0), case.edge.processor, "features", own=False)
        call = Call(link)
        threading.Thread(target=lambda: reached.wait(60) and link.close(), daemon=True).start()
        with pytest.raises(CloudError, match="the clip is closed"), call.within_deadline():
            call.fetch("GET", "/", bytes)


def test_an_abandoned_stream_lets_the_server_forget_the_clip(case):
    with verifying(case.cloud) as running, remote_cloud(running.url, case.edge) as link:
        events = far_loop(case, link).events()
        next(event for event in events if getattr(event, "verdict", None))
        assert len(running.service.clips) == 1
        events.close()
        assert until(lambda: not len(running.service.clips))


@pytest.mark.slow
def test_a_server_that_failed_is_left_alone_for_a_while(case, served):
    """The next clips do not wait for it; when the time has come, it is used again."""
    asked = list[Pass]()

    def hang(go_on: Pass) -> tuple[int, bytes]:
        asked.append(go_on)
        return _late(10.0, go_on)

    hung = Fault("hung", hang, always=True)
    with faulty(served, hung) as url, remote_cloud(url, case.edge, retry_s=600.0) as link:
        patient, link.config = link.config, link.config.model_copy(update={"timeout_s": 2.0})
        for _ in range(3):
            assert collect(far_loop(case, link).events())[1].degraded is not None
        assert link.failure is not None
        assert len(asked) == 1
        link.config, link.connection.url, link.failed_at = patient, served.url, -600.0
        assert_wire(case, collect(far_loop(case, link).events()))
        assert link.failure is None


def test_a_probe_calls_a_server_that_failed_and_says_what_to_do(case):
    with remote_cloud(NOBODY, case.edge, retry_s=60.0) as link:
        assert link.failure is not None
        with pytest.raises(CloudError, match="All connection attempts failed") as caught:
            link.probe()
    assert "not called again" not in caught.value.message
    assert caught.value.hint == "Start the server, or check cloud.model."


# --- what does not fit is refused at the start ---


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"protocol": 1}, ConfigError, "different protocols: 10 and 1"),
        ({"tokenizer": "sha256:0"}, TokenizerMismatchError, "have different tokenizers"),
        ({"prompts": "sha256:0"}, ConfigError, "different features or prompts"),
        ({"eos_ids": [7]}, ConfigError, "different ids that end a text"),
        ({"vocab_size": 265}, ConfigError, "different numbers of token ids: 266 and 265"),
    ],
)
def test_a_cloud_of_another_kind_is_refused_with_both_names(monkeypatch, case, served, changed, error, said):
    monkeypatch.setattr(served.service, "info", served.service.info.model_copy(update=changed))
    with pytest.raises(error, match=said) as caught:
        VerifyClient(Server(url=served.url, timeout_s=60.0), case.edge.processor, own=False)
    for name in (case.edge.name, case.cloud.name, served.url):
        assert name in str(caught.value)


def test_a_clip_longer_than_the_server_takes_is_the_edges(case):
    with verifying(case.cloud, clip_s=0.01) as small, remote_cloud(small.url, case.edge) as link:
        assert_degraded(case, link, "answers status 413")


def test_a_server_takes_as_long_a_caption_as_a_model_here(case, served):
    long = case.but(max_new_tokens=2000, k="whole")
    with remote_cloud(served.url, case.edge) as link:
        verifier = link.verifier(RemoteClip(lambda: long.cloud_prompt, long.config, long.pair.vocab_size, (1,)))
        verifier.prefill()  # no answer of status 413
        verifier.close()


def test_a_processor_of_its_own_makes_the_prompts(case, served):
    with remote_cloud(served.url, case.cloud, own=True) as link:
        assert_wire(case, collect(far_loop(case, link).events()))


def test_a_prompt_without_a_recording_is_refused(case, served):
    with remote_cloud(served.url, case.edge) as link, pytest.raises(DecodingError, match="needs the recording"):
        collect(far_loop(replace(case, cloud_prompt=replace(case.cloud_prompt, waveform=None)), link).events())
