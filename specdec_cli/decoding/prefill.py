"""When the cloud encodes a clip: at its first call, before the edge drafts, or in parallel with the edge."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

import torch

from specdec_cli.decoding.block import Verifier


@dataclass(eq=False)
class CloudPrefill:
    """The cloud's prefill of one clip, in the clip's own thread or in another one.

    Attributes:
        begun: true once the cloud's prefill of this clip has begun, so that a further call costs little.
    """

    when: Literal["lazy", "early", "overlap"]
    step_aside: Callable[[], AbstractContextManager[None]] = nullcontext  # around waits that are not for a forward
    begun: bool = field(default=False, init=False)
    _thread: ThreadPoolExecutor | None = field(default=None, init=False)
    _reading: Future[None] | None = field(default=None, init=False)

    def begin(self, cloud: Verifier) -> None:
        """Starts the cloud's prefill, unless it belongs to the first call."""
        if self.when == "early":
            with self.step_aside() if cloud.is_remote else nullcontext():
                cloud.prefill()
        elif self.when == "overlap":
            threads = (torch.get_num_threads(),)  # which hold only in the thread that sets them
            self._thread = ThreadPoolExecutor(1, "cloud", torch.set_num_threads, threads)
            self._reading = self._thread.submit(cloud.prefill)
        self.begun = self.when != "lazy"

    def join(self) -> None:
        """Waits for the prefill in the other thread. If it failed, the next call of the cloud fails.

        That call is the first one.
        """
        if self._reading is not None:
            with self.step_aside():  # the prefill may wait until no clip is at work
                wait([self._reading])
        self.begun = True

    def close(self) -> None:
        """Waits for a running prefill, and ends the thread."""
        if self._thread is not None:
            with self.step_aside():
                self._thread.shutdown(wait=True, cancel_futures=True)
