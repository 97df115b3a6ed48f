"""A batch on this machine: threads that read and prepare recordings, and one loaded pair that decodes many clips."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from specdec_cli.batch.in_flight import BatchCaptioner, Prepared
from specdec_cli.batch.loader import Loader, Ready
from specdec_cli.batch.tasks import Deliver, Outcome, Stopped, Task
from specdec_cli.errors import SpecdecError, typed
from specdec_cli.inputs.recording import InputFile
from specdec_cli.run import Setup
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import Clip

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.config import Config

_log = logging.getLogger(__name__)


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
        self._prepare, self._workers = Preparer(captioner), workers
        self._captioner = BatchCaptioner(captioner, batch_size, in_flight)

    def run(self, tasks: Iterable[Task], deliver: Deliver, stopped: Stopped) -> None:
        """See `Backend`. Tasks are taken in threads of its own; outcomes are delivered in the caller's."""
        prepare = self._prepare
        with Loader(tasks, prepare, deliver, stopped, workers=self._workers, most_s=prepare.most_s) as loader:
            for prepared, result in self._captioner.run(loader):
                deliver(prepared.ended(prepared.run.clip, result))


class Preparer:
    """From a task to clips that only need decoding: read, compared with what is known, cut, turned into prompts.

    It is called from several threads at once.
    """

    def __init__(self, captioner: Captioner) -> None:
        self._captioner = captioner

    @property
    def most_s(self) -> float:
        """Audio that one call holds at most, what it has given left out, seconds."""
        return min(self._captioner.config.audio.length_s or math.inf, self._captioner.window_s)

    def __call__(self, task: Task) -> Iterator[Ready]:
        """What a task gives. Raises nothing: whatever is wrong with a recording is its outcome."""
        setup, config = self._captioner.setup, self._captioner.config
        try:
            if task.done:
                yield Outcome.before(task)
                return
            own, recording = item_setup(task.item, setup, config), self._captioner.recording(task.item)
        except Exception as error:
            yield error_outcome(task.item, typed(error, _log), setup, config)
            return
        skip = task.entry.found_in(recording) if task.entry else frozenset[int]()
        if len(skip) == len(recording.cuts):
            yield Outcome.before(task)
            return
        captioned = task.entry.captioned if task.entry and skip else 0
        pieces = _Pieces(task.item, own, len(recording.cuts), len(skip), captioned)
        try:
            for run in self._captioner.runs_of(recording, task.item, skip, own):
                pieces.begin()
                yield Prepared(pieces.end, run) if run.error is None else pieces.end(run.clip, run.error)
        except Exception as error:  # the file changed between the two passes over it
            yield pieces.give_up(Clip(recording.path, recording.sha256, recording.duration_s), typed(error, _log))


class _Pieces:
    """The pieces of one recording but for those that are `done`, until all are; `captioned` of these have captions."""

    def __init__(self, item: InputFile, setup: Setup, count: int, done: int, captioned: int) -> None:
        self._item, self._setup, self._count, self._captioned = item, setup, count, captioned
        self._to_begin = self._left = count - done
        self._spoilt = captioned < done
        self._turn = threading.Lock()

    def begin(self) -> None:
        """Another piece is about to be captioned."""
        with self._turn:
            self._to_begin -= 1

    def end(self, clip: Clip, result: Transcript | SpecdecError) -> Outcome:
        """Takes what became of a piece."""
        return self._end(clip, result, 1)

    def give_up(self, rest: Clip, error: SpecdecError) -> Outcome:
        """Ends the pieces that were not begun."""
        return self._end(rest, error, self._to_begin)

    def _end(self, clip: Clip, result: Transcript | SpecdecError, pieces: int) -> Outcome:
        if isinstance(result, SpecdecError):
            result = self._setup.error_line(clip.file, result, clip)
        with self._turn:
            self._left -= pieces
            lines, last = (_named(result, self._item),), not self._left
            outcome = Outcome(self._item, lines, last, self._spoilt, self._captioned, self._count)
            self._spoilt = outcome.failed
            self._captioned += result.error is None
        return outcome


def item_setup(item: InputFile, setup: Setup, config: Config) -> Setup:
    """The setup of a run with an item's own language and instruction."""
    language, instruction = item.language_and_prompt(config)
    if (language, instruction) == (setup.language, setup.prompt):
        return setup
    shipped = config.prompt.text is None and instruction == config.instruction(language)
    style = config.prompt.style if shipped else None
    return replace(setup, language=language, prompt=instruction, settings={**setup.settings, "style": style})


def error_outcome(item: InputFile, error: SpecdecError, setup: Setup, config: Config) -> Outcome:
    """The outcome of an item that could not be captioned at all."""
    line = item_setup(item, setup, config).error_line(item.path, error, sha256=item.content_of(error))
    if item.start_s is not None:
        line = line.model_copy(update={"start_s": item.start_s, "end_s": item.end_s})
    return Outcome(item, (_named(line, item),))


def _named(line: Transcript, item: InputFile) -> Transcript:
    return line if item.id is None else line.model_copy(update={"id": item.id})
