"""`specdec caption`: recordings to captions, one after the other, with a live view."""

# no postponed annotations: see `specdec_cli.cli.options`

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import ClassVar

from specdec_cli.captioning.job import caption_missing
from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.preparing import prepare
from specdec_cli.captioning.tasks import Outcome, Stopped
from specdec_cli.cli import options
from specdec_cli.cli.captions import LoadedBackend, Printer, Recordings, conclude_clips, job_of, status, warn_of_names
from specdec_cli.cli.set_up import display


@dataclass(frozen=True, kw_only=True)
class CaptionCommand(options.WatchingOptions, Recordings):
    """On a terminal a live view shows each round. In a pipe, stdout has the captions alone, behind the times of a piece
    in seconds, and before flags in brackets, such as [no_speech]. The same command again captions what --output lacks.
    """

    name: ClassVar[str] = "caption"

    output: options.CaptionsOut = None

    def run(self) -> int:
        """See `Command.run`."""
        resolved, job, outputs = job_of(self, self.output)
        with display(self, resolved=None if self.json else resolved) as view:
            sink = Printer(view, json=self.json, named=job.several, cut=job.config.audio.segment is not None)
            ended = False
            try:
                caption_missing(job, _OneByOne(job, view), sink)
                ended = True
            finally:
                conclude_clips(view, sink.counts, outputs, ended=ended)
                written = outputs.write(job, view)
            warn_of_names(view, job, sink)
            return status(sink, written=written)


class _OneByOne(LoadedBackend):
    """Captions one clip after the other: `prepare` makes them of a recording, `watched` decodes each in a live view."""

    def outcomes(self, tasks: Iterable[Task], stopped: Stopped) -> Generator[Outcome]:
        """See `Backend`. Tasks are taken in the caller's thread."""
        for task in tasks:
            if stopped():
                return
            for ready in prepare(self.captioner, task):
                yield ready if isinstance(ready, Outcome) else self.watched(ready.outcome, ready.run)
