"""Where a batch is captioned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from specdec_cli.batch.tasks import Outcome, Task

Deliver = Callable[[Outcome], None]
"""Takes what became of a recording."""

Stopped = Callable[[], bool]
"""Whether nothing more is to be begun."""


class Backend(Protocol):
    """Captions tasks, on this machine or on others."""

    def run(self, tasks: Iterable[Task], deliver: Deliver, stopped: Stopped) -> None:
        """Captions tasks until there are no more, or until `stopped`; what has begun is finished either way.

        Args:
            tasks: taken one at a time, as they are needed; possibly in another thread.
            deliver: called once per task, in the caller's thread, in order of finishing. What it raises ends the run.
            stopped: asked again and again.
        """
        ...
