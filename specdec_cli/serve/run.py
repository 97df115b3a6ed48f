"""The server as a process: a socket, TLS, and an orderly end."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Final

import torch
import uvicorn

from specdec_cli.captioner import load_model
from specdec_cli.config import Config
from specdec_cli.config.locate import is_loopback
from specdec_cli.errors import ConfigError
from specdec_cli.serve.app import create_app
from specdec_cli.serve.limits import Doorkeeper, ServeLimits
from specdec_cli.serve.logs import event, log_json
from specdec_cli.serve.service import Service

_FINISHING_S: Final = 30
_BACKLOG: Final = 512


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens.

    Attributes:
        host, port: address; port 0: any that is free.
        certificate, key: PEM files for TLS; None: plain HTTP.
    """

    host: str
    port: int
    certificate: str | None = None
    key: str | None = None

    def require(self, token: str | None) -> None:
        """Refuses to let everybody in.

        Raises:
            ConfigError: others can reach the address, and there is no token.
        """
        if token is None and not is_loopback(self.host):
            raise ConfigError(
                f"--host {self.host} can be reached from other machines, and no token is asked for.",
                hint="Put a token into an environment variable and name it with --token-env, or use --host 127.0.0.1.",
            )


def listen(place: Place) -> socket.socket:
    """A socket at `place`.

    Raises:
        ConfigError: it cannot be had.
    """
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    # With the protocol left to the system, asyncio does not see that it is TCP and leaves Nagle's algorithm on, which
    # holds an answer's body back until its head is acknowledged: 40 ms a request.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.bind((place.host, place.port))
        bound.listen(_BACKLOG)
        return bound
    except (OSError, OverflowError) as error:
        bound.close()
        raise ConfigError(
            f"{place.host}:{place.port} cannot be listened at: {error}", hint="Choose another --host or --port."
        ) from error


def server(service: Service, place: Place, token: str | None) -> uvicorn.Server:
    """The server, not started yet.

    Raises:
        ConfigError: everybody could reach it and no token is asked for; or the certificate cannot be used.
    """
    place.require(token)
    doorkeeper = Doorkeeper(token, service.limits.requests_per_s)
    config = uvicorn.Config(
        create_app(service, doorkeeper),
        host=place.host,
        port=place.port,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=service.limits.connections,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_FINISHING_S,
        h11_max_incomplete_event_size=1 << 14,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
    )
    try:
        config.load()
    except (OSError, ValueError) as error:
        hint = "Give PEM files that belong together."
        raise ConfigError(f"the certificate cannot be used: {error}", hint=hint) from error
    return uvicorn.Server(config)


def serve(service: Service, place: Place, token: str | None) -> None:
    """Serves until the process is told to end; what is being answered then is finished first."""
    running = server(service, place, token)
    with listen(place) as bound:
        host, port = bound.getsockname()[:2]
        scheme = "https" if place.certificate else "http"
        shown = f"[{host}]" if ":" in host else host
        event("ready", url=f"{scheme}://{shown}:{port}", model=service.info.model, token=token is not None)
        try:
            running.run(sockets=[bound])
        finally:
            event("stopped")


def serve_model(config: Config, place: Place, token: str | None, limits: ServeLimits, *, debug: bool = False) -> None:
    """Loads the configured cloud model and serves it.

    Raises:
        CheckpointError: it cannot be loaded.
        ConfigError: the address or the certificate cannot be used.
    """
    log_json(debug=debug)
    if config.runtime.threads is not None:
        torch.set_num_threads(config.runtime.threads)
    assert config.cloud is not None  # the command has looked
    event("loading", model=config.cloud.model)
    model = load_model(config.cloud, config.runtime.offline)
    serve(Service(model, limits), place, token)
