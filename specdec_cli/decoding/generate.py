"""Cloud mode where the cloud is elsewhere: nothing is drafted here, and every exchange brings a piece of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from specdec_cli.decoding.draft import Draft, Stop
from specdec_cli.decoding.lookahead import Flight
from specdec_cli.models.session import Steps
from specdec_cli.types import ModelWork

CLOUD_CHUNK: Final = 16
"""Tokens that the cloud is asked for at a time. More would save round trips, and keep whoever watches waiting."""


class NoDrafter:
    """Proposes empty blocks, behind which the cloud writes on by itself.

    Args:
        vocab_size: of the cloud.
    """

    stop_ids: frozenset[int] = frozenset()

    def __init__(self, vocab_size: int) -> None:
        self._nothing = Draft((), torch.empty(0, vocab_size))

    @property
    def work(self) -> ModelWork:
        """None."""
        return ModelWork()

    def propose(self, text: Sequence[int], k: int, stop: Stop | None = None) -> Steps[Draft]:  # noqa: ARG002
        """The empty block."""
        yield from ()
        return self._nothing

    def break_out(self, text: Sequence[int], k: int, top_k: int) -> Steps[Draft]:  # noqa: ARG002
        """The empty block."""
        yield from ()
        return self._nothing

    def draft_ahead(
        self,
        text: Sequence[int],  # noqa: ARG002
        k: int,  # noqa: ARG002
        flight: Flight,  # noqa: ARG002
        stop: Stop | None = None,  # noqa: ARG002
        *,
        guess: bool = False,  # noqa: ARG002
    ) -> Steps[Draft | None]:
        """Nothing."""
        yield from ()
        return None

    def rollback(self, text: Sequence[int], *, keep_ahead: bool = False) -> int:  # noqa: ARG002
        """Nothing is remembered."""
        return 0
