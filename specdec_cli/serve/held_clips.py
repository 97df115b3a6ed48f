"""Holds the clips of remote edges within bounds of number, memory and time."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from specdec_cli.cloud import protocol as wire
from specdec_cli.decoding.block import Verdict
from specdec_cli.decoding.verify import LocalVerifier
from specdec_cli.serve.limits import ServeLimits


@dataclass(slots=True, eq=False)
class HeldClip:
    """A clip that is held. Its lock is taken while a request is being answered."""

    id: str  # chosen by its client
    request: wire.ClipRequest  # that opened it
    verifier: LocalVerifier
    bytes: int  # most memory between two requests
    # The text up to the last verdict, and for each token whether the model chose it. A verdict replaces both at once,
    # so that any thread may read them while a request is being answered.
    written: tuple[tuple[int, ...], tuple[bool, ...]] = ((), ())
    used: float = field(default_factory=time.monotonic)  # time of the last request, seconds
    lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, block: wire.BlockRequest, verdict: Verdict) -> None:
        """Replaces the text by that after a verdict."""
        own = self.written[1][: len(block.text)]
        text_ids = (*block.text, *block.draft[: verdict.accepted], verdict.token, *verdict.run_on)
        given = (*own, *(False for _ in block.text[len(own) :]))
        self.written = text_ids, (*given, *(True for _ in text_ids[len(given) :]))

    def learn(self) -> None:
        """Adds the text to the guesses of later clips."""
        self.verifier.next_scores.learn(*self.written)


class HeldClips:
    """Holds clips within bounds of number, memory and time. Any thread may use it."""

    def __init__(self, limits: ServeLimits) -> None:
        self._limits, self._lock = limits, threading.RLock()
        self._held: dict[str, HeldClip] = {}  # the most recently used one is the last

    def __len__(self) -> int:
        return len(self._held)

    @property
    def bytes(self) -> int:
        with self._lock:
            return sum(held.bytes for held in self._held.values())

    def find(self, id_: str) -> HeldClip | None:
        """The clip with this id, which is marked as used now; None if it is not held."""
        with self._lock:
            if (held := self._held.pop(id_, None)) is not None:
                held.used, self._held[id_] = time.monotonic(), held
            return held

    def add(self, held: HeldClip) -> None:
        """Holds a clip, in place of one with the same id, and of the least recently used ones if room is needed.

        Raises HTTPException if there is no room.
        """
        most, room = self._limits.sessions, self._limits.memory_bytes
        if held.bytes > room:
            raise HTTPException(
                413, f"the clip needs {-(-held.bytes >> 20)} MiB; the server's limit is {room >> 20} MiB"
            )
        with self._lock:
            kept = {id_: each for id_, each in self._held.items() if id_ != held.id}
            free = [each for each in kept.values() if not each.lock.locked()]
            while len(kept) >= most or sum(each.bytes for each in kept.values()) + held.bytes > room:
                if not free:
                    raise HTTPException(503, "all sessions are in use")
                del kept[free.pop(0).id]
            dropped = [each for id_, each in self._held.items() if id_ not in kept]
            self._held = {**kept, held.id: held}
        for each in dropped:
            each.learn()

    def forget(self, id_: str) -> None:
        """Drops a clip, if it is held, and adds its text to the guesses. This takes too long for the event loop.

        A running request still gets its answer.
        """
        with self._lock:
            held = self._held.pop(id_, None)
        if held is not None:
            held.learn()

    def sweep(self) -> None:
        """Drops idle clips."""
        for held in list(self._held.values()):
            if not held.lock.locked() and time.monotonic() - held.used > self._limits.idle_s:
                self.forget(held.id)
