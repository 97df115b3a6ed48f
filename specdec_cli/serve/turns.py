"""Places for work, which clients take by turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from typing import Final

_FEW: Final = 256  # clients whose turns are remembered


class Turns:
    """A number of places for work at a time. Clients take turns, however much work each of them has.

    Used in the event loop only.
    """

    def __init__(self, places: int) -> None:
        self._free, self._asked = places, 0
        self._waiting = list[tuple[bool, int, int, asyncio.Future[None]]]()
        self._round = 0  # of the turn that began last
        self._rounds = dict[str, int]()  # client -> round of its last turn, begun or not

    @asynccontextmanager
    async def turn(self, client: str, *, later: bool = False) -> AsyncIterator[None]:
        """Waits for a place, which is taken for the block. A turn that is `later` waits for all that are not."""
        round_ = max(self._rounds.pop(client, 0), self._round) + 1
        self._rounds[client] = round_
        if len(self._rounds) > _FEW:
            del self._rounds[next(iter(self._rounds))]
        self._asked += 1
        place = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (later, round_, self._asked, place))
        self._begin()
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                raise
            self._end()  # it had just got its place
            raise
        try:
            yield
        finally:
            self._end()

    def _begin(self) -> None:
        while self._free and self._waiting:
            _, round_, _, place = heappop(self._waiting)
            if not place.done():  # else its client left
                self._free -= 1
                self._round = max(self._round, round_)
                place.set_result(None)

    def _end(self) -> None:
        self._free += 1
        self._begin()
