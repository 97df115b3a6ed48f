"""Servers in threads of this process: the product's own, which verifies or captions, and others that do as told."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

from specdec_cli.captioner import Captioner
from specdec_cli.cloud.verify_client import VerifyClient
from specdec_cli.config import Server, load_config
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.session import Session
from specdec_cli.serve.app import Offer
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.server import ServerAddress, bind, offered, server
from specdec_cli.serve.verification import Service
from tests.mini_pair import captioner_for
from tests.waiting import until

if TYPE_CHECKING:
    from openai import OpenAI  # takes half a second, which few tests need

TOKEN = "a-token-of-these-tests"
WAIT_S = 120


class Running(AbstractContextManager["Running"]):
    """The product's own server on a free port of this machine, run by a thread instead of a process, until `stop`.

    Attributes:
        offer: what it offers.
        port, url: where.
    """

    def __init__(self, offer: Offer, token: str | None = None) -> None:
        place = ServerAddress("127.0.0.1", 0)
        self.offer, self._clients = offer, list["OpenAI"]()
        self._socket, self._server = bind(place), server(offer, place, token)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        assert until(lambda: self._server.started)

    @property
    def service(self) -> Service:
        """What verifies."""
        assert self.offer.service is not None
        return self.offer.service

    @property
    def captioner(self) -> Captioner:
        """What captions, described as its answers are."""
        assert self.offer.captions is not None
        return self.offer.captions.loaded

    def client(self, **settings: Any) -> "OpenAI":
        """The official client, which tries nothing again."""
        from openai import OpenAI

        client = OpenAI(base_url=f"{self.url}/v1", api_key=TOKEN, **{"max_retries": 0, "timeout": 120.0} | settings)
        self._clients.append(client)
        return client

    def becomes_idle(self) -> bool:
        """Whether soon nothing of any request for captions is left."""
        return until(lambda: not self.offer.captions.under_way and not self.offer.bodies.held)

    def stop(self) -> None:
        """Ends it as SIGTERM would."""
        for client in self._clients:
            client.close()
        self._server.should_exit = True
        self._thread.join(WAIT_S)
        self._socket.close()
        assert not self._thread.is_alive()

    def __exit__(self, *_: object) -> None:
        self.stop()


def verifying(model: AudioLM, *, token: str | None = None, **limits: Any) -> Running:
    """A server that verifies with a model."""
    within = ServeLimits(**limits)
    return Running(Offer(within, Service(model, within)), token)


def captioning(
    room: int = 4, settings: dict[str, object] | None = None, *, token: str | None = TOKEN, **limits: Any
) -> Running:
    """A server of the mini pair, with its page, that captions `room` recordings at a time."""
    resolved = load_config("mini", flags=settings or {}, environ={"LANG": "en_US"})
    return Running(offered(captioner_for(resolved.config), resolved, ServeLimits(**limits), room), token)


@contextmanager
def remote_cloud(url: str, edge: AudioLM, *, own: bool = False, **settings: Any) -> Iterator[VerifyClient]:
    """A client of a server that verifies, with the edge's processor."""
    cloud = VerifyClient(Server(url=url, **{"timeout_s": 20.0, **settings}), edge.processor, own=own)
    try:
        yield cloud
    finally:
        cloud.close()


@contextmanager
def held_up() -> Iterator[tuple[threading.Semaphore, threading.Event]]:
    """Forwards wait: the first is released with each start, the second lets all go on."""
    started, go_on = threading.Semaphore(0), threading.Event()
    forward = Session.logits

    def waiting(session: Session, *arguments: Any) -> torch.Tensor:
        started.release()
        go_on.wait(WAIT_S)
        return forward(session, *arguments)

    with patch.object(Session, "logits", waiting):
        try:
            yield started, go_on
        finally:
            go_on.set()


Answer = tuple[int, bytes] | tuple[int, bytes, dict[str, str]]
Respond = Callable[[str, str, bytes, dict[str, str]], Answer]
"""(method, path, body, headers) -> (status, body), and headers of the answer where they matter."""


@contextmanager
def answering(respond: Respond) -> Iterator[str]:
    """An HTTP server on loopback that answers by `respond`; yields its address. What raises ends the connection."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                status, answer, *more = respond(self.command, self.path, body, dict(self.headers))
            except ConnectionError:
                self.close_connection = True
                return
            self.send_response(status)
            headers = {"Content-Type": "application/json", "Content-Length": str(len(answer))}
            for name, value in (headers | (more[0] if more else {})).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else answer)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def behaving(behaviour: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does something to each connection; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=behave, args=(listening.accept()[0],), daemon=True).start()

        def behave(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                behaviour(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)
