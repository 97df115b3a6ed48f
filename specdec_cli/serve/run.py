"""The server as a process: an address, TLS, time limits, and an orderly end."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import h11
import torch
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from specdec_cli.cloud.http import certificate_recipe
from specdec_cli.config import Config
from specdec_cli.config.locate import is_loopback
from specdec_cli.errors import ConfigError
from specdec_cli.models.loading import load_model
from specdec_cli.serve.app import create_app
from specdec_cli.serve.clips import Service
from specdec_cli.serve.limits import Listener, ServeLimits
from specdec_cli.serve.observe import event, log_json

_FINISHING_S: Final = 30
_BACKLOG: Final = 512
_REST_S: Final = 10.0  # for the rest of a body that was refused
_FAREWELL_S: Final = 0.5


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
            raise ConfigError(
                f"--host {self.host} can be reached from other machines, and no token is asked for.",
                hint="Put a token into an environment variable and name it with --token-env, or use --host 127.0.0.1.",
            )
        if self.certificate is not None:
            try:  # with a password, so that OpenSSL does not ask for one on the terminal
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, password="")
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f"the certificate cannot be used: {error}",
                    hint="Give PEM files that belong together, the key without a passphrase. To make them: "
                    f"{certificate_recipe(self.host)}",
                ) from error

    def url(self, port: int) -> str:
        """An address to connect to, from this machine where the host stands for all addresses."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self.certificate else 'http'}://{shown}:{port}"


def bind(place: Place, limits: ServeLimits) -> Listener:
    """A socket at `place`, which does not listen yet. Raises ConfigError if it cannot be had."""
    bound = Listener(socket.AF_INET6 if ":" in place.host else socket.AF_INET, limits.connections)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.bind((place.host, place.port))
        return bound
    except (OSError, OverflowError) as error:
        bound.close()
        raise ConfigError(
            f"{place.host}:{place.port} cannot be listened at: {error}", hint="Choose another --host or --port."
        ) from error


class GuardedProtocol(H11Protocol):
    """uvicorn's, with time limits for heads and bodies.

    uvicorn limits the time between requests only: a head that never ends would hold its connection for good.
    """

    def __init__(self, limits: ServeLimits, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._limits_s = {h11.IDLE: limits.head_s, h11.SEND_BODY: limits.body_s + _REST_S}
        self._receiving: object = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch(self.conn.their_state)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch(self.conn.their_state)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch(None)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends: an idle client need not agree that TLS does."""
        super().shutdown()
        if self.transport.is_closing():
            self.loop.call_later(_FAREWELL_S, self.transport.abort)

    def _watch(self, part: object) -> None:
        """Limits the time until the part of a request that is being received is complete."""
        if part is not self._receiving:
            if self._timer is not None:
                self._timer.cancel()
            if part in self._limits_s:
                self._timer = self.loop.call_later(self._limits_s[part], self.transport.abort)
        self._receiving = part


def server(service: Service, place: Place, token: str | None, bound: Listener) -> uvicorn.Server:
    """The server, not started yet; it is to run with `bound`."""
    config = uvicorn.Config(
        create_app(service, token),
        loop="asyncio",
        http=cast("type[asyncio.Protocol]", partial(GuardedProtocol, service.limits)),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_FINISHING_S,
        h11_max_incomplete_event_size=1 << 14,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
    )
    running = uvicorn.Server(config)
    open_ = cast("set[GuardedProtocol]", running.server_state.connections)
    bound.busy = lambda: {each.client for each in open_ if each.cycle and not each.cycle.response_complete}
    return running


def serve_model(config: Config, place: Place, token: str | None, limits: ServeLimits, *, debug: bool = False) -> None:
    """Serves the configured cloud model until the process gets SIGTERM or SIGINT, and what is under way is answered."""
    log_json(debug=debug)
    place.require(token)
    if config.runtime.threads is not None:
        torch.set_num_threads(config.runtime.threads)
    assert config.cloud is not None  # the command has checked
    with bind(place, limits) as bound:
        event("loading", model=config.cloud.model)
        model = load_model(config.cloud, offline=config.runtime.offline, tested=config.runtime.self_test)
        service = Service(model, limits)
        running = server(service, place, token, bound)
        bound.listen(_BACKLOG)
        url = place.url(bound.getsockname()[1])
        event("ready", url=url, host=place.host, model=service.info.model, token=token is not None)
        try:
            running.run(sockets=[bound])
        finally:
            event("stopped")
