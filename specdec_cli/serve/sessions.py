"""The clips that a server holds: each a session of the model with its cache. The oldest go when there is no room."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.decoding.verify import SessionVerifier
from specdec_cli.serve.limits import Refusal

Why = Literal["done", "replaced", "room", "idle", "shutdown"]
"""Why a clip was forgotten. done: its client said so."""


@dataclass(slots=True, eq=False)
class Held:
    """A clip that is held.

    Attributes:
        id: chosen by its client.
        clip: digest of what it was opened with.
        verifier: judges its blocks.
        options: it was opened with.
        capacity: most tokens behind the prompt.
        vocab_size: ids from here on are never scored.
        bytes: memory that it takes, once it was heard.
        busy: requests that are being answered.
        used: when it was last asked for, seconds.
    """

    id: str
    clip: str
    verifier: SessionVerifier
    options: DecodingOptions
    capacity: int
    vocab_size: int
    bytes: int
    busy: int = 0
    used: float = field(default_factory=time.monotonic)


class Sessions:
    """Holds clips within bounds of number, memory and time. Used by one thread only.

    Args:
        most: clips.
        memory_bytes: of all of them.
        idle_s: seconds without a request after which a clip may go.
        forgotten: is told of every clip that goes, and why.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        most: int,
        memory_bytes: int,
        idle_s: float,
        forgotten: Callable[[Why], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._memory_bytes = memory_bytes
        self._idle_s = idle_s
        self._forgotten = forgotten
        self._clock = clock
        self._held: OrderedDict[str, Held] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._held)

    @property
    def bytes(self) -> int:
        """Memory of all clips."""
        return sum(held.bytes for held in self._held.values())

    def find(self, id_: str) -> Held | None:
        """The clip of that name, which counts as used now."""
        held = self._held.get(id_)
        if held is not None:
            self._held.move_to_end(id_)
            held.used = self._clock()
        return held

    def add(self, held: Held) -> None:
        """Holds a clip, in place of one of the same name, and of old ones where room is needed.

        Raises:
            Refusal: it is larger than all the memory, or all others are in use.
        """
        if held.bytes > self._memory_bytes:
            raise Refusal(
                413, "too_large", f"the clip takes {held.bytes >> 20} MiB, and there are {self._memory_bytes >> 20}"
            )
        self.forget(held.id, "replaced")
        free = [other for other in self._held.values() if not other.busy]
        while len(self._held) >= self._most or self.bytes + held.bytes > self._memory_bytes:
            if not free:
                raise Refusal(503, "busy", "all sessions are in use")
            self.forget(free.pop(0).id, "room")
        held.used = self._clock()
        self._held[held.id] = held

    def forget(self, id_: str, why: Why) -> bool:
        """Lets a clip go; whether it was there. One that is being answered is gone when that is done."""
        held = self._held.pop(id_, None)
        if held is not None:
            self._forgotten(why)
        return held is not None

    def sweep(self) -> None:
        """Lets go what has been idle for too long."""
        now = self._clock()
        for held in list(self._held.values()):
            if not held.busy and now - held.used > self._idle_s:
                self.forget(held.id, "idle")

    def clear(self) -> None:
        """Lets everything go."""
        for id_ in list(self._held):
            self.forget(id_, "shutdown")
