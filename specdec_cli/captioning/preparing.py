"""From a recording to clips that only need decoding: read, compared with an output, cut, and turned into prompts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.tasks import Outcome
from specdec_cli.errors import as_specdec_error

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.run import Run

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A clip that only needs decoding, and its outcome without the line."""

    outcome: Outcome
    run: Run


Ready = Prepared | Outcome
"""What is prepared of a task: a clip, or its outcome if nothing needs decoding."""


def prepare(captioner: Captioner, task: Task) -> Iterator[Ready]:
    """From a task to clips that only need decoding: read, compared with what is known, cut, turned into prompts.

    Several threads call it at once. Raises nothing: an error is in the outcome of its recording.
    """
    item, begun = task.item, 0
    outcome = Outcome(item)
    try:
        recording = None if task.done else captioner.reader.open(item)
        skip = task.found_in(recording) if recording else frozenset[int]()
        if recording is None or len(skip) == len(recording.spans):
            yield replace(outcome, captioned=task.captioned)
            return
        left = [span for number, span in enumerate(recording.spans) if number not in skip]
        length_s = sum(span.end_s - span.start_s for span in left)
        outcome = Outcome(item, of=len(left), of_s=length_s, captioned=bool(skip) and task.captioned)
        for run in captioner.runs_of(recording, item, skip):
            begun += 1
            yield Prepared(outcome, run)
    except Exception as unforeseen:
        error = as_specdec_error(unforeseen, _log)
        # an error behind the first piece: the file changed between the two passes over it
        yield replace(outcome, line=captioner.shared.error_line(item, error), pieces=outcome.of - begun, error=error)
