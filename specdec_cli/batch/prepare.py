"""From a task to clips that only need decoding: read, compared with what is known, cut, turned into prompts."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specdec_cli.audio.files import refusal
from specdec_cli.batch.begun import DIED, Begun, died
from specdec_cli.batch.decode import Prepared
from specdec_cli.batch.plan import is_done
from specdec_cli.batch.tasks import Outcome, Task
from specdec_cli.errors import AudioDecodeError, AudioError, SpecdecError, typed
from specdec_cli.inputs.recording import InputFile
from specdec_cli.prompts import prompt_for
from specdec_cli.run import Clip, Setup
from specdec_cli.transcript.schema import Transcript

if TYPE_CHECKING:
    from specdec_cli.audio import Segment
    from specdec_cli.captioner import Captioner
    from specdec_cli.config import PromptConfig

_log = logging.getLogger(__name__)


class Gathering:
    """The transcripts of one recording's segments, until all are there.

    Args:
        item: the recording.
        setup: what its transcripts say of the run.
        count: number of segments.
    """

    def __init__(self, item: InputFile, setup: Setup, count: int) -> None:
        self._item = item
        self._setup = setup
        self._lines: dict[int, Transcript] = {}
        self._count = count

    def add(self, index: int, clip: Clip, result: Transcript | SpecdecError) -> Outcome | None:
        """Takes what became of a segment; returns the recording's outcome if it was the last."""
        if isinstance(result, SpecdecError):
            result = self._setup.error_line(clip.file, result, clip)
        self._lines[index] = _named(result, self._item)
        if len(self._lines) < self._count:
            return None
        return Outcome(self._item, tuple(self._lines[index] for index in range(self._count)))


@dataclass(frozen=True, slots=True)
class Part:
    """A segment's place in its recording."""

    of: Gathering
    index: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A segment that there is nothing to decode of."""

    part: Part
    clip: Clip
    error: SpecdecError


Ready = Prepared | Refused | Outcome
"""What a task gives: its segments, or its outcome where nothing needs decoding. The key of a Prepared is a Part."""


class Preparer:
    """Prepares tasks for one captioner. Called from several threads at once.

    Args:
        captioner: the loaded models.
        begun: notes what is being decoded; None: nothing is noted.
    """

    def __init__(self, captioner: Captioner, begun: Begun | None = None) -> None:
        self._captioner = captioner
        self._begun = begun

    @property
    def most_s(self) -> float:
        """Audio that one call holds at most beside what it has given, seconds."""
        segment_s = self._captioner.config.audio.segment_s
        return self._captioner.window_s if segment_s is None else min(segment_s, self._captioner.window_s)

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
        captioner = self._captioner
        how = {"sampling_rate": captioner.sampling_rate, "window_s": captioner.window_s}
        number = died({"path": path, **how, "segment_s": captioner.config.audio.segment_s})
        if number is None:
            return None
        hint = "It is damaged, or needs more memory than there is. Convert it with: {convert}"
        return refusal(AudioDecodeError, path, f"{DIED} (signal {number})", hint)

    def _prepared(self, task: Task, ours: Setup, prompt: PromptConfig) -> Iterator[Ready]:
        setup = item_setup(task.item, ours, prompt)
        try:
            recording = self._captioner.recording(task.item.path)
        except Exception as error:
            yield error_outcome(task.item, typed(error, _log), ours, prompt)
            return
        gathering, index = Gathering(task.item, setup, recording.count), 0
        try:
            for clip, cut, decode_s in self._captioner.clips(recording):
                yield self._piece(Part(gathering, index), clip, cut, decode_s, setup)
                index += 1
        except Exception as error:  # the file changed between the two passes over it
            rest = Clip(recording.path, recording.sha256, recording.duration_s)
            yield from (Refused(Part(gathering, at), rest, typed(error, _log)) for at in range(index, recording.count))

    def _piece(self, part: Part, clip: Clip, cut: Segment, decode_s: float, setup: Setup) -> Prepared | Refused:
        if (refused := self._captioner.refusal(clip, cut)) is not None:
            return Refused(part, clip, refused)
        started = time.perf_counter()
        try:
            prompts = self._captioner.prompts(cut.samples, setup.prompt)
        except Exception as error:
            return Refused(part, clip, typed(error, _log))
        return Prepared(part, clip, prompts, decode_s + time.perf_counter() - started, setup)


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
    return Outcome(item, (_named(line, item),))


def _named(line: Transcript, item: InputFile) -> Transcript:
    return line if item.id is None else line.model_copy(update={"id": item.id})
