"""From transcripts in any order to clips that every compared mode captioned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from specdec_cli.evaluate.result import ClipError
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import Mode

ClipKey = tuple[str, float | None]
"""What one clip is: the SHA-256 of its recording, and where in it the clip begins, s; None for the whole of it."""


@dataclass(frozen=True, slots=True)
class PairedClip:
    """One clip: at least one transcript a mode; several are repeats, in the order in which they were made."""

    runs: dict[Mode, tuple[Transcript, ...]]

    @property
    def about(self) -> Transcript:
        """Any of its transcripts: file, length and place are the same in all."""
        return next(iter(self.runs.values()))[0]

    def first(self, mode: Mode) -> Transcript:
        """The transcript of a mode that counts for everything but times."""
        return self.runs[mode][0]

    def middle(self, mode: Mode, figure: Callable[[Transcript], float | None]) -> float:
        """The median of a figure over repeats; NaN where none was measured."""
        measured = [value for run in self.runs[mode] if (value := figure(run)) is not None]
        return median(measured) if measured else float("nan")

    @property
    def unstable(self) -> bool:
        """Whether the caption is not the same in every repeat though nothing was drawn at random."""
        greedy = [runs for runs in self.runs.values() if not runs[0].settings.get("temperature")]
        return any(len({run.caption for run in runs}) > 1 for runs in greedy)


@dataclass(frozen=True, slots=True)
class Pairing:
    """Clips that every mode captioned, those that some mode could not, and how many some mode has yet to caption."""

    clips: list[PairedClip]
    failures: list[ClipError]
    unfinished: int


def clip_key(transcript: Transcript) -> ClipKey:
    """Which clip a transcript is of; a recording that could not be read is known by its path."""
    return transcript.sha256 or transcript.file, transcript.start_s


def pair(transcripts: Iterable[Transcript], modes: Sequence[Mode]) -> Pairing:
    """Sorts transcripts by clip and mode, in the order in which clips appear.

    A mode that failed and later succeeded, as after a memory that ran out, has succeeded. Modes other than `modes`
    are left out.
    """
    done: dict[ClipKey, dict[Mode, list[Transcript]]] = {}
    failed: dict[ClipKey, dict[Mode, Transcript]] = {}
    for transcript in transcripts:
        if transcript.mode not in modes:
            continue
        runs = done.setdefault(clip_key(transcript), {})
        if transcript.error is None:
            runs.setdefault(transcript.mode, []).append(transcript)
        else:
            failed.setdefault(clip_key(transcript), {})[transcript.mode] = transcript
    clips: list[PairedClip] = []
    failures: list[ClipError] = []
    unfinished = 0
    for key, runs in done.items():
        errors = {mode: error for mode, error in failed.get(key, {}).items() if mode not in runs}
        if all(mode in runs for mode in modes):
            clips.append(PairedClip({mode: tuple(runs[mode]) for mode in modes}))
        elif errors:
            failures.append(_failure(errors, [mode for mode in modes if mode in errors]))
        else:
            unfinished += 1
    return Pairing(clips, failures, unfinished)


def _failure(errors: dict[Mode, Transcript], modes: list[Mode]) -> ClipError:
    first = next(iter(errors.values()))
    assert first.error is not None  # that is what makes it a failure
    return ClipError(
        file=first.file, start_s=first.start_s, modes=modes, type=first.error.type, message=first.error.message
    )
