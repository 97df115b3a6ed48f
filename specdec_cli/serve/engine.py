"""The engine of a server: it makes no forward for a client that has left."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import Engine, encoders_and_threads
from specdec_cli.models.session import Session
from specdec_cli.serve.bodies import require_client


class ServeEngine(Engine):
    """The engine of a server, which makes no forward for a client that has left.

    The thread that answers a request sets `request.left`, an event that is set when the client leaves.
    """

    def __init__(self, models: Sequence[AudioLM], clips: int) -> None:
        super().__init__(models, clips, *encoders_and_threads(models))
        self.request = threading.local()

    def logits(self, session: Session, text: Sequence[int], positions: int) -> torch.Tensor:
        """See `Session.logits`. Raises ClientDisconnect if the client of this thread's request has left."""
        self._require_client()
        return super().logits(session, text, positions)

    @contextmanager
    def encoder_turn(self) -> Iterator[None]:
        """See `Engine.encoder_turn`; a client may leave while its clip waits."""
        with super().encoder_turn():
            self._require_client()
            yield

    def _require_client(self) -> None:
        left: threading.Event | None = getattr(self.request, "left", None)  # a helper's thread has none
        if left is not None:
            require_client(left)
