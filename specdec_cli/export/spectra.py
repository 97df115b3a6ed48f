"""The sound of a recording as a picture shows it: mel spectrogram, F0 and level. The only importer of librosa."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from specdec_cli import interrupts
from specdec_cli.audio.prosody import HOP, LEAD, SAMPLE_RATE, f0_contour
from specdec_cli.errors import AudioError
from specdec_cli.pages.sound import SoundUnavailable, pieces_of

COLUMNS: Final = 2000  # most values of a row
BANDS: Final = 80
SOFTEST_DBFS: Final = -70.0
_WINDOW: Final = 512  # samples of a spectrum: 32 ms
_FIRST: Final = 16  # samples that a spectrum has to have, and a little more

Values = npt.NDArray[np.floating]


class SoundRow(NamedTuple):
    """The sound between two times. Values are `step_s` apart, the first at `start_s`."""

    start_s: float
    step_s: float
    mel_db: Values  # power of mel bands [bands, frames], dB
    f0_hz: Values  # NaN in unvoiced frames [frames]
    level_dbfs: Values  # [frames]


def rows_of(
    path: str, sha256: str, edges: Sequence[tuple[float, float]], channel: int | None, track: int | None
) -> Iterator[SoundRow]:
    """The sound of a recording between given times, s, which follow each other; one row is in memory at a time.

    `sha256`: of the recording that was captioned. `channel` and `track` are 1-based; None: the mean of all channels,
    and the default track. Parts without sound have no row.

    Raises:
        AudioError: the recording is gone, cannot be read, or is not the one that was captioned.
    """
    try:
        for piece in pieces_of(path, sha256, edges, channel, track):
            if len(piece.samples) >= _FIRST:
                yield _row(piece.samples, piece.start_s)
    except SoundUnavailable as error:
        hint = "A picture shows the sound: run the command where the recordings are, as they were captioned."
        raise AudioError(f"{path}: {error}", hint=hint) from error


def _librosa() -> tuple[Callable[..., Values], Callable[..., Values]]:
    """Its mel spectrogram and level. Its import compiles code, which takes up to half a minute on a busy machine."""
    from librosa.feature import melspectrogram, rms

    return melspectrogram, rms


def _row(samples: npt.NDArray[np.float32], start_s: float) -> SoundRow:
    melspectrogram, rms = interrupts.wait_for(_librosa)
    hop = max(HOP, math.ceil(len(samples) / COLUMNS))
    mel = melspectrogram(y=samples, sr=SAMPLE_RATE, n_fft=_WINDOW, hop_length=hop, n_mels=BANDS)
    level = rms(y=samples, frame_length=max(_WINDOW, 2 * hop), hop_length=hop)[0]
    f0 = f0_contour(np.pad(samples, (LEAD, LEAD + hop)), hop)
    f0 = np.pad(f0, (0, max(0, len(level) - len(f0))), constant_values=np.nan)[: len(level)]
    return SoundRow(start_s, hop / SAMPLE_RATE, _decibels(mel), f0, 2 * _decibels(level))


def _decibels(power: Values) -> Values:
    return np.asarray(10.0 * np.log10(np.maximum(power, 1e-9)))
