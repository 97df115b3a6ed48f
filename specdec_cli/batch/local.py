"""A batch on this machine: one loaded pair, threads that read ahead, many clips decoded together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from specdec_cli.batch.backend import Deliver, Stopped
from specdec_cli.batch.decode import BatchCaptioner, Prepared
from specdec_cli.batch.items import Outcome, Task
from specdec_cli.batch.loader import Loader
from specdec_cli.batch.prepare import Part, Preparer, Refused
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
    """

    def __init__(self, captioner: Captioner, *, batch_size: int | None, workers: int) -> None:
        self._prepare = Preparer(captioner)
        self._decoder = BatchCaptioner(captioner, batch_size)
        self._workers = workers

    def run(self, tasks: Iterable[Task], deliver: Deliver, stopped: Stopped) -> None:
        """See `Backend`. Tasks are taken in threads of its own; outcomes are delivered in the caller's."""
        with Loader(tasks, self._prepare, workers=self._workers) as loader:
            for prepared, result in self._decoder.run(_clips(loader, deliver, stopped)):
                _gather(prepared.key, prepared.clip, result, deliver)


def _clips(loader: Loader, deliver: Deliver, stopped: Stopped) -> Iterator[Prepared]:
    """Clips to decode, similar lengths together: sorted among what is ready, so that nobody waits for a window.

    What needs no decoding is delivered on the way.
    """
    while taken := loader.take(stopped):
        clips: list[Prepared] = []
        for ready in taken:
            match ready:
                case Prepared():
                    clips.append(ready)
                case Refused(part, clip, error):
                    _gather(part, clip, error, deliver)
                case Outcome():
                    deliver(ready)
        clips.sort(key=lambda prepared: prepared.clip.duration_s, reverse=True)
        while clips and not stopped():
            prepared = clips.pop()
            loader.release(prepared)
            yield prepared


def _gather(part: object, clip: Clip, result: Transcript | SpecdecError, deliver: Deliver) -> None:
    assert isinstance(part, Part)  # the key that the preparer gave
    outcome = part.of.add(part.index, clip, result)
    if outcome is not None:
        deliver(outcome)
