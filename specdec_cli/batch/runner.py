"""One run of a batch: every outcome to the output and to the counts, until it is done, stopped or fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile

from specdec_cli.batch.output_file import Output
from specdec_cli.batch.plan import Plan
from specdec_cli.batch.tasks import Backend, Outcome, Progress


def run_batch(
    plan: Plan,
    backend: Backend,
    output: Output,
    interrupted: Sequence[int],
    *,
    told: Callable[[Progress], None],
    progress: Progress,
    fail_fast: bool,
) -> None:
    """Captions what a plan holds.

    Args:
        plan, backend, output: what is to do, where to do it, and what takes the lines.
        interrupted: holds something once somebody wants it to end early.
        told: called with the counts at the start and after every recording.
        progress: counts of what the plan has passed over; those of the run are added to them.
        fail_fast: whether the first failure ends the run.

    Raises:
        TranscriptError: the output cannot be written.
    """

    def count() -> None:  # in a thread: it may take as long as scanning a large disk
        with suppress(OSError):  # what is counted may go away, and the run with it
            progress.total = plan.count()

    def deliver(outcome: Outcome) -> None:
        if not outcome.skipped:
            output.append(outcome.item.key, outcome.lines)
        progress.add(outcome)
        if fail_fast and outcome.failed:
            failed.append(outcome)
        told(progress)

    def stopped() -> bool:
        return bool(interrupted or failed)

    failed: list[Outcome] = []
    threading.Thread(target=count, daemon=True).start()
    told(progress)
    backend.run(takewhile(lambda _: not stopped(), plan), deliver, stopped)
