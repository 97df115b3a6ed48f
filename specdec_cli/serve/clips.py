"""The clips that a server holds: each a session of the model with its cache. The oldest go when there is no room."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from specdec_cli.decoding.verify import LocalVerifier
from specdec_cli.serve.limits import Refusal

Why = Literal["done", "replaced", "room", "idle", "shutdown"]
"""Why a clip was forgotten. done: its client deleted it."""


@dataclass(slots=True, eq=False)
class Held:
    """A clip that is held.

    Attributes:
        id: chosen by its client.
        clip: digest of what it was opened with.
        verifier: judges its blocks.
        capacity: most tokens after the prompt.
        vocab_size: ids from here on are never scored.
        sends_rows: whether its questions come with the draft's distributions.
        bytes: memory that it takes, once its prompt is cached.
        busy: requests that are being answered.
        used: time of the last request, seconds.
    """

    id: str
    clip: str
    verifier: LocalVerifier
    capacity: int
    vocab_size: int
    sends_rows: bool
    bytes: int
    busy: int = 0
    used: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Within the block nobody else uses the session, and it is not dropped for room."""
        self.busy += 1
        try:
            with self._lock:
                yield
        finally:
            self.busy -= 1


class Clips:
    """Holds clips within bounds of number, memory and time. Any thread may use it.

    Args:
        most: clips.
        memory_bytes: of all of them.
        idle_s: seconds without a request after which a clip may go.
        forgotten: called for every clip that goes, with the reason.
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
        self._lock = threading.RLock()
        self._held: OrderedDict[str, Held] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._held)

    @property
    def bytes(self) -> int:
        """Memory of all clips."""
        with self._lock:
            return sum(held.bytes for held in self._held.values())

    def find(self, id_: str) -> Held | None:
        """The clip of that name, which counts as used now."""
        with self._lock:
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
        with self._lock:
            self.forget(held.id, "replaced")
            free = [other for other in self._held.values() if not other.busy]
            while len(self._held) >= self._most or self.bytes + held.bytes > self._memory_bytes:
                if not free:
                    raise Refusal(503, "busy", "all sessions are in use")
                self.forget(free.pop(0).id, "room")
            held.used = self._clock()
            self._held[held.id] = held

    def forget(self, id_: str, why: Why) -> None:
        """Drops a clip, if it is there. One that is being answered is gone when that is done."""
        with self._lock:
            if self._held.pop(id_, None) is not None:
                self._forgotten(why)

    def sweep(self) -> None:
        """Drops the clips that have been idle for too long."""
        with self._lock:
            for held in list(self._held.values()):
                if not held.busy and self._clock() - held.used > self._idle_s:
                    self.forget(held.id, "idle")

    def clear(self) -> None:
        """Drops all clips."""
        with self._lock:
            for id_ in list(self._held):
                self.forget(id_, "shutdown")
