"""A job: recordings to caption by settings, into a file. It captions what that file lacks, writes and counts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

from specdec_cli import interrupts
from specdec_cli.captioning.output_file import Check, Output, Task, accepting
from specdec_cli.captioning.tasks import Backend, Outcome, Progress, Wholes, outcomes_if_none_needs_models
from specdec_cli.config import Config
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.find import Inputs, Paths
from specdec_cli.journal import read_lines
from specdec_cli.labels import Lexicon
from specdec_cli.prompts import Language
from specdec_cli.transcript.lines import Line
from specdec_cli.transcript.records import Transcript
from specdec_cli.transcript.shared import SharedFields, loaded_changes

_REMEMBERED: Final = 500
"""The latest transcripts of a file, from which tokens are guessed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one `caption`, `batch` or `listen` captions, and where it writes.

    Attributes:
        config: its settings.
        lexicon: finds the classes that captions name.
        inputs: the recordings; None: those of `transcripts` that failed before, or what a microphone records.
        transcripts: the file that they are appended to, and that a later run resumes; None: nothing is kept.
        overwrite: whether that file is replaced.
        limit: number of recordings to take; None: all.
        only_failed: whether only recordings are taken that failed before, or whose captions are degraded.
        listens: whether a microphone records what is captioned.
    """

    config: Config
    lexicon: Lexicon
    inputs: Inputs | None
    transcripts: Path | None
    overwrite: bool = False
    limit: int | None = None
    only_failed: bool = False
    listens: bool = False

    @property
    def shared(self) -> SharedFields:
        """What the transcripts of the job have in common."""
        return SharedFields.of(self.config, self.lexicon)

    @property
    def recordings(self) -> tuple[str, ...]:
        """The paths of all recordings that are named."""
        return tuple(item.path for item in self.inputs or ())

    @property
    def several(self) -> bool:
        """Whether more than one recording is asked for."""
        return self.inputs is None or len(list(islice(iter(self.inputs), 2))) > 1

    @property
    def resumes(self) -> bool:
        """Whether there are transcripts of an earlier run, to which those of this one are added."""
        return self.transcripts is not None and self.transcripts.is_file() and not self.overwrite

    @property
    def names_people(self) -> bool:
        """Whether speakers and texts come from a manifest; a file of cuts and channels may name some, too."""
        audio = self.config.audio
        of_manifest = self.inputs is not None and not isinstance(self.inputs, Paths)
        return of_manifest and audio.cuts_path is None and audio.channel != "each"

    def accepts(self) -> Check:
        """A check whether a stored line was made with the settings of this job."""
        return accepting(self.shared, self._instructed)

    def tasks(self, stored: Output) -> list[Task]:
        """The recordings to caption, compared with what the output holds of them: the first `limit`.

        Without `inputs`, all that failed before; with `only_failed`, those alone. A degraded caption counts as failed.
        """
        audio = self.config.audio
        cuts = Cuts.of_config(audio) if audio.cuts_path is not None and audio.cuts_path.is_dir() else None
        given = stored.failed() if self.inputs is None else self.inputs
        if cuts is not None:
            cuts.expect(item.path for item in given)
        digest_of = (lambda _: None) if cuts is None else cuts.digest
        tasks = (stored.find(item, again=self.only_failed, cuts_digest=digest_of(item.path)) for item in given)
        return list(islice((task for task in tasks if task.failed or not self.only_failed), self.limit))

    def earlier(self) -> Iterator[Transcript]:
        """The latest transcripts of the file that is resumed."""
        if self.transcripts is not None and self.resumes:
            for line in deque(read_lines(self.transcripts), maxlen=_REMEMBERED):
                if not line.torn:
                    yield Transcript.from_json(line.raw, str(self.transcripts))

    def _instructed(self, line: Line) -> tuple[Language, str] | None:
        """Language and instruction of a line's clip in this job; None if the line's own count."""
        if self.inputs is None or isinstance(self.inputs, Paths):
            known = self.listens or self.inputs is not None
            return (self.config.prompt.language, self.config.instruction()) if known else None
        row = self.inputs.rows.get(line.key)
        return None if row is None else row.language_and_instruction(self.config)


class Sink:
    """What becomes of outcomes; this one counts them.

    Attributes:
        counts: of the run so far.
        refused: exit code if no recording could be opened, in which case nothing is written; else 0.
        moved: recordings done before that have another name by now.
        renamed: recordings done before of which the manifest has another speaker or text.
    """

    def __init__(self) -> None:
        self.counts, self.refused, self.renamed, self.moved = Progress(), 0, 0, 0

    def take(self, outcome: Outcome, stored: Output) -> None:
        """An outcome, before it is written."""

    def wrote(self) -> None:
        """The outcome is in the output and in the counts."""

    def loaded(self) -> None:
        """The models are loaded."""

    def stopped(self) -> bool:
        """Whether nothing more is to be begun; it is called often, and may raise an error that ends the run."""
        return False


def caption_missing(job: Job, loader: AbstractContextManager[Backend], sink: Sink) -> None:
    """Captions what the output of a job lacks, if anything: entering `loader` loads the models, its `outcomes` decode.

    Raises:
        TranscriptError: the output holds something else, or cannot be written.
        SpecdecError: the models cannot be loaded.
    """
    with Output(job.transcripts, job.accepts(), overwrite=job.overwrite) as stored:
        sink.moved = 0 if job.inputs is None else stored.follow(job.inputs)
        tasks = [] if job.listens else job.tasks(stored)
        sink.counts.total = len(tasks)
        sink.renamed = sum(task.renamed for task in tasks) if job.names_people else 0
        if not job.listens and (outcomes := outcomes_if_none_needs_models(tasks, job.shared)) is not None:
            _settle(tasks, outcomes, stored, sink)
            return
        wholes = Wholes()
        with loader as backend:
            sink.counts.started = time.monotonic()  # so that the rate leaves loading out
            stored.require(lambda line: loaded_changes(line.head, backend.shared, ("dtype", "weights")))
            sink.loaded()
            left = takewhile(lambda _: not sink.stopped(), tasks)
            with closing(backend.outcomes(left, sink.stopped)) as ended:
                for outcome in ended:
                    interrupts.check()  # which may have ended a call of it
                    _keep(outcome, stored, sink, wholes)


def _settle(tasks: Sequence[Task], outcomes: Sequence[Outcome], stored: Output, sink: Sink) -> None:
    """Keeps the outcomes of tasks that are all done, or cannot be opened; of a first run that has none, nothing."""
    if not any(task.lines for task in tasks):
        sink.refused = max((outcome.error.status for outcome in outcomes if outcome.error), default=0)
    for task, outcome in zip(tasks, outcomes, strict=True):
        _keep(outcome, stored, sink, Wholes(), write=not (sink.refused or task.lines))


def _keep(outcome: Outcome, stored: Output, sink: Sink, wholes: Wholes, *, write: bool = True) -> None:
    outcome = wholes.complete(outcome, lambda: stored.transcripts(stored.find(outcome.item)))
    sink.take(outcome, stored)
    if write and outcome.line is not None:
        stored.add(outcome.item.key, outcome.line)
    sink.counts.add(outcome)
    sink.wrote()
