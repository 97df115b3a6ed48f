"""From transcripts in any order to clips that every compared mode captioned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specdec_cli.evaluate.result import ClipError
from specdec_cli.transcript.records import Transcript, TranscriptHead
from specdec_cli.types import Mode

ClipKey = tuple[str, tuple[float, float | None, int | None] | None]
"""The key of a clip: the SHA-256 of its recording, and start, end (s) and channel in it; None for the whole of it."""

PairedClip = dict[Mode, Transcript]
"""One clip: its transcript in each mode."""


def clip_key(clip: TranscriptHead) -> ClipKey:
    """The clip of a transcript; a recording that could not be read is identified by its path."""
    place = None if clip.start_s is None else (clip.start_s, clip.end_s, clip.channel)
    return clip.sha256 or clip.file, place


def pair(transcripts: Iterable[Transcript], modes: Sequence[Mode]) -> tuple[list[PairedClip], list[ClipError], int]:
    """Sorts transcripts by clip and mode, in the order in which clips appear.

    The first caption of a mode is used, also after a failure. Modes other than `modes` are left out.

    Returns:
        Clips that every mode captioned, those that some mode could not, and how many some mode has yet to caption.
    """
    clips: dict[ClipKey, PairedClip] = {}
    for transcript in transcripts:
        if transcript.mode in modes:
            runs = clips.setdefault(clip_key(transcript), {})
            if transcript.mode not in runs or runs[transcript.mode].error is not None:
                runs[transcript.mode] = transcript
    paired, failures = [], []
    for found in clips.values():
        runs = {mode: found[mode] for mode in modes if mode in found}
        failed = {mode: run.error for mode, run in runs.items() if run.error is not None}
        if failed:
            about, error = next(iter(runs.values())), next(iter(failed.values()))
            failures.append(
                ClipError(
                    file=about.file, start_s=about.start_s, modes=[*failed], type=error.type, message=error.message
                )
            )
        elif len(runs) == len(modes):
            paired.append(runs)
    return paired, failures, len(clips) - len(paired) - len(failures)
