"""A hard time limit around every call to a cloud, and a memory of its failures."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from specdec_cli.cloud.breaker import Breaker
from specdec_cli.cloud.transport import UnreachableError
from specdec_cli.errors import CloudError

T = TypeVar("T")


class Guard:
    """Runs calls to one cloud.

    Args:
        name: of the cloud, in messages.
        timeout_s: seconds that a call may take, repeats included.
        retry_s: seconds after a failure in which nobody asks again.
    """

    def __init__(self, name: str, timeout_s: float, retry_s: float) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._breaker = Breaker(retry_s)

    @property
    def trouble(self) -> str:
        """Why the last call that failed did so."""
        return self._breaker.reason

    async def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """`work` within the time limit, or not at all while the cloud is known to be down.

        Args:
            work: the call.
            timeout_s: another limit.

        Raises:
            CloudError: whatever goes wrong.
        """
        breaker, limit = self._breaker, timeout_s or self._timeout_s
        if not breaker.admits():
            work.close()
            raise CloudError(f"the cloud failed {breaker.since_s:.0f} s ago and was not asked again: {breaker.reason}")
        try:
            async with asyncio.timeout(limit):
                result = await work
        except CloudError as error:
            if error.about_clip:
                breaker.undecided()
            else:
                breaker.failed(error.message)
            raise
        except TimeoutError as error:
            late = UnreachableError(
                f"{self._name} did not answer within {limit:g} s",
                hint="Check the link and the server, or raise cloud.timeout_s.",
            )
            breaker.failed(late.message)
            raise late from error
        except BaseException:
            breaker.undecided()
            raise
        breaker.succeeded()
        return result
