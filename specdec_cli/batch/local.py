"""A batch on this machine: one loaded pair, threads that read ahead, many clips decoded together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from specdec_cli.batch.backend import Deliver, Stopped
from specdec_cli.batch.begun import Begun
from specdec_cli.batch.decode import BatchCaptioner, Prepared
from specdec_cli.batch.loader import Loader
from specdec_cli.batch.prepare import Part, Preparer, Ready, Refused
from specdec_cli.batch.tasks import Outcome, Task
from specdec_cli.errors import SpecdecError
from specdec_cli.run import Clip
from specdec_cli.transcript.schema import Transcript

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner


class LocalBackend:
    """Captions tasks with one captioner.

    Args:
        captioner: the loaded models.
        batch_size: most clips decoded together; None: as many as pays.
        workers: threads that read ahead.
        begun: notes what is being decoded; None: nothing is noted.
    """

    def __init__(
        self, captioner: Captioner, *, batch_size: int | None, workers: int, begun: Begun | None = None
    ) -> None:
        self._prepare = Preparer(captioner, begun)
        self._decoder = BatchCaptioner(captioner, batch_size)
        self._workers = workers

    def run(self, tasks: Iterable[Task], deliver: Deliver, stopped: Stopped) -> None:
        """See `Backend`. Tasks are taken in threads of its own; outcomes are delivered in the caller's."""
        with Loader(tasks, self._prepare, workers=self._workers, most_s=self._prepare.most_s) as loader:
            for prepared, result in self._decoder.run(_Clips(loader, deliver, stopped)):
                _gather(prepared.key, prepared.clip, result, deliver)


class _Clips:
    """Clips to decode, the shorter first among what is ready at a time, so that nobody waits for a window.

    What needs no decoding is delivered on the way.
    """

    def __init__(self, loader: Loader, deliver: Deliver, stopped: Stopped) -> None:
        self._loader = loader
        self._deliver = deliver
        self._stopped = stopped
        self._clips: list[Prepared] = []  # the shortest last

    def take(self, *, wait: bool) -> Prepared | None:
        """See `Source`."""
        while not self._clips and (taken := self._loader.take(self._stopped, wait=wait)):
            self._sort(taken)
        if not self._clips or self._stopped():
            return None
        prepared = self._clips.pop()
        self._loader.release(prepared)
        return prepared

    def _sort(self, taken: list[Ready]) -> None:
        for ready in taken:
            match ready:
                case Prepared():
                    self._clips.append(ready)
                case Refused(part, clip, error):
                    _gather(part, clip, error, self._deliver)
                case Outcome():
                    self._deliver(ready)
        self._clips.sort(key=lambda prepared: prepared.clip.duration_s, reverse=True)


def _gather(part: object, clip: Clip, result: Transcript | SpecdecError, deliver: Deliver) -> None:
    assert isinstance(part, Part)  # the key that the preparer gave
    outcome = part.of.add(part.index, clip, result)
    if outcome is not None:
        deliver(outcome)
