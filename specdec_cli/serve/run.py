"""The server as a process: a socket, TLS, and an orderly end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, cast

import torch
import uvicorn

from specdec_cli.config import Config
from specdec_cli.models.loading import load_model
from specdec_cli.serve.app import create_app
from specdec_cli.serve.limits import Doorkeeper, ServeLimits
from specdec_cli.serve.listen import GuardedProtocol, Listener, Place, bind
from specdec_cli.serve.observe import event, log_json
from specdec_cli.serve.service import Service

_FINISHING_S: Final = 30
_BACKLOG: Final = 512


def server(service: Service, place: Place, token: str | None) -> uvicorn.Server:
    """The server, not started yet.

    Raises:
        ConfigError: everybody could reach it and no token is needed; or the certificate cannot be used.
    """
    place.require(token)
    limits = service.limits
    config = uvicorn.Config(
        create_app(service, Doorkeeper(token, limits.requests_per_s)),
        host=place.host,
        port=place.port,
        loop="asyncio",
        http=cast("type[asyncio.Protocol]", partial(GuardedProtocol, limits)),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_FINISHING_S,
        h11_max_incomplete_event_size=1 << 14,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
    )
    config.load()
    return uvicorn.Server(config)


def serve(service: Service, place: Place, token: str | None, bound: Listener) -> None:
    """Serves until the process gets SIGTERM or SIGINT; what is being answered then is finished first."""
    running = server(service, place, token)
    bound.listen(_BACKLOG)
    url = place.url(bound.getsockname()[1])
    event("ready", url=url, host=place.host, model=service.info.model, token=token is not None)
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
    place.require(token)
    if config.runtime.threads is not None:
        torch.set_num_threads(config.runtime.threads)
    assert config.cloud is not None  # the command has checked
    with bind(place, limits) as bound:
        event("loading", model=config.cloud.model)
        model = load_model(config.cloud, offline=config.runtime.offline, tested=config.runtime.self_test)
        serve(Service(model, limits), place, token, bound)
