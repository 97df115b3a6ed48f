"""Recordings: from any file that holds sound to finite mono samples at the model's rate, or a typed refusal.

    files       opens a path that may be anything, hashes it, words names and hints
    containers  tells formats apart by their first bytes
    chunks, streams  find out whether the file is cut short, from the lengths that its format states
    sndfile, ffmpeg  the two decoders, each an iterator of blocks
    mono        blocks of any rate and channel count to mono at one rate
    content     refuses what has nothing to describe: too short, silent, not finite
    segment     cuts what is longer than a model's window

Nothing here imports torch. The decoders are imported when a file needs them.
"""

from specdec_cli.audio.content import MAX_DURATION_S, MIN_DURATION_S, SILENCE_DBFS, check_content
from specdec_cli.audio.recording import Recording, load_audio
from specdec_cli.audio.segment import Segment, segments

__all__ = [
    "MAX_DURATION_S",
    "MIN_DURATION_S",
    "SILENCE_DBFS",
    "Recording",
    "Segment",
    "check_content",
    "load_audio",
    "segments",
]
