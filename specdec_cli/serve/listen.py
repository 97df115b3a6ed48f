"""Where a server listens, and what a connection may hold up: an address its number, a request its time."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from specdec_cli.config.locate import is_loopback
from specdec_cli.errors import ConfigError
from specdec_cli.serve.limits import ServeLimits

_REST_S: Final = 10.0  # for the rest of a body that was refused
_FAREWELL_S: Final = 0.5


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
        """Refuses what cannot be served, before a model is loaded.

        Raises:
            ConfigError: others can reach the address and there is no token; or the certificate cannot be used.
        """
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
                    hint="Give PEM files that belong together, the key without a passphrase.",
                ) from error

    def url(self, port: int) -> str:
        """An address to connect to, from this machine where the host stands for all addresses."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self.certificate else 'http'}://{shown}:{port}"


def bind(place: Place, limits: ServeLimits) -> Listener:
    """A socket at `place`, which does not listen yet.

    Raises:
        ConfigError: it cannot be had.
    """
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    # With the protocol left to the system, asyncio does not see that it is TCP and leaves Nagle's algorithm on, which
    # holds an answer's body back until its head is acknowledged: 40 ms a request.
    bound = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.most_of_one = limits.connections_per_address
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


class Listener(socket.socket):
    """A listening socket that takes a limited number of connections of one address, in TLS handshakes or not.

    Attributes:
        most_of_one: connections of one address (of one /64 network of IPv6) at a time; more are closed as they come.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.most_of_one = 1
        self._open: Counter[str] = Counter()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection."""
        taken, address = super().accept()
        whose = _network(address[0])
        if self._open[whose] >= self.most_of_one:
            taken.close()
            raise ConnectionAbortedError("too many connections of one address")
        self._open[whose] += 1
        return _Counted(taken, self._open, whose), address


class _Counted(socket.socket):
    """A connection that counts for its address as long as it is open."""

    def __init__(self, taken: socket.socket, count: Counter[str], whose: str) -> None:
        super().__init__(taken.family, taken.type, taken.proto, taken.detach())
        self._count: Counter[str] | None = count
        self._whose = whose

    def close(self) -> None:
        """Closes it."""
        super().close()
        if self._count is not None:
            self._count[self._whose] -= 1
            self._count += Counter()  # drops zeros
            self._count = None


class GuardedProtocol(H11Protocol):
    """uvicorn's, with time limits for heads and bodies, and without requests of two lengths.

    uvicorn limits the time between requests only: a head that never ends would hold its connection for good.
    """

    def __init__(self, limits: ServeLimits, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._limits_s = {h11.IDLE: limits.head_s, h11.SEND_BODY: limits.body_s + _REST_S}
        self._receiving: object = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection; its first head has to come."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Its end."""
        self._stop()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends: an idle client need not agree that TLS does."""
        super().shutdown()
        if self.transport.is_closing():
            self.loop.call_later(_FAREWELL_S, self.transport.abort)

    def _watch(self) -> None:
        """Limits the time until the part of the request that is being received is complete."""
        part = self.conn.their_state
        if part not in self._limits_s:
            self._stop()
        elif part is not self._receiving:
            self._stop()
            self._timer = self.loop.call_later(self._limits_s[part], self.transport.abort)
        self._receiving = part

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _network(address: str) -> str:
    """What connections are counted by."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    return str(found) if found.version == 4 else found.exploded[:19]
