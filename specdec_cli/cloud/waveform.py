"""A recording as bytes that give back the very same samples."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Final

import numpy as np
import numpy.typing as npt
import soundfile

_FULL_SCALE: Final = 1 << 15


def data_url(samples: npt.NDArray[np.float32], rate: int) -> str:
    """Mono samples [n] of full scale 1.0 at `rate` Hz as a `data:` address that holds them without loss.

    FLAC where they are numbers of 16 bits, as those of a 16-bit recording at this rate are; else WAV of 32-bit floats.
    """
    scaled = samples * np.float32(_FULL_SCALE)  # a power of two: exact
    whole = scaled.astype(np.int16)
    buffer = BytesIO()
    if np.array_equal(whole.astype(np.float32), scaled):
        soundfile.write(buffer, whole, rate, format="FLAC", subtype="PCM_16")
        kind = "flac"
    else:
        soundfile.write(buffer, samples, rate, format="WAV", subtype="FLOAT")
        kind = "wav"
    return f"data:audio/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
