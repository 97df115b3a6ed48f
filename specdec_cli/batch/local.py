"""A batch on this machine: threads that read and prepare recordings, and one loaded pair that decodes many clips."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from specdec_cli.batch.in_flight import BatchCaptioner, Prepared
from specdec_cli.batch.tasks import Deliver, Outcome, Stopped, Task
from specdec_cli.errors import SpecdecError, typed
from specdec_cli.inputs.recording import InputFile
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import Clip

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.config import Config
    from specdec_cli.run import Setup

_log = logging.getLogger(__name__)

Ready = Prepared | Outcome
"""What a task gives: its clips, or its outcome where nothing needs decoding."""

IN_FLIGHT_S: Final = 120.0
"""Audio that is prepared and waits, seconds: about 15 MB of samples and features."""

_LEAST_S: Final = 0.05  # what counts for an entry that holds no audio
_SIGNAL_S: Final = 0.1  # how long a wait may keep the main thread from noticing a signal or a stop


class LocalBackend:
    """Captions tasks with one captioner.

    Args:
        captioner: the loaded models.
        batch_size, in_flight: see `BatchCaptioner`.
        workers: threads that read ahead.
    """

    def __init__(
        self, captioner: Captioner, *, batch_size: int | None, workers: int, in_flight: int | None = None
    ) -> None:
        self._prepare, self._workers = partial(prepare, captioner), workers
        self._captioner = BatchCaptioner(captioner, batch_size, in_flight)

    def run(self, tasks: Iterable[Task], deliver: Deliver, stopped: Stopped) -> None:
        """See `Backend`. Tasks are taken in threads of its own; outcomes are delivered in the caller's."""
        with Loader(tasks, self._prepare, deliver, stopped, workers=self._workers) as loader:
            for prepared, result in self._captioner.run(loader):
                deliver(prepared.ended(prepared.run.clip, result))


class Loader:
    """Prepares tasks in the background, in no certain order. Use it as a context manager.

    Args:
        tasks, stopped: see `Backend`; tasks are taken by one thread at a time.
        prepare: turns a task into what is ready.
        deliver: takes the outcomes of what needs no decoding, in the thread that calls `take`.
        workers: number of threads.
        in_flight_s: seconds of audio that may wait; each thread holds one piece more.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        prepare: Callable[[Task], Iterator[Ready]],
        deliver: Deliver,
        stopped: Stopped,
        *,
        workers: int,
        in_flight_s: float = IN_FLIGHT_S,
    ) -> None:
        self._tasks, self._prepare, self._deliver, self._stopped = iter(tasks), prepare, deliver, stopped
        self._limit_s, self._audio_s = in_flight_s, 0.0
        self._ready: deque[tuple[float, Ready]] = deque()  # with its length, seconds
        self._closed = False
        self._error: BaseException | None = None
        self._turn, self._changed = threading.Lock(), threading.Condition()
        self._threads = [threading.Thread(target=self._work, name=f"loader-{n}", daemon=True) for n in range(workers)]
        self._working = workers

    def __enter__(self) -> Loader:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Ends the threads; waits for them unless the run is being torn down."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads if kind is None else ():
            thread.join()

    def take(self, *, wait: bool) -> Prepared | None:
        """The next clip that is ready; see `Source`. Raises what finding the tasks raised."""
        while True:
            with self._changed:
                while wait and not self._ready and self._working and not self._stopped():
                    self._changed.wait(_SIGNAL_S)
                if self._error is not None:
                    raise self._error
                if not self._ready or self._stopped():
                    return None
                seconds, ready = self._ready.popleft()
                self._audio_s -= seconds
                self._changed.notify_all()
            if isinstance(ready, Prepared):
                return ready
            self._deliver(ready)

    def _work(self) -> None:
        try:
            while not self._closed:
                with self._turn:
                    if (task := next(self._tasks, None)) is None:
                        return
                for ready in self._prepare(task):
                    if not self._put(ready):
                        return
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _put(self, ready: Ready) -> bool:
        """Waits for room; returns False once the loader is closed."""
        with self._changed:
            while not self._closed and self._audio_s >= self._limit_s:
                self._changed.wait()
            seconds = ready.run.clip.duration_s if isinstance(ready, Prepared) else _LEAST_S
            self._ready.append((seconds, ready))
            self._audio_s += seconds
            self._changed.notify_all()
            return not self._closed


def prepare(captioner: Captioner, task: Task) -> Iterator[Ready]:
    """From a task to clips that only need decoding: read, compared with what is known, cut, turned into prompts.

    It is called from several threads at once. Raises nothing: whatever is wrong with a recording is its outcome.
    """
    item, setup, pieces = task.item, item_setup(task.item, captioner.setup, captioner.config), None
    try:
        recording = None if task.done else captioner.recording(item)
        skip = task.entry.found_in(recording) if task.entry and recording else frozenset[int]()
        if recording is None or len(skip) == len(recording.cuts):
            yield Outcome(item)
            return
        captioned = task.entry is not None and bool(skip) and task.entry.captioned
        pieces = _Pieces(item, setup, len(recording.cuts) - len(skip), captioned=captioned)
        for run in captioner.runs_of(recording, item, skip, setup):
            pieces.begun += 1
            yield Prepared(pieces.end, run) if run.error is None else pieces.end(run.clip, run.error)
    except Exception as unforeseen:
        error = typed(unforeseen, _log)
        line = setup.error_line(item.path, error, sha256=item.content_of(error))
        line = line.model_copy(update={"start_s": item.start_s, "end_s": item.end_s, "id": item.id})
        # with pieces, the file changed between the two passes over it
        yield Outcome(item, line) if pieces is None else pieces.add(line, pieces.count - pieces.begun)


class _Pieces:
    """Those pieces of one recording, `count` of them, that are not `captioned` yet, until all are."""

    def __init__(self, item: InputFile, setup: Setup, count: int, *, captioned: bool) -> None:
        self._item, self._setup, self._left, self._captioned = item, setup, count, captioned
        self._turn = threading.Lock()
        self.count, self.begun = count, 0

    def end(self, clip: Clip, result: Transcript | SpecdecError) -> Outcome:
        """Takes what became of a piece."""
        if isinstance(result, SpecdecError):
            result = self._setup.error_line(clip.file, result, clip)
        return self.add(result if self._item.id is None else result.model_copy(update={"id": self._item.id}), 1)

    def add(self, line: Transcript, pieces: int) -> Outcome:
        """Takes the line of so many pieces."""
        with self._turn:
            self._left -= pieces
            self._captioned |= line.good
            return Outcome(self._item, line, not self._left, self._captioned)


def item_setup(item: InputFile, setup: Setup, config: Config) -> Setup:
    """The setup of a run with an item's own language and instruction."""
    language, instruction = item.language_and_prompt(config)
    if (language, instruction) == (setup.language, setup.prompt):
        return setup
    shipped = config.prompt.text is None and instruction == config.instruction(language)
    style = config.prompt.style if shipped else None
    return replace(setup, language=language, prompt=instruction, settings={**setup.settings, "style": style})
