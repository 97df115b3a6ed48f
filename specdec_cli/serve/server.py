"""The server as a process: an address, TLS, a log, and an orderly end."""

from __future__ import annotations

import json
import logging
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime

import uvicorn

from specdec_cli import interrupts
from specdec_cli.captioner import Captioner
from specdec_cli.config.locate import is_loopback
from specdec_cli.config.resolve import ResolvedConfig
from specdec_cli.errors import ConfigError
from specdec_cli.labels import Lexicon
from specdec_cli.serve.api_error import event
from specdec_cli.serve.app import Offer, create_app
from specdec_cli.serve.captions import Captions
from specdec_cli.serve.engine import ServeEngine
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.verification import Service


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server listens."""

    host: str
    port: int  # 0: any that is free
    certificate: str | None = None  # PEM files for TLS; None: plain HTTP
    key: str | None = None

    def require(self, token: str | None) -> None:
        """Raises ConfigError if others reach the address without an access token, or the certificate cannot be used."""
        if token is None and not is_loopback(self.host):
            hint = "Put an access token into a variable and name it with --token-env, or use --host 127.0.0.1."
            raise ConfigError(f"--host {self.host} is open to other machines, without an access token.", hint=hint)
        if self.certificate is not None:
            try:  # with a password, so that OpenSSL does not prompt for one
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, password="")
            except (OSError, ValueError) as error:
                hint = "Give PEM files that belong together, the key without a passphrase (docs/remote.md)."
                raise ConfigError(f"the certificate cannot be used: {error}", hint=hint) from error

    def url(self, port: int) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{port}"


def bind(place: ServerAddress) -> socket.socket:
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


def server(offer: Offer, place: ServerAddress, token: str | None) -> uvicorn.Server:
    """The server, not started yet; run it with the socket of `bind`."""
    return uvicorn.Server(
        uvicorn.Config(
            create_app(offer, token),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=offer.limits.connections,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=offer.limits.end_s,
            h11_max_incomplete_event_size=1 << 14,
            ssl_certfile=place.certificate,
            ssl_keyfile=place.key,
        )
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


def serve_configured(
    resolved: ResolvedConfig, place: ServerAddress, token: str | None, limits: ServeLimits, *, room: int, debug: bool
) -> None:
    """Serves the configured models until the process gets SIGTERM or SIGINT; running requests are answered first.

    `room`: recordings that are captioned at a time.
    """
    log_json(debug=debug)
    place.require(token)
    with bind(place) as bound:
        event("loading", **{role: model.label for role, model in resolved.config.models.items()})
        captioner = interrupts.wait_for(lambda: Captioner.load(resolved.config.running_long()))
        offer = offered(captioner, resolved, limits, room)
        interrupts.check()
        url, modes = place.url(bound.getsockname()[1]), offer.captions.modes if offer.captions else ()
        model = None if offer.service is None else offer.service.info.model
        running = server(offer, place, token)

        async def notice() -> None:
            running.should_exit = running.should_exit or interrupts.asked()

        running.config.callback_notify = notice  # a signal may come before uvicorn handles them
        bound.listen()  # from here on connections are accepted; answers follow soon
        event("ready", url=url, host=place.host, model=model, captions=modes, token=token is not None)
        try:
            running.run(sockets=[bound])
        finally:
            captioner.close()
            event("stopped")
        interrupts.check()  # uvicorn raises the signals that ended it once more


def offered(captioner: Captioner, resolved: ResolvedConfig, limits: ServeLimits, room: int) -> Offer:
    """What a loaded captioner can serve: captions, and verification by a cloud that is loaded here."""
    models, cloud = captioner.pair.loaded, captioner.pair.local("cloud")
    engine = ServeEngine(models, max(room, min(limits.sessions, limits.threads))) if models else None
    service = None if cloud is None else Service(cloud, limits, engine)
    described = captioner.labelled(Lexicon.shipped()).measuring()
    return Offer(limits, service, Captions(described, resolved, limits, engine, room))
