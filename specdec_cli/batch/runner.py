"""One run of a batch: every outcome to the output and to the counts, until it is done, stopped or fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile

from specdec_cli.batch.backend import Backend
from specdec_cli.batch.output import Output
from specdec_cli.batch.plan import Plan
from specdec_cli.batch.progress import Progress
from specdec_cli.batch.tasks import Outcome


class Stop:
    """Asks a run to begin nothing more. Safe to call in a signal handler."""

    def __init__(self) -> None:
        self._asked = False

    def ask(self) -> None:
        """Asks."""
        self._asked = True

    def __call__(self) -> bool:
        """Whether it was asked."""
        return self._asked


def run_batch(
    plan: Plan,
    backend: Backend,
    output: Output,
    stop: Stop,
    *,
    told: Callable[[Progress], None],
    progress: Progress | None = None,
    fail_fast: bool = False,
) -> Progress:
    """Captions what a plan holds.

    Args:
        plan: what is to do.
        backend: where to do it.
        output: takes the lines.
        stop: ends the run early.
        told: told how far it is, at the start and after every recording.
        progress: counts of what the plan has passed over.
        fail_fast: whether the first failure ends the run.

    Returns:
        The counts at the end.

    Raises:
        TranscriptError: the output cannot be written.
    """
    progress = progress or Progress()
    threading.Thread(target=_count, args=(plan, progress), daemon=True).start()

    def deliver(outcome: Outcome) -> None:
        if not outcome.skipped:
            output.append(outcome.item.key, outcome.lines)
        progress.add(outcome)
        if fail_fast and outcome.failed:
            stop.ask()
        told(progress)

    told(progress)
    backend.run(takewhile(lambda _: not stop(), plan), deliver, stop)
    return progress


def _count(plan: Plan, progress: Progress) -> None:
    """Counting may take as long as scanning a large disk: captioning does not wait for it."""
    with suppress(OSError):  # what is counted may go away, and the run with it
        progress.total = plan.count()
