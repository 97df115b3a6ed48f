"""Recordings at addresses: fetched where a host is allowed by name, and in bounds of size, time and redirects."""

import base64
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import openai
import pytest

from specdec_cli.errors import ConfigError
from specdec_cli.serve.api_error import ApiError
from specdec_cli.serve.bodies import Bodies, Body
from specdec_cli.serve.fetch import fetched, hosts
from specdec_cli.serve.limits import ServeLimits
from tests.cloud.test_process import certificate
from tests.serve.api import api, ask, at_address, spoken, text_of

SOUND = base64.b64decode(spoken(3))
LARGE = 300_000
HERE = frozenset({"127.0.0.1"})


class Host(BaseHTTPRequestHandler):
    """A host of recordings, whose paths say how it answers."""

    def do_GET(self) -> None:
        kind, _, rest = self.path[1:].partition("/")
        if kind == "to":
            self.answer(302, b"", Location=rest.replace("PORT", str(self.server.server_address[1])))
        elif kind == "drip":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for _ in range(20):
                self.wfile.write(b"X: y\r\n")
                time.sleep(0.05)
        else:
            self.answer(200 if kind != "gone" else 404, b"\0" * LARGE if kind == "large" else SOUND)

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def a_host(context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Host) as host:
        if context is not None:
            host.socket = context.wrap_socket(host.socket, server_side=True)
        thread = threading.Thread(target=host.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield host.server_address[1]
        finally:
            host.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with a_host() as found:
        yield found


def fetch(url: str, **limits: Any) -> bytes:
    given = ServeLimits(**{"audio_hosts": HERE, **limits})
    return fetched(url, given, Body(Bodies(given)), threading.Event())


def test_a_recording_at_an_address_is_captioned_like_one_that_is_sent(port):
    with api(audio_hosts=HERE) as served:
        client = served.client()
        led_on = at_address(f"http://127.0.0.1:{port}/to/http://127.0.0.1:PORT/voice.wav")
        assert text_of(ask(client, led_on, "edge")) == text_of(ask(client, spoken(3), "edge"))
        with pytest.raises(openai.BadRequestError, match=r"one at 127\.0\.0\.1") as refused:
            ask(client, at_address(f"http://localhost:{port}/voice.wav"), "edge")
        assert refused.value.code == "unsupported_url"
        assert served.becomes_idle()


@pytest.mark.parametrize(
    ("path", "limits", "says"),
    [
        ("voice.wav", {"audio_hosts": frozenset()}, "it fetches nothing"),
        ("gone", {}, "answers status 404"),
        ("to/http://127.0.0.2:PORT/voice.wav", {}, r"one at 127\.0\.0\.1"),
        ("to/file:///etc/passwd", {}, r"one at 127\.0\.0\.1"),
        ("to//to//to//to//to//voice.wav", {}, "leads on more than 3 times"),
        ("drip", {"fetch_s": 0.3}, "within 0.3 s"),
        ("large", {"body_bytes": LARGE - 1}, "a body may have"),
        ("large", {"bodies_bytes": LARGE - 1}, "as many bodies"),
    ],
)
def test_what_is_not_fetched(port, path, limits, says):
    with pytest.raises(Exception, match=says):
        fetch(f"http://127.0.0.1:{port}/{path}", **limits)


def test_a_name_that_leads_to_a_private_network_needs_its_address_named_too(port):
    with pytest.raises(ApiError, match=r"leads to 127\.0\.0\.1, an address of no public network"):
        fetch(f"http://localhost:{port}/voice.wav", audio_hosts=frozenset({"localhost"}))
    assert fetch(f"http://LOCALHOST:{port}/voice.wav", audio_hosts=HERE | {"localhost"}) == SOUND


@pytest.mark.parametrize(
    "url", ["", "http://", "http://127.0.0.1:0/", "http://user@127.0.0.1/", "http://\ud800/", "::"]
)
def test_what_is_no_address(url):
    with pytest.raises(ApiError):
        fetch(url)


def test_a_certificate_has_to_be_that_of_the_named_host(tmp_path, monkeypatch):
    """Though the connection goes to the address that was checked."""
    context, (pem, key) = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate(tmp_path)
    context.load_cert_chain(pem, key)
    trusting = ssl.create_default_context(cafile=pem)
    monkeypatch.setattr("specdec_cli.serve.fetch.httpx.AsyncClient", partial(httpx.AsyncClient, verify=trusting))
    with a_host(context) as port:
        assert fetch(f"https://127.0.0.1:{port}/voice.wav") == SOUND
        with pytest.raises(ApiError, match="certificate is not valid for 'localhost'"):
            fetch(f"https://localhost:{port}/voice.wav", audio_hosts=HERE | {"localhost"})


def test_hosts_are_names_alone():
    assert hosts(["Media.example.org", "[::1]", "10.0.0.5"]) == {"media.example.org", "::1", "10.0.0.5"}
    for wrong in ("https://media.example.org", "media.example.org:80", "", "a/b"):
        with pytest.raises(ConfigError, match="is no host"):
            hosts([wrong])
