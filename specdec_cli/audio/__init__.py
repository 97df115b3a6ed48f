"""Recordings: from any file that holds sound to finite mono samples at the model's rate, or a typed error.

Nothing here imports torch. Memory does not grow with the length of a recording: at most one window of samples is kept,
and a longer recording is decoded again as its pieces are read.
"""

from specdec_cli.audio.load import Recording, from_samples, open_recording
from specdec_cli.audio.samples import AudioPiece, Cut
from specdec_cli.audio.speech import has_speech

__all__ = ["AudioPiece", "Cut", "Recording", "from_samples", "has_speech", "open_recording"]
