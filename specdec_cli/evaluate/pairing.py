"""From transcripts in any order to clips that every compared mode captioned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from specdec_cli.evaluate.result import ClipError
from specdec_cli.transcript.records import Transcript, TranscriptHead
from specdec_cli.types import Mode

ClipKey = tuple[str, tuple[float, float | None, int | None] | None]
"""What one clip is: the SHA-256 of its recording, and start, end (s) and channel in it; None for the whole of it."""

PairedClip = dict[Mode, list[Transcript]]
"""One clip: at least one transcript a mode; several are repeats, of which the first counts, but for times."""


def middle_of(repeats: Iterable[float | None]) -> float:
    """The median of a figure over repeats; NaN where none was measured."""
    measured = [value for value in repeats if value is not None]
    return median(measured) if measured else float("nan")


def clip_key(clip: TranscriptHead) -> ClipKey:
    """Which clip a transcript is of; a recording that could not be read is known by its path."""
    place = None if clip.start_s is None else (clip.start_s, clip.end_s, clip.channel)
    return clip.sha256 or clip.file, place


def pair(transcripts: Iterable[Transcript], modes: Sequence[Mode]) -> tuple[list[PairedClip], list[ClipError], int]:
    """Sorts transcripts by clip and mode, in the order in which clips appear.

    A mode that failed and later succeeded, as after a memory that ran out, has succeeded. Modes other than `modes`
    are left out.

    Returns:
        Clips that every mode captioned, those that some mode could not, and how many some mode has yet to caption.
    """
    clips: dict[ClipKey, PairedClip] = {}
    for transcript in transcripts:
        if transcript.mode in modes:
            runs = clips.setdefault(clip_key(transcript), {mode: [] for mode in modes})
            runs[transcript.mode].append(transcript)
    paired, failures = [], []
    for runs in clips.values():
        good = {mode: [run for run in own if run.error is None] for mode, own in runs.items()}
        failed = {mode: own[-1] for mode, own in runs.items() if own and not good[mode]}
        if all(good.values()):
            paired.append(good)
        elif failed:
            first = next(iter(failed.values()))
            error = first.error.model_dump() if first.error else {}
            failures.append(ClipError(file=first.file, start_s=first.start_s, modes=list(failed), **error))
    return paired, failures, len(clips) - len(paired) - len(failures)
