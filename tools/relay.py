"""A link with a round-trip time and a bandwidth, for machines whose kernel cannot imitate one: a TCP proxy that waits.

    python -m tools.relay 127.0.0.1:8766 127.0.0.1:8765 --rtt-ms 50 --mbps 20

What comes in is passed on half a round trip later, and no faster than the bandwidth; what follows does not wait for it
to arrive. A new connection costs one round trip more, as its handshake would.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Final

import typer

_CHUNK: Final = 1 << 14


class Relay:
    """Passes connections on to one address; `mbps`: megabits a second each way, None: as fast as it goes."""

    def __init__(self, host: str, port: int, rtt_ms: float, mbps: float | None = None) -> None:
        self._target = (host, port)
        self._way_s = rtt_ms / 2e3
        self._s_per_byte = 8e-6 / mbps if mbps else 0.0
        self._free_at = [0.0, 0.0]  # when the line up, and the line down, can take more

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Passes one connection on, to its end."""
        ends = [writer]
        try:
            await asyncio.sleep(2 * self._way_s)
            back, far = await asyncio.open_connection(*self._target)
            ends.append(far)
            await asyncio.gather(self._way(0, reader, far), self._way(1, back, writer))
        except OSError:  # an end is gone: so is the other
            pass
        finally:
            for end in ends:
                end.close()
                with suppress(OSError):
                    await end.wait_closed()

    async def _way(self, line: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop, data = asyncio.get_running_loop(), b"begin"
        while data:
            data = await reader.read(_CHUNK)
            free_at = self._free_at[line] = max(self._free_at[line], loop.time()) + len(data) * self._s_per_byte
            await writer.drain()
            if data:
                loop.call_at(free_at + self._way_s, writer.write, data)
            await asyncio.sleep(free_at - loop.time() + (0.0 if data else self._way_s))
        with suppress(OSError):
            writer.write_eof()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise typer.BadParameter(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def main(
    listen: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where to take connections.")],
    target: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where they go.")],
    rtt_ms: Annotated[float, typer.Option("--rtt-ms", min=0, help="Round trip, milliseconds.")] = 50.0,
    mbps: Annotated[float | None, typer.Option("--mbps", min=0.001, help="Megabits a second, each way.")] = None,
) -> None:
    """Pass TCP connections on as a slow link would."""

    async def run() -> None:
        server = await asyncio.start_server(Relay(*_address(target), rtt_ms, mbps).serve, *_address(listen))
        typer.echo(f"{listen} -> {target}, {rtt_ms:g} ms", err=True)
        await server.serve_forever()

    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(run())
    except OSError as error:
        raise typer.BadParameter(f"{listen} cannot be listened at: {error}") from None


if __name__ == "__main__":
    typer.run(main)
