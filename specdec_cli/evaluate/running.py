"""Runs what is not captioned yet, mode by mode on one clip after the other, and keeps transcripts to resume from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specdec_cli.errors import AudioContentError, AudioDecodeError, AudioError, SpecdecError, TranscriptError, typed
from specdec_cli.evaluate.modes import Turn, turns
from specdec_cli.evaluate.pairing import ClipKey, clip_key
from specdec_cli.inputs.recording import InputFile
from specdec_cli.store import Store, Watch, made_otherwise
from specdec_cli.targets import TRANSCRIPTS
from specdec_cli.transcript.records import ErrorInfo, Transcript
from specdec_cli.transcript.terms import Terms, loaded_changes
from specdec_cli.types import Mode

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.run import Setup

Step = Turn[InputFile, Mode]
_FINAL: Final = frozenset({AudioDecodeError.__name__, AudioContentError.__name__})


class StoredRuns(Store):
    """Transcripts of a comparison.

    Args:
        path: see the base.
        terms: mode -> what transcripts must have been made with to count. Those of other modes are left alone, and a
            failure under other terms is tried again.
        overwrite: read nothing; `clear` drops what the file holds.

    Attributes:
        transcripts: what was read and counts, and what was added.

    Raises:
        ConfigError: a caption of one of the modes was made with other settings; names them.
        TranscriptError: as the base.
    """

    def __init__(
        self, path: Path | None = None, terms: Mapping[Mode, Terms] | None = None, *, overwrite: bool = False
    ) -> None:
        self.transcripts: list[Transcript] = []
        self._terms = terms or {}
        self._line_numbers: list[int] = []  # of the first transcripts, which were read
        self._done: Counter[tuple[ClipKey, Mode]] = Counter()
        self._failures: defaultdict[tuple[ClipKey, Mode], set[ErrorInfo]] = defaultdict(set)
        super().__init__(path, TRANSCRIPTS, read=not overwrite)

    def add(self, transcript: Transcript) -> None:
        """Keeps a transcript, and appends it to the file; a failure that stands there already is not written again."""
        if transcript.error is None or transcript.error not in self._failures[clip_key(transcript), transcript.mode]:
            self.append(transcript.to_json())
        self._take(transcript)

    def require_models(self, recorded: Mapping[Mode, Transcript | Setup]) -> None:
        """Refuses to mix what was read with captions of other models than those that are loaded now, by a ConfigError.

        `recorded`: what captions of each mode will record of weights, number formats and devices.
        """
        for number, transcript in zip(self._line_numbers, self.transcripts, strict=False):
            now = recorded.get(transcript.mode)
            if transcript.error is not None or now is None:
                continue
            if changed := list(loaded_changes(transcript, now)):
                raise made_otherwise(self.path, number, changed)

    def repeats(self, clip: ClipKey, mode: Mode) -> int:
        """How often a mode has captioned a clip."""
        return self._done[clip, mode]

    def refused(self, clip: ClipKey, mode: Mode) -> bool:
        """Whether a recording is known to be broken: its bytes are the same, so it would be again."""
        return any(error.type in _FINAL for error in self._failures[clip, mode])

    def of(self, recordings: Sequence[InputFile]) -> list[Transcript]:
        """The transcripts of `recordings`, in their order, each recording's by their place in it.

        A recording that was moved since it was captioned is named as it is now.
        """
        order = {recording.sha256 or recording.path: index for index, recording in enumerate(recordings)}
        found = [(order[key], run) for run in self.transcripts if (key := clip_key(run)[0]) in order]
        found.sort(key=lambda each: (each[0], each[1].start_s or 0.0))
        return [run.model_copy(update={"file": recordings[index].path}) for index, run in found]

    def _read(self) -> None:
        for line in self._lines():
            transcript = Transcript.from_json(line.raw, f"{self.path}:{line.number}")
            if (wanted := self._terms.get(transcript.mode)) is None:
                continue
            good = transcript.error is None  # a broken recording came to no model
            changed = list(wanted.changes(transcript, models=good))
            if changed and good:
                raise made_otherwise(self.path, line.number, changed)
            if not changed:
                self._take(transcript)
                self._line_numbers.append(line.number)

    def _take(self, transcript: Transcript) -> None:
        self.transcripts.append(transcript)
        if transcript.error is None:
            self._done[clip_key(transcript), transcript.mode] += 1
        else:
            self._failures[clip_key(transcript), transcript.mode].add(transcript.error)


class Runner:
    """Takes steps and keeps their transcripts, which are made with the `terms` of each mode."""

    def __init__(self, terms: Mapping[Mode, Terms], journal: StoredRuns, watch: Watch) -> None:
        self._terms = terms
        self._journal = journal
        self._watch = watch
        self._broken: set[str] = set()

    def steps(self, recordings: Sequence[InputFile], repeats: int) -> list[Step]:
        """What there is to do, in the order in which to do it; a segmented recording is looked into again."""
        readable = [recording for recording in recordings if recording.sha256 is not None]
        return [
            step
            for step in turns(readable, list(self._terms), repeats)
            if self._journal.repeats(whole := (step.recording.sha256 or "", None), step.mode) <= step.repeat
            and not self._journal.refused(whole, step.mode)
        ]

    def _warm_up(self, steps: Sequence[Step], captioners: Mapping[Mode, Captioner]) -> None:
        """Captions the first recording that can be once in every mode, and keeps nothing of it.

        A first run allocates memory and picks kernels; that would be charged to whichever mode comes first.
        """
        for recording in dict.fromkeys(step.recording for step in steps):
            with suppress(SpecdecError):
                for captioner in captioners.values():
                    next(captioner.captions(recording.path))
                return

    def run(self, recordings: Sequence[InputFile], steps: Sequence[Step], captioners: Mapping[Mode, Captioner]) -> None:
        """Takes all steps. What is wrong with one recording is kept and never costs the next one.

        Raises:
            TranscriptError: a transcript cannot be written, which the next one would not change.
        """
        for recording in recordings:
            if recording.error is not None:
                self._refuse(recording, recording.error)
        if not steps:
            return
        self._warm_up(steps, captioners)
        self._watch.begin(len(steps))
        for step in steps:
            if step.recording.path not in self._broken:
                self._watch.step(f"{step.mode} {step.recording.path}")
                self._take(step, captioners[step.mode])
            self._watch.advance()

    def _take(self, step: Step, captioner: Captioner) -> None:
        """Captions every segment of a recording that is not captioned yet."""
        recording = step.recording
        try:
            for run in captioner.runs(recording.path):
                if self._journal.repeats((run.clip.sha256, run.clip.start_s), step.mode) <= step.repeat:
                    self._journal.add(run.finish())
        except TranscriptError:
            raise
        except AudioError as error:
            self._refuse(recording, error)
        except Exception as error:
            known = typed(error)
            self._watch.failed(f"{recording.path} ({step.mode})", known)
            self._journal.add(captioner.error_line(recording, known))

    def _refuse(self, recording: InputFile, error: AudioError) -> None:
        """A recording that is broken is so in every mode."""
        self._broken.add(recording.path)
        self._watch.failed(recording.path, error)
        for terms in self._terms.values():
            self._journal.add(terms.error_line(recording, error))
