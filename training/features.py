"""Whisper's log-mel features at a clip's own length: the first frames of `WhisperFeatureExtractor`'s padded ones."""

from __future__ import annotations

from functools import cache
from typing import Final

import torch
from transformers.audio_utils import mel_filter_bank

from training.corpus import SAMPLE_RATE, Waveform

FFT: Final = 400
HOP: Final = 160
MEL_BINS: Final = 80


@cache
def _filters() -> torch.Tensor:
    filters = mel_filter_bank(
        num_frequency_bins=1 + FFT // 2,
        num_mel_filters=MEL_BINS,
        min_frequency=0.0,
        max_frequency=8000.0,
        sampling_rate=SAMPLE_RATE,
        norm="slaney",
        mel_scale="slaney",
    )
    return torch.from_numpy(filters).float().T.contiguous()


@cache
def _window() -> torch.Tensor:
    return torch.hann_window(FFT)


def log_mel(waveform: Waveform) -> torch.Tensor:
    """Features of one clip, shape (80, ceil(samples / 160)): log10 power, clamped at the maximum - 8, (x + 4) / 4.

    Zeros follow the clip, so the last frames equal those of a clip padded to the extractor's window.
    """
    frames = -(-len(waveform) // HOP)
    samples = torch.zeros(frames * HOP + 2 * FFT)
    samples[: len(waveform)] = torch.from_numpy(waveform)
    spectrum = torch.stft(samples, FFT, HOP, window=_window(), return_complex=True)[:, :frames].abs().square()
    mel = torch.log10((_filters() @ spectrum).clamp_min(1e-10))
    return (torch.maximum(mel, mel.max() - 8.0) + 4.0) / 4.0


def pooled_length(mel_frames: int) -> int:
    """Audio tokens of a clip of `mel_frames` frames: a stride-2 convolution, then pairs averaged (25 a second)."""
    return ((mel_frames - 1) // 2 + 1 - 2) // 2 + 1
