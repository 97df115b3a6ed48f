"""A batch on this machine: threads that read and prepare recordings, and one loaded pair that decodes many clips."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from specdec_cli.audio.files import refusal
from specdec_cli.batch.begun import DIED, Note, died
from specdec_cli.batch.decode import BatchCaptioner, Prepared
from specdec_cli.batch.loader import Loader, Ready
from specdec_cli.batch.plan import is_done
from specdec_cli.batch.tasks import Begun, Deliver, Outcome, Stopped, Task
from specdec_cli.errors import AudioDecodeError, AudioError, SpecdecError, typed
from specdec_cli.inputs.recording import InputFile
from specdec_cli.prompts import prompt_for
from specdec_cli.run import Setup
from specdec_cli.transcript.schema import Transcript
from specdec_cli.types import Clip

if TYPE_CHECKING:
    from specdec_cli.audio import Recording
    from specdec_cli.captioner import Captioner
    from specdec_cli.config import PromptConfig

_log = logging.getLogger(__name__)


class LocalBackend:
    """Captions tasks with one captioner.

    Args:
        captioner: the loaded models.
        batch_size: most clips decoded together; None: as many as pays.
        workers: threads that read ahead.
        begun: notes what is being decoded; None: nothing is noted.
    """

    def __init__(
        self, captioner: Captioner, *, batch_size: int | None, workers: int, begun: Note | None = None
    ) -> None:
        self._prepare = Preparer(captioner, begun)
        self._decoder = BatchCaptioner(captioner, batch_size)
        self._workers = workers

    def run(self, tasks: Iterable[Task], deliver: Deliver, stopped: Stopped) -> None:
        """See `Backend`. Tasks are taken in threads of its own; outcomes are delivered in the caller's."""
        with Loader(tasks, self._prepare, workers=self._workers, most_s=self._prepare.most_s) as loader:
            for prepared, result in self._decoder.run(_ShortestFirst(loader, deliver, stopped)):
                deliver(prepared.ended(prepared.run.clip, result))


class _ShortestFirst:
    """Clips to decode, the shorter first among what is ready at a time, so that none waits for a full window.

    What needs no decoding is delivered on the way.
    """

    def __init__(self, loader: Loader, deliver: Deliver, stopped: Stopped) -> None:
        self._loader, self._deliver, self._stopped = loader, deliver, stopped
        self._clips: list[Prepared] = []  # the shortest last

    def take(self, *, wait: bool) -> Prepared | None:
        """See `Source`."""
        while not self._clips and (taken := self._loader.take(self._stopped, wait=wait)):
            for ready in taken:
                if isinstance(ready, Prepared):
                    self._clips.append(ready)
                else:
                    self._deliver(ready)
            self._clips.sort(key=lambda prepared: prepared.run.clip.duration_s, reverse=True)
        if not self._clips or self._stopped():
            return None
        prepared = self._clips.pop()
        self._loader.release(prepared)
        return prepared


class Preparer:
    """From a task to clips that only need decoding: read, compared with what is known, cut, turned into prompts.

    It is called from several threads at once. Arguments are as for `LocalBackend`.
    """

    def __init__(self, captioner: Captioner, begun: Note | None = None) -> None:
        self._captioner = captioner
        self._begun = begun

    @property
    def most_s(self) -> float:
        """Audio that one call holds at most beside what it has given, seconds."""
        return min(self._captioner.config.audio.length_s or math.inf, self._captioner.window_s)

    def __call__(self, task: Task) -> Iterator[Ready]:
        """What a task gives. Raises nothing: whatever is wrong with a recording is its outcome."""
        if is_done(task):
            yield Outcome(task.item)
            return
        ours, prompt = self._captioner.setup, self._captioner.config.prompt
        if self._begun is None:
            yield from self._prepared(task, ours, prompt)
        elif (error := self._deadly(task.item.path)) is not None:
            yield error_outcome(task.item, error, ours, prompt)
        else:
            with self._begun.decoding(task.item.path):
                yield from self._prepared(task, ours, prompt)

    def _deadly(self, path: str) -> SpecdecError | None:
        """Why a recording is not decoded in this process, if one was killed while it decoded it, and would be again."""
        if self._begun is None or path not in self._begun.suspects:
            return None
        ours = self._captioner
        how = {"sampling_rate": ours.sampling_rate, "window_s": ours.window_s, "segment_s": self.most_s}
        if (number := died({"path": path, **how})) is None:
            return None
        hint = "It is damaged, or needs more memory than there is. Convert it with: {convert}"
        return refusal(AudioDecodeError, path, f"{DIED} (signal {number})", hint)

    def _prepared(self, task: Task, ours: Setup, prompt: PromptConfig) -> Iterator[Ready]:
        setup = item_setup(task.item, ours, prompt)
        try:
            recording = self._captioner.recording(task.item)
        except Exception as error:
            yield error_outcome(task.item, typed(error, _log), ours, prompt)
            return
        skip = _captioned(recording, task.begun)
        if len(skip) == len(recording.cuts):
            yield Outcome(task.item)
            return
        pieces = _Pieces(task.item, setup, len(recording.cuts) - len(skip))
        try:
            for run in self._captioner.runs_of(recording, task.item, skip, setup):
                pieces.begin()
                yield Prepared(pieces.end, run) if run.error is None else pieces.end(run.clip, run.error)
        except Exception as error:  # the file changed between the two passes over it
            yield pieces.give_up(Clip(recording.path, recording.sha256, recording.duration_s), typed(error, _log))


class _Pieces:
    """The `left` pieces of one recording that are to be captioned, until all are."""

    def __init__(self, item: InputFile, setup: Setup, left: int) -> None:
        self._item, self._setup, self._left = item, setup, left
        self._to_begin = left
        self._spoilt = False
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
            outcome = Outcome(self._item, (_named(result, self._item),), last=not self._left, spoilt=self._spoilt)
            self._spoilt = outcome.failed
        return outcome


def _captioned(recording: Recording, begun: Begun | None) -> frozenset[int]:
    """Indices of the pieces that have captions already, of the same content cut at the same places."""
    if begun is None or begun.sha256 != recording.sha256:
        return frozenset()
    places = [(round(cut.start_s, 4), round(cut.end_s, 4)) for cut in recording.cuts]
    return frozenset(index for index, place in enumerate(places) if place in begun.places)


def item_setup(item: InputFile, setup: Setup, prompt: PromptConfig) -> Setup:
    """The setup of a run with an item's own language and instruction."""
    asked = item.asked(prompt)
    if asked == (setup.language, setup.prompt):
        return setup
    language, instruction = asked
    style = prompt.style if instruction == prompt_for(language, prompt.style) else None
    return replace(setup, language=language, prompt=instruction, settings={**setup.settings, "style": style})


def error_outcome(item: InputFile, error: SpecdecError, setup: Setup, prompt: PromptConfig) -> Outcome:
    """The outcome of an item that could not be captioned at all."""
    told = item.explained(error) if isinstance(error, AudioError) else error
    line = item_setup(item, setup, prompt).error_line(item.path, told)
    if item.start_s is not None:
        line = line.model_copy(update={"start_s": item.start_s, "end_s": item.end_s})
    return Outcome(item, (_named(line, item),))


def _named(line: Transcript, item: InputFile) -> Transcript:
    return line if item.id is None else line.model_copy(update={"id": item.id})
