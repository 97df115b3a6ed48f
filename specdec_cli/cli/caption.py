"""`specdec caption`: recordings to captions, one after the other, with a live view."""

# no postponed annotations: see `specdec_cli.cli.options`

from dataclasses import dataclass
from typing import ClassVar

from specdec_cli.captioning.run import run
from specdec_cli.cli import options
from specdec_cli.cli.captions import Printer, Recordings, asked_by, conclude_clips, status, warn_of_names
from specdec_cli.cli.command_run import display
from specdec_cli.cli.engines import OneByOne


@dataclass(frozen=True, kw_only=True)
class CaptionCommand(options.WatchingOptions, Recordings):
    """On a terminal a live view shows each round. In a pipe, stdout has the captions alone, behind the times of a piece
    in seconds, and before flags in brackets, such as [no_speech]. The same command again captions what --output lacks.
    """

    name: ClassVar[str] = "caption"

    output: options.CaptionsOut = None

    def run(self) -> int:
        """See `Command.run`."""
        resolved, job, outputs = asked_by(self, self.output)
        with display(self, resolved=None if self.json else resolved) as view:
            sink = Printer(view, json=self.json, named=job.several, cut=job.config.audio.segment is not None)
            ended = written = False
            try:
                run(job, OneByOne(job, view), sink)
                ended = True
            finally:
                conclude_clips(view, sink.counts, outputs, ended=ended)
                written = outputs.write(job, view)
            warn_of_names(view, job, sink)
            return status(sink, written=written)
