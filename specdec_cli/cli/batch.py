"""`specdec batch`: many recordings, several at a time, to a file that a later run resumes."""

# no postponed annotations: see `specdec_cli.cli.options`

from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final

from specdec_cli.captioning.job import Job, Sink, caption_missing
from specdec_cli.captioning.local import BatchBackend
from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.tasks import ActorSettings, Backend, Outcome, Stopped
from specdec_cli.cli import options
from specdec_cli.cli.captions import LoadedBackend, Recordings, command_line, job_of, status, warn_of_names
from specdec_cli.cli.ending import Interruption, interruptible
from specdec_cli.cli.outputs import Outputs
from specdec_cli.cli.set_up import display, require_cloud
from specdec_cli.console.progress import show_counts, show_failures, show_totals, show_warnings
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.text import show

_MOST_CLIPS: Final = 1024  # each is a thread
_TOGETHER: Final = "Clips decoded together."
_RAY: Final = "Run on the Ray cluster at RAY_ADDRESS, or on one of this machine."


@dataclass(frozen=True, kw_only=True)
class BatchCommand(Recordings):
    """The same command again goes on where it was interrupted."""

    name: ClassVar[str] = "batch"

    output: options.RequiredCaptionsOut
    batch_size: Annotated[str, options.of_work("--batch-size", metavar="auto|N", help=_TOGETHER)] = "auto"
    ray: Annotated[bool, options.of_work("--ray", help=_RAY)] = False

    def run(self) -> int:
        """See `Command.run`."""
        size = _number("--batch-size", self.batch_size)
        resolved, job, outputs = job_of(self, self.output, may_be_sound=not self.ray)
        if self.ray and resolved.chosen("runtime.in_flight"):
            raise ConfigError("runtime.in_flight has no effect on a Ray cluster.", hint="Leave it out.")
        with display(self, resolved=resolved) as view:
            backend = (_on_ray if self.ray else _Together)(job, view, size)
            try:
                with ExitStack() as stack:
                    sink = _Counter(view, stack, fails_fast=job.config.runtime.fail_fast)
                    caption_missing(job, backend, sink)
            finally:
                written = outputs.write(job, view)
            warn_of_names(view, job, sink)
            _conclude(view, sink, outputs)
            return 130 if sink.interrupted else status(sink, written=written)


class _Counter(Sink):
    """Shows how far a batch is, and whether it is to end.

    Once the models are loaded, the first Ctrl-C lets it finish what has begun, until `stack` is closed.
    """

    def __init__(self, view: View, stack: ExitStack, *, fails_fast: bool) -> None:
        super().__init__()
        self._view, self._stack, self._fails_fast = view, stack, fails_fast
        self._interruption: Interruption | None = None

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the batch."""
        return self._interruption is not None and self._interruption.asked

    def loaded(self) -> None:
        """The models are loaded."""
        stopping = partial(self._view.stopping, "finishing what has begun")
        self._interruption = self._stack.enter_context(interruptible(stopping))
        show_counts(self._view, self.counts)

    def wrote(self) -> None:
        """The outcome is in the output and in the counts."""
        show_counts(self._view, self.counts)

    def stopped(self) -> bool:
        """Whether a failure or Ctrl-C ends the batch."""
        asked = self._interruption is not None and self._interruption.check()
        return asked or (self._fails_fast and self.counts.failed > 0)


class _Together(LoadedBackend):
    """Captions several clips at a time; `batch_size` as of `BatchBackend`."""

    runs_long = True

    def __init__(self, job: Job, view: View, batch_size: int | None) -> None:
        super().__init__(job, view)
        self._size = batch_size

    def outcomes(self, tasks: Iterable[Task], stopped: Stopped) -> Generator[Outcome]:
        """See `Backend`."""
        runtime = self.job.config.runtime
        flight = None if runtime.in_flight == "auto" else runtime.in_flight
        local = BatchBackend(self.captioner, batch_size=self._size, workers=runtime.readers, in_flight=flight)
        yield from local.outcomes(tasks, stopped)


@contextmanager
def _on_ray(job: Job, view: View, batch_size: int | None) -> Iterator[Backend]:
    """Captions with the models of a Ray cluster; `batch_size` as of `BatchBackend`."""
    from specdec_cli.captioning.cluster import cluster

    if (cuts := Cuts.of_config(job.config.audio)) is not None:  # what is refused here, every actor would refuse
        cuts.expect(job.recordings)
    work = ActorSettings(job.config, job.lexicon, batch_size, job.recordings)
    with cluster(work, view.loading) as backend:
        require_cloud(backend.shared, degrades=job.config.decoding.degrades)
        yield backend


def _conclude(view: View, sink: _Counter, outputs: Outputs) -> None:
    """Shows totals, warnings and failures, and how to caption the rest."""
    counts, transcripts = sink.counts, outputs.transcripts
    show_totals(view, counts, outputs.named)
    show_warnings(view, counts)
    show_failures(view, counts, transcripts)
    if counts.may_pass and transcripts is not None and transcripts.is_file():
        view.hint(f"To caption just those again: {command_line('--retry-failed')}")
    if sink.interrupted:
        view.hint(f"Captions so far are kept, also of single pieces. To go on: {command_line()}")


def _number(option: str, given: str) -> int | None:
    """A number from 1 to `_MOST_CLIPS`, None for "auto"; ConfigError if it is neither."""
    if given != "auto" and not (given.isdecimal() and len(given) < 8 and 1 <= int(given) <= _MOST_CLIPS):
        message = f"{option} takes auto or a whole number from 1 to {_MOST_CLIPS}, not {show(given)}."
        raise ConfigError(message, hint=f"Try {option} 16.")
    return None if given == "auto" else int(given)
