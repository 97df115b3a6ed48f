"""Runs the modes in turns on clips that are not captioned yet, and keeps transcripts to resume from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specdec_cli import interrupts
from specdec_cli.errors import (
    AudioContentError,
    AudioDecodeError,
    AudioError,
    SpecdecError,
    TranscriptError,
    WrongFileError,
    as_specdec_error,
)
from specdec_cli.evaluate.modes import turns
from specdec_cli.evaluate.pairing import ClipKey, clip_key
from specdec_cli.inputs.recording import InputFile
from specdec_cli.journal import Accepts, Change, Journal, StoredLine, Watch
from specdec_cli.targets import TRANSCRIPTS
from specdec_cli.transcript.records import Transcript
from specdec_cli.transcript.shared import SharedFields, made_by
from specdec_cli.types import Mode

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner

Step = tuple[InputFile, Mode]
"""A recording to caption in a mode."""
_FINAL: Final = frozenset({AudioDecodeError.__name__, AudioContentError.__name__})


def accepting(shared: Mapping[Mode, SharedFields]) -> Accepts[Transcript]:
    """Settings and weights with which transcripts of each mode must have been made to be used.

    Those of other modes are left alone, and a failure under other settings is tried again.
    """

    def accepts(run: Transcript) -> Iterable[Change] | None:
        changes = list(shared[run.mode].changes(run)) if run.mode in shared else None
        return None if changes and run.error is not None else changes

    return accepts


class StoredRuns(Journal[Transcript]):
    """Transcripts of a comparison, those of its file and those added; arguments as in the base class."""

    def __init__(self, path: Path | None, accepts: Accepts[Transcript], *, overwrite: bool = False) -> None:
        self.transcripts: list[Transcript] = []
        self._modes = set[Mode]()  # of all lines
        self._runs: defaultdict[tuple[ClipKey, Mode], list[Transcript]] = defaultdict(list)
        super().__init__(path, TRANSCRIPTS, accepts, overwrite=overwrite)

    def _read(self) -> None:
        super()._read()
        if len(self._modes) == 1:  # each recording is captioned in all modes before the next one
            hint = "A comparison has a file of its own: name a new one."
            raise WrongFileError(f"{self.path} has captions of one mode, as caption and batch write them.", hint=hint)

    def parsed(self, line: StoredLine) -> Transcript:
        """The whole transcript."""
        found = Transcript.from_json(line.raw, f"{self.path}:{line.number}")
        self._modes.add(found.mode)
        return found

    def take(self, entry: Transcript) -> str | None:
        """Adds a transcript to the runs of its clip."""
        self.transcripts.append(entry)
        self._runs[clip_key(entry), entry.mode].append(entry)
        return made_by(entry)

    def add(self, transcript: Transcript) -> None:
        """Keeps a transcript, and appends it to the file; a failure that it already holds is not written again."""
        known = (run.error for run in self._runs[clip_key(transcript), transcript.mode])
        if transcript.error is None or transcript.error not in known:
            self.append(transcript.to_json())
        self.take(transcript)

    def captioned(self, clip: ClipKey, mode: Mode) -> bool:
        """Whether a mode has captioned a clip."""
        return any(run.error is None for run in self._runs[clip, mode])

    def refused(self, clip: ClipKey, mode: Mode) -> bool:
        """Whether a recording failed before in a way that the same bytes would fail again."""
        return any(run.error is not None and run.error.type in _FINAL for run in self._runs[clip, mode])

    def of(self, recordings: Sequence[InputFile]) -> list[Transcript]:
        """The transcripts of `recordings`, in the order of these, and by start within each.

        A recording that was moved since it was captioned is named as it is now.
        """
        order = {recording.sha256 or recording.path: index for index, recording in enumerate(recordings)}
        found = [(order[key], run) for run in self.transcripts if (key := clip_key(run)[0]) in order]
        found.sort(key=lambda each: (each[0], each[1].start_s or 0.0))
        return [run.model_copy(update={"file": recordings[index].path}) for index, run in found]


@dataclass
class Runner:
    """Takes steps and keeps their transcripts, which have the `shared` fields of each mode."""

    shared: Mapping[Mode, SharedFields]
    journal: StoredRuns
    watch: Watch
    _broken: set[str] = field(default_factory=set)

    def steps(self, recordings: Sequence[InputFile]) -> list[Step]:
        """The steps that are to be taken, in their order; a recording in pieces is always among them."""
        readable = [recording for recording in recordings if recording.sha256 is not None]

        def missing(recording: InputFile, mode: Mode) -> bool:
            whole = recording.sha256 or "", None
            return not (self.journal.captioned(whole, mode) or self.journal.refused(whole, mode))

        return [step for step in turns(readable, list(self.shared)) if missing(*step)]

    def run(self, recordings: Sequence[InputFile], steps: Sequence[Step], captioners: Mapping[Mode, Captioner]) -> None:
        """Takes all steps. The error of a recording is kept as its transcript, and the next recording is captioned.

        Raises:
            TranscriptError: a transcript cannot be written.
        """
        for recording in recordings:
            if recording.error is not None:
                self._refuse(recording, recording.error)
        if not steps:
            return
        _warm_up(steps, captioners)
        self.watch.begin(len(steps))
        for recording, mode in steps:
            if recording.path not in self._broken:
                self.watch.step(f"{mode} {recording.path}")
                self._take(recording, mode, captioners[mode])
            self.watch.advance()

    def _take(self, recording: InputFile, mode: Mode, captioner: Captioner) -> None:
        """Captions every piece of a recording that is not captioned yet."""
        try:
            for run in captioner.runs(recording.path):
                if not self.journal.captioned(clip_key(run.started), mode):
                    for _ in run if run.error is None else ():
                        interrupts.check()
                    self.journal.add(run.finish())
        except TranscriptError:
            raise
        except AudioError as error:
            self._refuse(recording, error)
        except Exception as error:
            interrupts.check()  # which may have ended a call
            known = as_specdec_error(error)
            self.watch.failed(f"{recording.path} ({mode})", known)
            self.journal.add(captioner.shared.error_line(recording, known))

    def _refuse(self, recording: InputFile, error: AudioError) -> None:
        """Keeps the error of a broken recording in every mode."""
        self._broken.add(recording.path)
        self.watch.failed(recording.path, error)
        for shared in self.shared.values():
            self.journal.add(shared.error_line(recording, error))


def _warm_up(steps: Sequence[Step], captioners: Mapping[Mode, Captioner]) -> None:
    """Captions the first recording that can be captioned once in every mode, and keeps nothing of it.

    A first run allocates memory and picks kernels; its time would be added to the mode that comes first.
    """
    for recording in dict.fromkeys(recording for recording, _ in steps):
        with suppress(SpecdecError):
            for captioner in captioners.values():
                interrupts.check()
                next(captioner.captions(recording.path))
            return
