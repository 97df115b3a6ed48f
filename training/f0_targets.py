"""Targets of F0 for each audio token: F0 in soft bins of a semitone, and its deviation from the clip's median.

A Whisper encoder drops F0 with depth, because words do not need it. A tower that keeps it lets a decoder read pitch by
attending, and intonation too: the mean deviation over a clip is nearly as good a measure of it as percentiles are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch.nn import functional

from specdec_cli.audio.prosody import F0_RANGE_HZ, f0_contour
from training.corpus import Waveform

VOICED_BINS: Final = 40
"""Bin i is centred i semitones above the tracker's lowest F0."""
BINS: Final = 1 + VOICED_BINS
"""The first is unvoiced."""
OUTPUTS: Final = BINS + 1
"""What a head predicts per token: logits of the bins, then the scaled deviation."""
BLUR_ST: Final = 0.8
"""Standard deviation of a voiced target: neighbouring bins are nearly right."""
FARTHEST_ST: Final = 8.0
"""Deviations are clipped here: larger ones are mostly the tracker's octave errors."""
DEVIATION_SCALE_ST: Final = 2.0
_HOP: Final = 640
"""Samples of an audio token (40 ms)."""
_LEAD: Final = 208
"""Zeros before the clip: the tracker's first frame is centred at 23 ms, an audio token's states at 10 ms."""
_TAIL: Final = 2048


@dataclass(frozen=True)
class F0Targets:
    """Targets of a clip's tokens: `bins` (tokens, BINS), probabilities; `deviation` (tokens,), NaN where unvoiced."""

    bins: torch.Tensor
    deviation: torch.Tensor


def f0_targets(waveform: Waveform, tokens: int) -> F0Targets:
    """Targets of the first `tokens` audio tokens of a clip (mono, 16 kHz)."""
    contour = f0_contour(np.pad(waveform, (_LEAD, _TAIL)), _HOP)[:tokens]
    f0 = torch.full((tokens,), torch.nan)
    f0[: len(contour)] = torch.from_numpy(contour).float()
    semitones = 12.0 * torch.log2(f0 / F0_RANGE_HZ[0])
    distance = (torch.arange(VOICED_BINS) - semitones[:, None]) / BLUR_ST
    voiced = (-0.5 * distance.square()).softmax(dim=-1).nan_to_num(0.0)
    deviation = (semitones - semitones.nanmedian()).abs().clamp_max(FARTHEST_ST) / DEVIATION_SCALE_ST
    return F0Targets(torch.cat([f0.isnan().float()[:, None], voiced], dim=-1), deviation)


def f0_loss(predicted: torch.Tensor, waveforms: Sequence[Waveform], lengths: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the bins, mean over all tokens of a batch, plus Huber loss of the deviation, mean over voiced.

    Args:
        predicted: what a head says of each token, (batch, tokens, OUTPUTS).
        waveforms: the clips.
        lengths: tokens of each clip, (batch,); what follows is padding.
    """
    bins = torch.zeros(*predicted.shape[:-1], BINS)
    deviation = torch.full(predicted.shape[:-1], torch.nan)
    for row, waveform, length in zip(range(len(waveforms)), waveforms, lengths.tolist(), strict=True):
        targets = f0_targets(waveform, length)
        bins[row, :length], deviation[row, :length] = targets.bins, targets.deviation
    predicted = predicted.float()
    missed = -(bins * predicted[..., :BINS].log_softmax(dim=-1)).sum() / lengths.sum()
    known = ~deviation.isnan()
    return missed + functional.smooth_l1_loss(predicted[..., BINS][known], deviation[known], reduction="sum") / (
        known.sum().clamp_min(1)
    )
