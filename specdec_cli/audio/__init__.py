"""Recordings: from any file that holds sound to finite mono samples at the model's rate, or a typed refusal.

    files    opens a path that may be anything, hashes it, words names and hints
    search   finds the recordings in a folder
    decode   opens a recording with libsndfile or FFmpeg, as blocks of samples, and refuses what is cut short
    mix      converts the blocks to mono at the model's rate
    checks   refuses what has nothing to describe: too short, silent, not finite
    segment  cuts what is longer than a model's window, while it is decoded
    load     Recording, and the functions that open one

Nothing here imports torch. The decoders are imported when a file needs them. Memory does not grow with the length of a
recording: at most one window of samples is kept, and a longer recording is decoded again as its pieces are read.
"""

from specdec_cli.audio.checks import MAX_DURATION_S, MIN_DURATION_S, SILENCE_DBFS, check_samples
from specdec_cli.audio.load import Recording, load_audio, open_recording
from specdec_cli.audio.segment import Segment

__all__ = [
    "MAX_DURATION_S",
    "MIN_DURATION_S",
    "SILENCE_DBFS",
    "Recording",
    "Segment",
    "check_samples",
    "load_audio",
    "open_recording",
]
