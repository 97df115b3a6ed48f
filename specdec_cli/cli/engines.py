"""What captions for a command: models that are loaded here, clip by clip or several at a time, or a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from specdec_cli.captioning.job import Job
from specdec_cli.captioning.local import LocalBackend, WatchedBackend
from specdec_cli.captioning.tasks import ActorSettings, Backend
from specdec_cli.cli.command_run import load_captioner, require_cloud
from specdec_cli.console.view import View
from specdec_cli.inputs.cuts import Cuts

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner


def loaded(job: Job, view: View, *, runs_long: bool) -> Captioner:
    """The captioner of a job; it guesses from the transcripts that are resumed."""
    earlier = list(job.earlier())  # refused before anything that takes seconds
    load = partial(load_captioner, job.config, view, job.lexicon, recordings=job.recordings)
    captioner = load(runs_long=runs_long)
    for transcript in earlier:
        captioner.remember(transcript)
    return captioner


@dataclass(frozen=True, slots=True)
class OneByOne:
    """The models of this machine, which caption one clip after the other in a live view."""

    job: Job
    view: View

    @contextmanager
    def opened(self) -> Iterator[Backend]:
        """See `BackendSource`."""
        with loaded(self.job, self.view, runs_long=False) as captioner:
            yield WatchedBackend(captioner, self.view.show)


@dataclass(frozen=True, slots=True)
class Together:
    """The models of this machine, which caption several clips at a time; `batch_size` as of `LocalBackend`."""

    job: Job
    view: View
    batch_size: int | None

    @contextmanager
    def opened(self) -> Iterator[Backend]:
        """See `BackendSource`."""
        runtime = self.job.config.runtime
        flight = None if runtime.in_flight == "auto" else runtime.in_flight
        with loaded(self.job, self.view, runs_long=True) as captioner:
            yield LocalBackend(captioner, batch_size=self.batch_size, workers=runtime.readers, in_flight=flight)


@dataclass(frozen=True, slots=True)
class OnRay:
    """The models of a Ray cluster."""

    job: Job
    view: View
    batch_size: int | None

    @contextmanager
    def opened(self) -> Iterator[Backend]:
        """See `BackendSource`."""
        from specdec_cli.captioning.cluster import cluster

        job = self.job
        if (cuts := Cuts.of_config(job.config.audio)) is not None:  # what is refused here, every actor would refuse
            cuts.expect(job.recordings)
        with cluster(
            ActorSettings(job.config, job.lexicon, self.batch_size, job.recordings), self.view.loading
        ) as backend:
            require_cloud(backend.shared, degrades=job.config.decoding.degrades)
            yield backend
