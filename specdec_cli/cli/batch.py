"""`specdec batch`: many recordings, several at a time, to a file that a later run resumes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from specdec_cli.batch.tasks import Progress, Work
from specdec_cli.cli import options
from specdec_cli.cli.captioning import Captioning, command_line
from specdec_cli.cli.command_run import display, require_cloud
from specdec_cli.cli.ending import Interruption, interruptible
from specdec_cli.console.progress import show_counts, show_failures, show_totals, show_warnings
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.text import show

if TYPE_CHECKING:
    from specdec_cli.batch.tasks import Backend

_MOST_CLIPS: Final = 1024  # each is a thread
_TOGETHER: Final = "Clips decoded together."
_RAY: Final = "Run on the Ray cluster at RAY_ADDRESS, or on one of this machine."


@options.taking(options.RecordingOptions, options.CuttingOptions, *options.CAPTIONING)
def batch(
    context: typer.Context,
    measure: bool,
    output: Annotated[Path, options.out(metavar="FILE", help=options.CAPTIONS)],
    batch_size: Annotated[str, options.of_work("--batch-size", metavar="auto|N", help=_TOGETHER)] = "auto",
    ray: Annotated[bool, options.of_work("--ray", help=_RAY)] = False,
) -> int:
    """Caption many recordings, several at a time.

    Run the same command again to go on where it was interrupted.
    """
    size = _number("--batch-size", batch_size)
    job = Captioning(context, may_be_sound=not ray)
    if ray and job.resolved.chosen("runtime.in_flight"):
        raise ConfigError("runtime.in_flight has no effect on a Ray cluster.", hint="Leave it out.")
    work = Work(job.config, job.labelling, measure, size, job.recordings)
    with display(context, resolved=job.resolved) as view:
        interruption: Interruption | None = None

        @contextmanager
        def backend() -> Iterator[Backend]:
            nonlocal interruption
            with on_ray(work, view) if ray else here(job, work, view) as entered:
                stopping = partial(view.stopping, "finishing what has begun")
                with interruptible(stopping) as interruption:
                    show_counts(view, job.counts)
                    yield entered

        def stopped() -> bool:
            fails = job.config.runtime.fail_fast and job.counts.failed > 0
            return fails or (interruption is not None and interruption.check())

        job.run(backend, stopped, report=lambda: show_counts(view, job.counts))
        interrupted = interruption is not None and interruption.asked
        code = job.end(view, interrupted=interrupted)
        _conclude(view, job.counts, output, interrupted=interrupted, resumable=job.target.resumable)
        return code


def _conclude(view: View, counts: Progress, output: Path, *, interrupted: bool, resumable: bool) -> None:
    """Shows totals, warnings and failures, and how to caption the rest."""
    show_totals(view, counts, output)
    show_warnings(view, counts)
    show_failures(view, counts, output if resumable else None)
    if counts.may_pass and resumable and output.is_file():
        view.hint(f"To caption just those again: {command_line('--retry-failed')}")
    if interrupted and resumable:
        view.hint(f"Captions so far are kept, also of single pieces. To go on: {command_line()}")


@contextmanager
def here(job: Captioning, work: Work, view: View) -> Iterator[Backend]:
    """The backend of this machine, with its models loaded."""
    captioner = job.load(view, runs_long=True)
    from specdec_cli.batch.local import LocalBackend

    runtime = work.config.runtime
    flight = None if runtime.in_flight == "auto" else runtime.in_flight
    yield LocalBackend(captioner, batch_size=work.batch_size, workers=runtime.readers, in_flight=flight)


@contextmanager
def on_ray(work: Work, view: View) -> Iterator[Backend]:
    """The backend of a Ray cluster."""
    from specdec_cli.batch.cluster import cluster

    if (cuts := Cuts.of_config(work.config.audio)) is not None:  # what is refused here, every actor would refuse
        cuts.expect(work.recordings)
    with cluster(work, view.loading) as backend:
        require_cloud(backend.setup, degrades=work.config.decoding.degrades)
        yield backend


def _number(option: str, given: str) -> int | None:
    """A number from 1 to `_MOST_CLIPS`, None for "auto"; ConfigError if it is neither."""
    if given != "auto" and not (given.isdecimal() and len(given) < 8 and 1 <= int(given) <= _MOST_CLIPS):
        message = f"{option} takes auto or a whole number from 1 to {_MOST_CLIPS}, not {show(given)}."
        raise ConfigError(message, hint=f"Try {option} 16.")
    return None if given == "auto" else int(given)
