"""The server as a process: an address, TLS, a log, and an orderly end."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import math
import os
import platform
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from specdec_cli.captioner import Captioner
from specdec_cli.config.locate import is_loopback
from specdec_cli.config.resolve import ResolvedConfig
from specdec_cli.errors import ConfigError
from specdec_cli.labels import Lexicon
from specdec_cli.serve.captions import Captions
from specdec_cli.serve.endpoints import Offer, create_app, event
from specdec_cli.serve.engine import ServeEngine
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.verification import Service


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens."""

    host: str
    port: int  # 0: any that is free
    certificate: str | None = None  # PEM files for TLS; None: plain HTTP
    key: str | None = None

    def require(self, token: str | None) -> None:
        """Raises ConfigError if others can reach the address without a token, or the certificate cannot be used."""
        if token is None and not is_loopback(self.host):
            hint = "Put a token into an environment variable and name it with --token-env, or use --host 127.0.0.1."
            raise ConfigError(f"--host {self.host} is open to other machines, and no token is required.", hint=hint)
        if self.certificate is not None:
            try:  # with a password, so that OpenSSL does not ask for one on the terminal
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, password="")
            except (OSError, ValueError) as error:
                hint = "Give PEM files that belong together, the key without a passphrase (docs/remote.md)."
                raise ConfigError(f"the certificate cannot be used: {error}", hint=hint) from error

    def url(self, port: int) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{port}"


def bind(place: Place) -> socket.socket:
    """A socket bound to `place`, which does not listen yet. Raises ConfigError if it cannot be bound."""
    # With the protocol left to the system, asyncio does not see that it is TCP and leaves Nagle's algorithm on, which
    # holds an answer's body back until its head is acknowledged: 40 ms a request.
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((place.host, place.port))
        return bound
    except (OSError, OverflowError) as error:
        bound.close()
        message = f"cannot listen on {place.host}:{place.port}: {error}"
        raise ConfigError(message, hint="Choose another --host or --port.") from error


class DeadlineProtocol(H11Protocol):
    """uvicorn's protocol, but it closes a connection on which no whole head of a request arrives in time.

    uvicorn itself waits without end, and silent connections count towards the most that may be open.
    """

    head_s: float  # seconds from the connection, or from the first byte of a later head, to the head's end

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(self.head_s, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:  # the head is complete
            self._late.cancel()
        elif self._late.cancelled():  # the next one has begun
            self._late = self.loop.call_later(self.head_s, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        super().connection_lost(exc)


class AnnouncedServer(uvicorn.Server):
    """uvicorn's server, which calls `announce` once it takes connections, and tells requests that it ends.

    uvicorn itself cancels those that are not answered in time, which cuts them off without a word.
    """

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None], offer: Offer) -> None:
        super().__init__(config)
        self._announce, self._offer = announce, offer

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        ending = self._offer.bodies.ending
        ending.begin()
        finish = asyncio.get_running_loop().call_later(self._offer.limits.end_s, ending.finish)
        await super().shutdown(sockets)
        finish.cancel()


def server(
    offer: Offer, place: Place, token: str | None, announce: Callable[[], None] = lambda: None
) -> uvicorn.Server:
    """The server, not started yet; run it with the socket of `bind`. It calls `announce` once it takes connections."""
    protocol: Any = type("Protocol", (DeadlineProtocol,), {"head_s": offer.limits.head_s})
    return AnnouncedServer(
        uvicorn.Config(
            create_app(offer, token),
            loop="asyncio",
            http=protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=offer.limits.connections,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=math.ceil(offer.limits.end_s + 2),
            h11_max_incomplete_event_size=1 << 14,
            ssl_certfile=place.certificate,
            ssl_keyfile=place.key,
        ),
        announce,
        offer,
    )


class JsonLines(logging.Formatter):
    """A JSON object a line: time, level, event, and the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        time_ = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time_, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line, ensure_ascii=False)


def log_json(*, debug: bool) -> None:
    """Sends the server's log, and uvicorn's errors, to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name, level in (("specdec_cli", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.DEBUG if debug else level)


def share_arenas() -> None:
    """Lets all threads allocate from two arenas of glibc's malloc, unless the user has set how many there may be.

    By default most threads have one of their own, and what each has freed there, hundreds of MiB under load, serves no
    other thread.
    """
    arenas_at_most: Final = -8  # M_ARENA_MAX in malloc.h
    mallopt = getattr(ctypes.pythonapi, "mallopt", None)
    if mallopt is not None and platform.libc_ver()[0] == "glibc" and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(arenas_at_most, 2)


def serve_configured(
    resolved: ResolvedConfig, place: Place, token: str | None, limits: ServeLimits, *, room: int, debug: bool
) -> None:
    """Serves the configured models until the process gets SIGTERM or SIGINT; running requests are answered first.

    `room`: recordings that are captioned at a time.
    """
    log_json(debug=debug)
    share_arenas()
    place.require(token)
    with bind(place) as bound:
        event("loading", **{role: model.label for role, model in resolved.config.models.items()})
        offer = offered(Captioner.load(resolved.config.running_long()), resolved, limits, room)
        url, modes = place.url(bound.getsockname()[1]), offer.captions.modes if offer.captions else ()
        model = None if offer.service is None else offer.service.info.model

        def announce() -> None:
            event("ready", url=url, host=place.host, model=model, captions=modes, token=token is not None)

        try:
            server(offer, place, token, announce).run(sockets=[bound])
        finally:
            event("stopped")


def offered(captioner: Captioner, resolved: ResolvedConfig, limits: ServeLimits, room: int) -> Offer:
    """What a loaded captioner can serve: captions, and verification by a cloud that is loaded here."""
    models, cloud = captioner.pair.loaded, captioner.pair.local("cloud")
    engine = ServeEngine(models, max(room, min(limits.sessions, limits.threads))) if models else None
    service = None if cloud is None else Service(cloud, limits, engine)
    described = captioner.labelled(Lexicon.shipped()).measuring()
    return Offer(limits, service, Captions(described, resolved, limits, engine, room))
