"""Runs what is not captioned yet, mode by mode on one clip after the other, and keeps the transcripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from specdec_cli.errors import AudioError, SpecdecError, TranscriptError, typed
from specdec_cli.evaluate.modes import Turn, turns
from specdec_cli.evaluate.stored_runs import StoredRuns
from specdec_cli.inputs.recording import InputFile
from specdec_cli.store import Watch
from specdec_cli.transcript.records import Transcript
from specdec_cli.transcript.terms import Terms
from specdec_cli.types import Mode

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner


Step = Turn[InputFile, Mode]


class Runner:
    """Takes steps and keeps their transcripts, which are made with the `terms` of each mode."""

    def __init__(self, terms: Mapping[Mode, Terms], journal: StoredRuns, watch: Watch) -> None:
        self._terms = terms
        self._journal = journal
        self._watch = watch
        self._broken: set[str] = set()

    def refuse_unreadable(self, recordings: Sequence[InputFile]) -> None:
        """Keeps the error of every recording that could not even be read."""
        for recording in recordings:
            if recording.error is not None:
                self._refuse(recording, recording.error)

    def steps(self, recordings: Sequence[InputFile], repeats: int) -> list[Step]:
        """What there is to do, in the order in which to do it; a segmented recording is looked into again."""
        readable = [recording for recording in recordings if recording.sha256 is not None]
        return [
            step
            for step in turns(readable, list(self._terms), repeats)
            if self._journal.repeats(whole := (step.recording.sha256 or "", None), step.mode) <= step.repeat
            and not self._journal.refused(whole, step.mode)
        ]

    def warm_up(self, steps: Sequence[Step], captioners: Mapping[Mode, Captioner]) -> None:
        """Captions the first recording that can be once in every mode, and keeps nothing of it.

        A first run allocates memory and picks kernels; that would be charged to whichever mode comes first.
        """
        for recording in dict.fromkeys(step.recording for step in steps):
            with suppress(SpecdecError):
                for captioner in captioners.values():
                    next(captioner.captions(recording.path))
                return

    def run(self, steps: Sequence[Step], captioners: Mapping[Mode, Captioner]) -> None:
        """Takes all steps. What is wrong with one recording is kept and never costs the next one.

        Raises:
            TranscriptError: a transcript cannot be written, which the next one would not change.
        """
        self._watch.begin(len(steps))
        for step in steps:
            if step.recording.path not in self._broken:
                self._watch.step(f"{step.mode} {step.recording.path}")
                self._take(step, captioners[step.mode])
            self._watch.advance()

    def _take(self, step: Step, captioner: Captioner) -> None:
        try:
            for transcript in self._transcripts(step, captioner):
                self._journal.add(transcript)
        except TranscriptError:
            raise
        except AudioError as error:
            self._refuse(step.recording, error)
        except Exception as error:
            known = typed(error)
            self._watch.failed(f"{step.recording.path} ({step.mode})", known)
            recording, models = step.recording, captioner.setup.models
            self._journal.add(self._terms[step.mode].error_line(recording.path, known, models, recording.sha256))

    def _transcripts(self, step: Step, captioner: Captioner) -> Iterator[Transcript]:
        """One transcript for each segment of a recording that is not captioned yet."""
        for run in captioner.runs(step.recording.path):
            if self._journal.repeats((run.clip.sha256, run.clip.start_s), step.mode) <= step.repeat:
                yield run.finish()

    def _refuse(self, recording: InputFile, error: AudioError) -> None:
        """A recording that is broken is so in every mode."""
        self._broken.add(recording.path)
        self._watch.failed(recording.path, error)
        for terms in self._terms.values():
            self._journal.add(terms.error_line(recording.path, error, sha256=recording.sha256))
