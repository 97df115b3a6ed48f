"""Running on: how many tokens the cloud is to generate behind its own one, in the same exchange.

Times are medians over the clip's last exchanges, milliseconds: e of an edge step, c of a cloud step. A run-on token
costs c where a drafted one costs e, and its share of the next exchange besides; so each one pays where c < e, however
many there are. What bounds their number is not time but what the cloud is to write: with n tokens committed, w of
them the cloud's own, and j more behind its next one,

    w + 1 + j <= (n + 1 + j) / 2,  hence  j <= n - 2 w - 1,

so that no more than half of the text is the cloud's. Where a cloud step costs more than an edge step j is 0.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Final, Literal

MOST: Final = 16
"""Tokens that the cloud generates at most at a time: a wrong guess of where the text ends costs no more than these."""

_WINDOW: Final = 32  # measurements that a median is taken of


class RunOn:
    """The number of run-on tokens for one clip, from round to round.

    Args:
        wanted: that number, or "auto".
    """

    def __init__(self, wanted: int | Literal["auto"]) -> None:
        self._wanted = wanted
        self._edge_ms: deque[float] = deque(maxlen=_WINDOW)
        self._cloud_ms: deque[float] = deque(maxlen=_WINDOW)

    def drafted(self, tokens: int, ms: float) -> None:
        """Takes in that the edge drafted so many tokens in `ms`, prefill left out."""
        if tokens:
            self._edge_ms.append(ms / tokens)

    def verified(self, more: int, ms: float) -> None:
        """Takes in that the cloud verified a block and generated `more` tokens in `ms`, prefill and link left out.

        A verification is taken for one step: both are one forward, whose time the weights set and not the tokens.
        """
        self._cloud_ms.append(ms / (1 + more))

    def tokens(self, committed: int, of_cloud: int, room: int) -> int:
        """How many to ask for now.

        Args:
            committed: tokens of the text.
            of_cloud: of them, those that the cloud put in.
            room: most that would fit behind the cloud's own token.
        """
        return max(min(self._desired(committed, of_cloud), room), 0)

    def _desired(self, committed: int, of_cloud: int) -> int:
        if self._wanted != "auto":
            return self._wanted
        if not self._edge_ms or not self._cloud_ms or median(self._cloud_ms) >= median(self._edge_ms):
            return 0
        return min(committed - 2 * of_cloud - 1, MOST)
