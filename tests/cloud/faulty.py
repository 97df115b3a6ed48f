"""A proxy that breaks a link at a chosen byte, in a chosen way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, get_args

Kind = Literal["refused", "reset", "hung", "slow", "error", "truncated", "altered", "restarted", "forgotten"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Direction = Literal["up", "down"]

_ERROR = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\noops"


@dataclass(frozen=True)
class Fault:
    """What happens when so many bytes have passed in a direction; `act` is what the test does to the server then."""

    kind: Kind
    direction: Direction
    at: int
    act: Callable[[], None] | None = None


class FaultyProxy:
    """Passes bytes between a client and `target` (a port of this machine), and one fault at a time."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.fired = False
        self._fault: Fault | None = None
        self._passed = {"up": 0, "down": 0}
        self._writers: set[asyncio.StreamWriter] = set()
        self._hung = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(self._listen(0))
        self.port = int(self._server.sockets[0].getsockname()[1])

    def arm(self, fault: Fault) -> None:
        """Sets the next fault; everything works again until then."""

        async def begin() -> None:
            if not self._server.is_serving():
                self._server = await self._listen(self.port)
            for writer in list(self._writers):
                if self._hung:
                    writer.transport.abort()
            self._hung = self.fired = False
            self._fault = fault
            self._passed = {"up": 0, "down": 0}

        self._do(begin())

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for writer in list(self._writers):
                writer.transport.abort()
            await asyncio.sleep(0.05)

        self._do(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._connection, "127.0.0.1", port)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass("up", reader, far_writer, writer))
                both.create_task(self._pass("down", far_reader, writer, far_writer))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for end in (writer, far_writer):
                self._writers.discard(end)
                end.close()

    async def _pass(
        self, way: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65536):
            data = await self._met(way, data, writer, back)
            while self._hung:
                await asyncio.sleep(0.02)
            writer.write(data)
            await writer.drain()
        with suppress(OSError):
            if writer.can_write_eof():
                writer.write_eof()

    async def _met(
        self, way: Direction, data: bytes, writer: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> bytes:
        """The bytes to pass on; the fault happens if its place is among them."""
        before = self._passed[way]
        self._passed[way] += len(data)
        fault = self._fault
        if fault is None or fault.direction != way:
            return data
        if self.fired and fault.kind == "slow":
            await asyncio.sleep(0.05)
        if self.fired or not before <= fault.at < self._passed[way]:
            return data
        self.fired = True
        return await self._break(fault, data, fault.at - before, writer, back)

    async def _break(
        self, fault: Fault, data: bytes, place: int, writer: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> bytes:
        if fault.act is not None:
            await asyncio.to_thread(fault.act)
        match fault.kind:
            case "refused":
                self._server.close()
                for other in list(self._writers):
                    other.transport.abort()
                raise ConnectionResetError
            case "reset" | "restarted":
                for end in (writer, back):
                    end.transport.abort()
                raise ConnectionResetError
            case "hung":
                self._hung = True
            case "error":
                client = writer if fault.direction == "down" else back
                client.write(_ERROR)
                await client.drain()
                raise ConnectionResetError
            case "truncated":
                writer.write(data[:place])
                await writer.drain()
                raise ConnectionResetError
            case "altered":
                return data[:place] + bytes([data[place] ^ 0x15]) + data[place + 1 :]
        return data
