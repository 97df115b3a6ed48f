"""Recordings: from any file with sound to finite mono samples at the models' rate, or an AudioError.

Nothing here imports torch. Memory does not grow with the length of a recording: at most one window of samples is kept,
and a longer recording is decoded again while its pieces are read.
"""

from specdec_cli.audio.recordings import Recording, from_samples, open_recording
from specdec_cli.audio.samples import AudioPiece, Cut
from specdec_cli.audio.speech import has_speech

__all__ = ["AudioPiece", "Cut", "Recording", "from_samples", "has_speech", "open_recording"]
