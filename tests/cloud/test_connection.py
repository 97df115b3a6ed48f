"""The end of a connection closes every socket, whatever was under way."""

import asyncio
import gc
import random
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from specdec_cli.cloud.connection import Connection, Traffic
from specdec_cli.config import Server
from tests.support.machine import NOBODY
from tests.support.servers import behaving
from tests.tiers import few

CALLS = 6  # under way when a connection is ended

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def silent(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


def going_away(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end


def answering(length: int, connection: socket.socket) -> None:
    """Answers each request that comes in one piece."""
    while connection.recv(1 << 16):
        connection.sendall(HEAD % length + b"x" * length)


def breaking_off(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(HEAD % 1000 + b"x" * 400)
    silent(connection)


SERVERS: dict[str, Callable[[socket.socket], None]] = {
    "http: silent": silent, "http: going away": going_away, "http: answering": partial(answering, 20),
    "http: answering too much": partial(answering, 30_000), "http: breaking off": breaking_off, "https: silent": silent,
    "https: going away": going_away,
}  # fmt: skip


def calling(url: str) -> tuple[Connection, list[Future[tuple[int, bytes]]]]:
    """A connection, and calls that are under way."""
    connection = Connection(Server(url=url), "cloud", "text/plain")
    exchanges = (connection.exchange("PUT", "/", b"x" * 100, Traffic(), 100) for _ in range(CALLS))
    return connection, [connection.submit(exchange, 20.0) for exchange in exchanges]


@contextmanager
def ending(behaviour: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server, and no warning of what is unclosed when the block ends."""
    gc.collect()  # what other tests left is not this one's
    with warnings.catch_warnings(record=True) as caught, behaving(behaviour) as url:
        warnings.simplefilter("always")
        yield url
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


@pytest.fixture
def opened(monkeypatch) -> list[asyncio.Transport]:
    """Every transport that an event loop connects from here on."""
    transports, create = list[asyncio.Transport](), asyncio.BaseEventLoop.create_connection

    async def creating(*args: Any, **kwargs: Any) -> Any:
        made = await create(*args, **kwargs)
        transports.append(made[0])
        return made

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", creating)
    return transports


@pytest.mark.parametrize("ends", few([3, 20]))
@pytest.mark.parametrize("server", SERVERS)
def test_the_end_leaves_no_transport_open(server, ends, opened):
    delays = random.Random(server)
    with ending(SERVERS[server]) as url:
        for _ in range(ends):
            connection, calls = calling(url.replace("http:", server.split()[0]))
            for call in calls[::2]:
                time.sleep(delays.uniform(0.0, 0.004))  # while it connects, shakes hands, writes or reads
                call.cancel()
            for call in calls[1::2]:
                threading.Timer(delays.uniform(0.0, 0.01), call.cancel).start()
            connection.close()
            assert all(call.done() for call in calls)
    assert len(opened) > ends
    assert [transport for transport in opened if transport.get_extra_info("socket").fileno() != -1] == []


def test_what_is_submitted_after_the_end_is_cancelled():
    connection, _ = calling(NOBODY)
    connection.close()
    connection.close()
    assert connection.submit(connection.exchange("GET", "/", b"", Traffic(), 100), 20.0).cancelled()
