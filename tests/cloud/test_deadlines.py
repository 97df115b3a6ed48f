"""A call takes no longer than it may, whatever holds it up, and nothing is left waiting after it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.cloud.http import BusyError, Caller, Http, Request
from specdec_cli.cloud.remote import HttpCloud, SessionVerifier
from specdec_cli.config import CloudConfig
from specdec_cli.decoding.draft import Draft
from specdec_cli.errors import CloudError
from tests.cloud.serving import linked, serving
from tests.laws.cases import Case, collect, make_case
from tests.laws.test_wire_law import far_loop

TIMEOUT_S = 0.6
SLACK_S = 10.0  # what a busy machine may take beside; without deadlines these calls take half a minute and more
CALL_S = 40.0
LONG_S = 60.0  # half of what the name server of `PROGRAM` takes
ROOT = Path(__file__).parents[2]

Behaviour = Callable[[socket.socket], None]


@contextmanager
def behaving(behaviour: Behaviour) -> Iterator[str]:
    """A server that does something to each connection; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=behave, args=(connection,), daemon=True).start()

        def behave(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                behaviour(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def drip(connection: socket.socket, data: bytes) -> None:
    """Sends a byte at a time, for a minute."""
    for at in range(600):
        connection.sendall(data[at : at + 1] or b"x")
        time.sleep(0.1)


def silent(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    time.sleep(30)


def slow_head(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    drip(connection, b"HTTP/1.1 200 OK\r\n" + b"X-Header: y\r\n" * 40)


def slow_body(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
    drip(connection, b"")


def endless_hints(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    for _ in range(600):
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        time.sleep(0.05)


def never_reads(connection: socket.socket) -> None:
    time.sleep(30)


def busy(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")


BEHAVIOURS = (silent, slow_head, slow_body, endless_hints, never_reads)


def test_a_call_ends_when_its_time_is_up() -> None:
    """Whatever the server does, with a short request and a long one; the calls wait side by side."""

    def call(behaviour: Behaviour, body: bytes) -> str | None:
        with behaving(behaviour) as url:
            http = Http(CloudConfig(url=url, timeout_s=TIMEOUT_S), "text/plain", 1 << 16, lambda *given: given[-1].body)
            caller, started, said = Caller(http), time.monotonic(), "an answer"
            try:
                with caller.call():
                    caller.fetch(Request("POST", "/", body), lambda found: found)
            except CloudError as error:
                said = error.message
            took = time.monotonic() - started
            http.close()
        in_time = TIMEOUT_S <= took < TIMEOUT_S + SLACK_S
        if in_time and "did not answer within 0.6 s" in said:
            return None
        return f"{behaviour.__name__}, {len(body)} bytes: {said} after {took:.2f} s"

    cases = [(behaviour, body) for behaviour in BEHAVIOURS for body in (b"", b"x" * 8_000_000)]
    with ThreadPoolExecutor(len(cases)) as pool:
        assert list(filter(None, pool.map(call, *zip(*cases, strict=True)))) == []
    assert_no_threads()


def test_of_an_upload_that_is_cut_off_only_what_was_sent_counts() -> None:
    body = b"x" * 64_000_000  # more than sockets keep
    with behaving(never_reads) as url:
        http = Http(CloudConfig(url=url, timeout_s=TIMEOUT_S), "text/plain", 1 << 16, lambda *given: given[-1].body)
        caller = Caller(http)
        with pytest.raises(CloudError, match="did not answer within"), caller.call():
            caller.fetch(Request("POST", "/", body), lambda found: found)
        assert 0 < caller.bytes_up < len(body) / 2
        http.close()
        assert_no_threads()


def test_repeats_are_within_the_time() -> None:
    with behaving(busy) as url:
        http = Http(CloudConfig(url=url, timeout_s=TIMEOUT_S), "text/plain", 1 << 16, lambda *_: impatient())
        caller, started = Caller(http), time.monotonic()
        with pytest.raises(CloudError, match="did not answer within 3 s: busy"), caller.call(3.0):
            caller.fetch(Request("GET", "/"), lambda found: found)
        assert time.monotonic() - started < 3.0 + SLACK_S
        http.close()
        assert_no_threads()


def impatient() -> bytes:
    raise BusyError("busy")


def test_a_tls_handshake_is_within_the_time() -> None:
    with behaving(silent) as url:
        config = CloudConfig(url=url.replace("http:", "https:"), timeout_s=TIMEOUT_S)
        http = Http(config, "text/plain", 1 << 16, lambda *given: given[-1].body)
        caller, started = Caller(http), time.monotonic()
        with pytest.raises(CloudError, match="did not answer within"), caller.call():
            caller.fetch(Request("GET", "/"), lambda found: found)
        assert time.monotonic() - started < TIMEOUT_S + SLACK_S
        http.close()
        assert_no_threads()


_of_others: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def _threads_of_other_tests() -> None:
    """Calls that they have given up may still wait."""
    _of_others.clear()
    _of_others.update(threading.enumerate())


def assert_no_threads(within_s: float = 10.0) -> None:
    """The threads of connections end."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if not any(thread.name == "specdec cloud" for thread in set(threading.enumerate()) - _of_others):
            return
        time.sleep(0.02)
    raise AssertionError("a connection's thread is left")


@pytest.fixture(scope="module")
def case() -> Case:
    return make_case(90_600, mode="lossless", temperature=0.0, k=3, max_new_tokens=12, loop_period=0)


def verifier(case: Case, link: HttpCloud) -> SessionVerifier:
    return link.verifier(link, case.cloud_prompt, case.config, case.pair.vocab_size, link.processor.eos_ids)


def test_a_name_server_that_never_answers(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    real, hung = socket.getaddrinfo, threading.Event()

    def resolve(host: Any, *arguments: Any, **named: Any) -> Any:
        if host == "never.example":
            hung.wait(20)
            raise OSError("not found")
        return real(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    started = time.monotonic()
    with linked("http://never.example:1", case.edge, timeout_s=TIMEOUT_S, retry_s=0.0, allow_plain_http=True) as link:
        assert link.http.failure is not None
        assert "did not answer within 0.6 s" in link.http.failure
        assert time.monotonic() - started < TIMEOUT_S + SLACK_S
        end = collect(far_loop(case, link).run())[1]
        assert end.degraded is not None
    hung.set()
    assert_no_threads()


PROGRAM = """
import signal, socket, sys, threading, time
from specdec_cli.cloud.http import Caller, Http, Request
from specdec_cli.config import CloudConfig
from specdec_cli.errors import CloudError
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background inherits as ignored
socket.getaddrinfo = lambda *_, **__: (print("asking", flush=True), time.sleep(120))
config = CloudConfig(url=sys.argv[1], timeout_s=float(sys.argv[2]))
http = Http(config, "text/plain", 1 << 16, lambda *given: given[-1].body)
caller = Caller(http)
try:
    with caller.call():
        caller.fetch(Request("GET", "/"), lambda found: found)
except CloudError as error:
    print(error.message, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def running(url: str, timeout_s: float) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url, str(timeout_s)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asking\n"  # all that it needs is imported
    return process


def test_the_end_of_a_process_does_not_wait_for_a_name_server() -> None:
    process = running("http://127.0.0.1:1", TIMEOUT_S)
    with process:
        started = time.monotonic()
        said, _ = process.communicate(timeout=LONG_S)
        assert "did not answer within 0.6 s" in said
        assert (process.returncode, time.monotonic() - started < LONG_S) == (0, True)


def test_an_interrupt_ends_a_call_at_once() -> None:
    process = running("http://127.0.0.1:1", 60.0)
    with process:
        time.sleep(0.3)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=LONG_S)
        assert (said, process.returncode) == ("interrupted\n", 0)
        assert time.monotonic() - started < LONG_S


def test_closing_ends_a_call_under_way(case: Case) -> None:
    """From another thread, as an abandoned stream does; nothing is believed broken for it."""
    with serving(case.cloud) as served, linked(served.url, case.edge, timeout_s=CALL_S) as link:
        judging = verifier(case, link)
        with behaving(silent) as url:
            link.http.url = url
            found: list[Exception] = []

            def verify() -> None:
                try:
                    judging.verify((), Draft((5, 6)))
                except CloudError as error:
                    found.append(error)

            thread = threading.Thread(target=verify)
            thread.start()
            time.sleep(0.3)
            started = time.monotonic()
            judging.close()
            thread.join(30)
            assert time.monotonic() - started < CALL_S / 2
        assert [str(error) for error in found] == ["the clip is closed"]
        with pytest.raises(CloudError, match="the clip is closed"):
            judging.verify((), Draft((5, 6)))
        assert link.http.failure is None


def test_an_abandoned_stream_lets_the_server_forget_the_clip(case: Case) -> None:
    with serving(case.cloud) as served, linked(served.url, case.edge) as link:
        events = far_loop(case, link).run()
        for event in events:
            if getattr(event, "bytes_up", None):
                break
        assert len(served.service.clips) == 1
        started = time.monotonic()
        events.close()
        assert time.monotonic() - started < 5
        until = time.monotonic() + 10
        while len(served.service.clips) and time.monotonic() < until:
            time.sleep(0.01)
        assert len(served.service.clips) == 0


def test_connections_are_used_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    create = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda *a, **k: opened.append(a) or create(*a, **k))
    with serving(case.cloud) as served, linked(served.url, case.edge) as link:
        for _ in range(3):
            assert collect(far_loop(case, link).run())[1].degraded is None
        link.probe()
    assert len(opened) <= 3  # one for calls, and one for a clip that is forgotten meanwhile


def test_a_cloud_that_is_dropped_closes_its_connections(case: Case) -> None:
    with serving(case.cloud) as served:
        link = HttpCloud(CloudConfig(url=served.url, timeout_s=20.0), case.edge.processor, own=False)
        assert link.http.failure is None
        del link
        assert_no_threads()
