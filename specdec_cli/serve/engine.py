"""The engine of a server: no forward is made for a client that has left, and first pieces go before later ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

import torch
from starlette.requests import ClientDisconnect

from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import Engine, encoders_and_threads
from specdec_cli.models.session import Session

_PATIENCE_S: Final = 0.25  # after which a later piece no longer waits for first ones


def require_client(left: threading.Event) -> None:
    """Raises ClientDisconnect if `left` is set: the client of a request is gone."""
    if left.is_set():
        raise ClientDisconnect


class ServeEngine(Engine):
    """The engine of a server, for the threads of its requests. Others use it as any engine."""

    def __init__(self, models: Sequence[AudioLM], clips: int) -> None:
        encoders, threads = encoders_and_threads(models)
        super().__init__(models, clips, encoders, threads)
        self._thread, self._idle, self._first = threading.local(), threading.Condition(), 0
        self._later_encoding = threading.BoundedSemaphore(max(encoders - 1, 1))

    @contextmanager
    def request(self, left: threading.Event, *, later: bool = False) -> Iterator[None]:
        """Within the block this thread works for a request, whose client has left once `left` is set.

        `later`: it decodes a later piece of a recording, see `ahead`.
        """
        self._thread.left, self._thread.later = left, later
        try:
            yield
        finally:
            del self._thread.left, self._thread.later

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Within the block a first piece is under way: later ones make a forward every `_PATIENCE_S` at most."""
        self._count_first(1)
        try:
            yield
        finally:
            self._count_first(-1)

    def logits(self, session: Session, text: Sequence[int], positions: int) -> torch.Tensor:
        """See `Session.logits`. Raises ClientDisconnect if the client of this thread's request has left."""
        self._make_way()
        self._require_client()
        return super().logits(session, text, positions)

    @contextmanager
    def encoder_turn(self) -> Iterator[None]:
        """See `Engine.encoder_turn`; a client may leave while its clip waits.

        Later pieces leave an encoder to first ones. If there is only one, they queue for it one at a time.
        """
        later = getattr(self._thread, "later", False)
        with self.step_aside(), self._later_encoding if later else nullcontext():
            self._make_way()  # once more: the queue may have been long
            with super().encoder_turn():
                self._require_client()
                yield

    def _make_way(self) -> None:
        """A later piece waits for first ones, for a while."""
        if getattr(self._thread, "later", False) and self._first:
            with self.step_aside(), self._idle:
                self._idle.wait_for(lambda: not self._first, _PATIENCE_S)

    def _require_client(self) -> None:
        left: threading.Event | None = getattr(self._thread, "left", None)  # a helper's thread has none
        if left is not None:
            require_client(left)

    def _count_first(self, change: int) -> None:
        with self._idle:
            self._first += change
            self._idle.notify_all()
