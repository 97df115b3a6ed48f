"""What both kinds of servers that a cloud may be have in common, as their clients see them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from statistics import median
from typing import Final, TypeVar

from specdec_cli.cloud.connection import Request
from specdec_cli.cloud.http import Caller, Http, MisconfiguredError
from specdec_cli.errors import CloudError, ConfigError, SpecdecError
from specdec_cli.models.processor import Processor

T = TypeVar("T")
_PROBES: Final = 5


class Server(ABC):
    """A server at an address; see `RemoteCloud` for most of it.

    Args:
        processor: makes the prompts.
        own: whether it was loaded for this cloud; otherwise it is the edge's.
        http: connections.

    Attributes:
        role: what the processor is called in messages.
    """

    def __init__(self, processor: Processor, http: Http, *, own: bool) -> None:
        self.name = http.url
        self.processor = processor
        self.vocab_size = processor.vocab_size
        self.window_s = processor.window_s
        self.http = http
        self.role = "cloud.processor" if own else "edge"

    @property
    @abstractmethod
    def reached(self) -> bool:
        """Whether it has answered, and fits."""

    @abstractmethod
    def connect(self, caller: Caller) -> None:
        """Finds out, within a call, whether the server fits. Raises CloudError if not, or if it is not reached."""

    @property
    def trouble(self) -> str | None:
        """Why it was not reached, in a sentence; None if it was."""
        return None if self.reached else self.http.breaker.reason

    def start(self, timeout_s: float | None = None) -> None:
        """Connects for the first time. A server that is not reached is tried again when a clip needs it.

        Raises:
            SpecdecError: the configuration is to blame.
        """
        caller = Caller(self.http)
        try:
            with caller.call(timeout_s):
                self.connect(caller)
        except MisconfiguredError as error:
            self.close()
            raise error.refusal from None
        except CloudError:
            pass  # see `trouble`

    def timed(self, path: str, read: Callable[[bytes], T]) -> tuple[T, str]:
        """The answer to a GET, and the median round trip in words; the server must fit."""
        caller, times = Caller(self.http), []
        for _ in range(_PROBES):
            started = time.perf_counter()
            with caller.call():
                found = caller.fetch(Request("GET", path), read)
            times.append((time.perf_counter() - started) * 1e3)
        with caller.call():
            self.connect(caller)
        return found, f"{median(times):.1f} ms round trip"

    def close(self) -> None:
        """Closes the connections, as happens by itself when this is dropped."""
        self.http.close()


def misfit(message: str, hint: str | None, kind: type[SpecdecError] = ConfigError) -> MisconfiguredError:
    """A server that cannot be used with this configuration."""
    return MisconfiguredError(kind(message, hint=hint))
