"""Stand-ins for recordings and models, with which a command takes milliseconds and everything else is as ever."""

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Self

import numpy as np
import soundfile

from specdec_cli.audio import Recording
from specdec_cli.captioning.job import Job
from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.tasks import Outcome, Stopped
from specdec_cli.cli.caption import _OneByOne
from specdec_cli.console.view import View
from specdec_cli.errors import DecodingError, SpecdecError
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.opening import RecordingReader
from specdec_cli.inputs.recording import InputFile
from specdec_cli.run import Run
from specdec_cli.transcript import Started, Transcript, error_transcript
from specdec_cli.transcript.records import ModelInfo, Models
from specdec_cli.transcript.updates import Update

RATE = 16_000
UNIT_S = 0.2
SOUNDS = {"ann": "vv", "bob": "vv", "carl": "vv", "dora": "vvv", "eve": "vs", "mute": "ss", "noise": "", "cut": ""}
"""Name of a content -> its units of 0.2 s: voice or silence. Those without units are no recordings."""

Asked = tuple[str, str | None, float]
"""A piece that a model is given: name of the file, id of its row, start in seconds."""


@cache
def sound(name: str) -> bytes:
    """The bytes of a file with a content."""
    if not SOUNDS[name]:
        return b"RIFF" + bytes(40) if name == "noise" else b""
    rng = np.random.default_rng(sorted(SOUNDS).index(name))
    voiced = np.repeat([unit == "v" for unit in SOUNDS[name]], round(UNIT_S * RATE))
    samples = 0.1 * rng.standard_normal(len(voiced)) * voiced
    file = io.BytesIO()
    soundfile.write(file, samples.astype(np.float32), RATE, format="WAV")
    return file.getvalue()


def digest(name: str) -> str:
    """SHA-256 of a content, hexadecimal."""
    return hashlib.sha256(sound(name)).hexdigest()


def caption(sha256: str, start_s: float, k: object) -> str:
    """What a model writes: nothing but what a caption depends on."""
    return f"{sha256[:8]} from {start_s:g} s with {k}."


class StandInRun(Run):
    """The captioning of a clip. `ask` is called when it begins, and may raise what a model raises."""

    def __init__(self, clip: Started, error: SpecdecError | None, ask: Callable[[Started], None]) -> None:
        self.started, self.error, self.prompts, self._ask = clip, error, None, ask

    def updates(self, engine: object = None) -> Iterator[Update]:
        if self.error is not None:
            raise self.error
        self._ask(self.started)
        yield from ()

    def finish(self, engine: object = None) -> Transcript:
        assert self.started.sha256 is not None
        text = caption(self.started.sha256, self.started.start_s or 0.0, self.started.settings["k"])
        known = {**dict(self.started), "error": DecodingError("none")}
        return error_transcript(**known).model_copy(update={"error": None, "caption": text, "finish_reason": "eos"})


class StandIn:
    """A captioner: it opens, checks and cuts recordings as the real one does, and then asks no model.

    Attributes:
        asked: pieces that a model was given, in order.
        fails: contents (SHA-256) whose captioning fails, but for the last of several pieces.
    """

    def __init__(self, job: Job, asked: list[Asked], fails: frozenset[str], begin: Callable[[], None]) -> None:
        self.cuts, self.asked, self.fails = Cuts.of_config(job.config.audio), asked, fails
        self._begin = begin
        self.reader = RecordingReader(job.config.audio, self.cuts, RATE, 30.0)
        model = ModelInfo(name=job.config.edge.label if job.config.edge else "", dtype="float32", device="cpu")
        self.shared = replace(job.shared, models=Models(edge=model, cloud=None))

    def runs_of(self, recording: Recording, item: InputFile, skip: Iterable[int] = ()) -> Iterator[StandInRun]:
        digest = None if self.cuts is None else self.cuts.digest(recording.path)
        for piece in recording.pieces(frozenset(skip)):
            clip = self.shared.started(recording, piece, item, digest)
            yield StandInRun(clip, piece.fault, self._ask)

    def _ask(self, clip: Started) -> None:
        self.asked.append((clip.file.rpartition("/")[2], clip.id, clip.start_s or 0.0))
        self._begin()
        last = clip.pieces is not None and clip.piece == clip.pieces - 1
        if clip.sha256 in self.fails and not last:
            raise DecodingError("the model fails")


class Engine(_OneByOne):
    """Captions for a command, recording by recording: `after` is called with each outcome once it is written."""

    def __init__(self, job: Job, view: View, captioner: StandIn, after: Callable[[Outcome], None]) -> None:
        super().__init__(job, view)
        self._stand_in, self._after = captioner, after

    def __enter__(self) -> Self:
        list(self.job.earlier())
        self.captioner = self._stand_in
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def outcomes(self, tasks: Iterable[Task], stopped: Stopped) -> Iterator[Outcome]:
        for outcome in super().outcomes(tasks, stopped):
            yield outcome
            self._after(outcome)
