"""Bounds of a server: what idle, slow, early-leaving or ambiguous clients can hold up."""

from __future__ import annotations

import http.client
import logging
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from specdec_cli.cloud.protocol import Problem, Question, pack, pack_rows, parse
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.run import Place, bind
from tests.cloud.serving import Served, serving
from tests.cloud.test_security import TOKEN, Caller, a_clip, framed, new_session
from tests.laws.cases import Case, make_case


@pytest.fixture(scope="module")
def case() -> Case:
    return make_case(90_500, mode="lossless", temperature=0.0, k=3, max_new_tokens=12, loop_period=0)


def healthy(served: Served, source: str = "127.0.0.1") -> bool:
    """Whether /healthz answers a request from an address of this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=5, source_address=(source, 0))
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().read() == b'{"status":"ok"}'
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def connections(served: Served, count: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many open connections, each with the first bytes of a request."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=10)))
            opened[-1].sendall(first)
        yield opened


def is_ok(connection: socket.socket) -> bool:
    """Whether /healthz's answer comes."""
    answer = b""
    while not answer.endswith(b'{"status":"ok"}'):
        part = connection.recv(4096)
        if not part:
            return False
        answer += part
    return True


def closed(connection: socket.socket, within_s: float) -> bool:
    """Whether the server ends a connection in time."""
    connection.settimeout(within_s)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="127.0.0.2 is this machine on Linux")
@pytest.mark.parametrize(
    "first", [b"", b"GET /healthz HT", b"PUT /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"]
)
def test_idle_connections_shut_nobody_out(case: Case, first: bytes) -> None:
    """Not even a client of the same address; and those of other addresses keep theirs."""
    with serving(case.cloud, token=TOKEN, connections=10) as served, ExitStack() as stack:
        other = http.client.HTTPConnection("127.0.0.1", served.port, timeout=5, source_address=("127.0.0.2", 0))
        stack.callback(other.close)
        for _ in range(2):
            other.request("GET", "/healthz")
            assert other.getresponse().read() == b'{"status":"ok"}'
            for number in range(30):
                opened = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=10))
                with suppress(OSError):
                    opened.sendall(first)
                assert number % 10 or healthy(served)


@pytest.mark.parametrize("first", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"\r\n"])
def test_a_head_has_its_time(case: Case, first: bytes) -> None:
    with serving(case.cloud, head_s=0.4) as served, connections(served, 1, first) as (connection,):
        assert closed(connection, 5.0)
        assert healthy(served)


def test_a_head_that_drips_has_its_time_too(case: Case) -> None:
    with serving(case.cloud, head_s=0.5) as served, connections(served, 1, b"GET /healthz HTTP/1.1\r\n") as (slow,):
        started = time.monotonic()
        with suppress(OSError):
            for _ in range(200):
                slow.sendall(b"X: y\r\n")
                time.sleep(0.05)
        assert time.monotonic() - started < 5


def test_the_second_head_of_a_connection_has_its_time(case: Case) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(case.cloud, head_s=0.4) as served, connections(served, 1, whole) as (connection,):
        assert is_ok(connection)
        time.sleep(0.8)
        connection.sendall(whole)  # between requests it may be idle for longer
        assert is_ok(connection)
        connection.sendall(whole[:20])
        assert closed(connection, 5.0)


def test_the_rest_of_a_refused_body_has_its_time(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdec_cli.serve.run._REST_S", 0.1)
    with serving(case.cloud, token=TOKEN, body_s=0.3) as served:
        head = f"PUT {new_session()} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n".encode()
        with connections(served, 1, head) as (connection,):
            assert b" 401 " in connection.recv(4096)
            assert closed(connection, 5.0)


def test_bodies_in_flight_are_a_budget(case: Case) -> None:
    size = 100_000
    with serving(case.cloud, bodies_bytes=3 * size, body_bytes=2 * size, body_s=20.0) as served:
        head = f"PUT {new_session()} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
        with connections(served, 4, head + b"\0" * (size - 1)) as opened:  # a byte is missing of each
            assert select.select(opened, [], [], 20.0)[0]
            time.sleep(0.2)  # would another one be refused, too?
            answers = [connection.recv(4096) for connection in select.select(opened, [], [], 0)[0]]
            assert [b" 503 " in answer for answer in answers] == [True]
            good, numbers = a_clip(served, case)
            caller = Caller(served, None)
            status, answer = caller("PUT", new_session(), framed(good, numbers))
            caller.close()
        assert (status, parse(Problem, answer).code) == (503, "busy")
        until = time.monotonic() + 10
        while status != 200 and time.monotonic() < until:
            caller = Caller(served, None)
            status, _ = caller("PUT", new_session(), framed(good, numbers))
            caller.close()
        assert status == 200  # the others have gone, and their bytes with them


def test_a_body_of_two_lengths_is_refused(case: Case) -> None:
    with serving(case.cloud) as served:
        for path in ("/healthz", "/v1/info", "/nowhere"):
            both = f"GET {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            with connections(served, 1, both.encode()) as (connection,):
                answer = connection.recv(4096)
                assert b" 400 " in answer.split(b"\r\n")[0]
                assert closed(connection, 5.0)


def test_a_client_that_leaves_is_no_error(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), serving(case.cloud) as served:
        head = f"PUT {new_session()} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf".encode()
        for _ in range(5):
            with connections(served, 1, head):
                time.sleep(0.05)
        until = time.monotonic() + 10
        gone: list[object] = []
        while len(gone) < 5 and time.monotonic() < until:
            time.sleep(0.05)
            fields = [getattr(record, "fields", {}) for record in caplog.records]
            gone = [each for each in fields if each.get("status") == 499]
    assert len(gone) == 5
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_proposals_that_cannot_have_given_their_token_are_refused(case: Case) -> None:
    with serving(case.cloud) as served:
        question = Question(text=[1], draft=[3])
        scoring = {"temperature": 1.0, "repetition_penalty": 1.0, "no_repeat_ngram": 0, "min_new_tokens": 0}
        caller, statuses = Caller(served, None), []
        for likely in (3, 4):
            rows = case.cloud_prompt.audio["input_features"].new_zeros(1, case.pair.vocab_size)
            rows[0, [likely, 9]] = 0.5
            counts, distributions = pack_rows(rows)
            asked = question.model_copy(update={"rows": counts})
            put = asked.model_dump(exclude_none=True)
            clip, tensors = a_clip(served, case, distributions, scoring=scoring, question=put)
            statuses.append(caller("PUT", new_session(), framed(clip, tensors)))
        caller.close()
    assert [status for status, _ in statuses] == [200, 422]
    assert "no chance" in parse(Problem, statuses[1][1]).message


def test_more_requests_than_may_wait_are_turned_away(case: Case) -> None:
    with serving(case.cloud, waiting=1) as served:
        good, numbers = a_clip(served, case)
        caller = Caller(served, None)
        assert caller("PUT", new_session(), framed(good, numbers))[0] == 200
        held_up = threading.Event()
        waiting = served.service.submit(held_up.wait, 60)
        status, answer = caller("POST", f"{new_session()}/verify", pack(Question(text=[], draft=[])))
        held_up.set()
        assert waiting.result(60)
        assert (status, parse(Problem, answer).code) == (503, "busy")
        caller.close()


def test_the_address_that_is_shown_can_be_connected_to() -> None:
    shown = {"0.0.0.0": "http://127.0.0.1:7", "::": "http://[::1]:7", "::1": "http://[::1]:7", "host": "http://host:7"}
    assert {host: Place(host, 0).url(7) for host in shown} == shown
    assert Place("0.0.0.0", 0, "cert.pem", "key.pem").url(7) == "https://127.0.0.1:7"


def test_the_oldest_idle_connection_of_the_largest_crowd_makes_room() -> None:
    with bind(Place("127.0.0.1", 0), ServeLimits(connections=3)) as bound, ExitStack() as stack:
        bound.listen(8)

        def open_from(host: str) -> tuple[socket.socket, socket.socket]:
            client = socket.create_connection(bound.getsockname(), source_address=(host, 0), timeout=5)
            stack.enter_context(client)
            return client, stack.enter_context(bound.accept()[0])

        def answer(*clients: int) -> None:
            bound.busy = lambda: {opened[index][0].getsockname() for index in clients}

        opened = [open_from(host) for host in ("127.0.0.2", "127.0.0.1", "127.0.0.1")]
        answer(1)
        opened.append(open_from("127.0.0.1"))
        assert opened[2][0].recv(1) == b""  # neither the oldest of all, nor the one with a request under way
        answer(0, 1, 3)
        with pytest.raises(ConnectionAbortedError):
            open_from("127.0.0.1")
        opened[3][1].close()
        open_from("127.0.0.1")
