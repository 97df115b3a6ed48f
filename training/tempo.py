"""Faster or slower speech at the same pitch, by overlap-add of similar waveform pieces (WSOLA, Verhelst 1993)."""

from __future__ import annotations

from typing import Final

import numpy as np

from training.corpus import Waveform

WINDOW: Final = 512
"""Samples (32 ms) of a piece; pieces overlap by half."""
SEARCH: Final = 160
"""Samples (10 ms) by which a piece may move to fit the one before it."""


def change_tempo(waveform: Waveform, tempo: float) -> Waveform:
    """`waveform` spoken `tempo` times as fast; clips shorter than two windows are returned as they are."""
    hop = WINDOW // 2
    count = int((len(waveform) - WINDOW - 2 * SEARCH) / (hop * tempo))
    if count < 2:
        return waveform
    window = np.hanning(WINDOW + 1)[:-1].astype(np.float32)
    output = np.zeros((count + 1) * hop, dtype=np.float32)
    previous = SEARCH
    for index in range(count):
        start = int(index * hop * tempo) + SEARCH
        if index:
            # what would follow the previous piece naturally; the new piece should look like it
            natural = waveform[previous + hop : previous + hop + WINDOW]
            region = waveform[start - SEARCH : start + SEARCH + WINDOW]
            if len(natural) == WINDOW and len(region) == WINDOW + 2 * SEARCH:
                start += int(np.correlate(region[::2], natural[::2], "valid").argmax()) * 2 - SEARCH
        piece = waveform[start : start + WINDOW]
        output[index * hop : index * hop + len(piece)] += (piece * window[: len(piece)])[: len(output) - index * hop]
        previous = start
    return output
