"""What tokens should tell of F0: on tones it is known, and the loss counts what is there and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.training.conftest import tone
from training.corpus import Waveform
from training.f0_targets import BINS, OUTPUTS, f0_loss, f0_targets

SECOND = 25
"""Audio tokens."""


def _tones(*frequencies: float) -> Waveform:
    return np.concatenate(
        [tone(frequency, 1.0) if frequency else np.zeros(16_000) for frequency in frequencies]
    ).astype(np.float32)


def test_a_tone_is_in_the_bin_of_its_semitone() -> None:
    targets = f0_targets(_tones(220.0), SECOND)
    # 220 Hz is 21.1 semitones above 65 Hz; the first bin is unvoiced
    assert (targets.bins[1:-1].argmax(dim=-1) == 1 + 21).all()
    assert torch.allclose(targets.bins.sum(dim=-1), torch.ones(SECOND), atol=1e-5)
    assert targets.deviation[1:-1].max() < 0.1


def test_targets_lie_where_the_sound_is() -> None:
    targets = f0_targets(_tones(0.0, 150.0, 0.0), 3 * SECOND)
    voiced = (targets.bins[:, 0] == 0).nonzero()[:, 0]
    assert int(voiced[0]) == pytest.approx(SECOND, abs=1)
    assert int(voiced[-1]) == pytest.approx(2 * SECOND - 1, abs=1)
    assert torch.equal(targets.deviation.isnan(), targets.bins[:, 0] == 1)


def test_deviation_is_from_the_median_and_clipped() -> None:
    near = f0_targets(_tones(200.0, 200.0, 300.0), 3 * SECOND).deviation
    assert near[2:48].max() < 0.1
    assert near[53:72].median().item() == pytest.approx(12 * np.log2(1.5) / 2.0, abs=0.1)  # in steps of two semitones
    far = f0_targets(_tones(100.0, 100.0, 300.0), 3 * SECOND).deviation
    assert far[53:72].median().item() == 4.0


def test_a_clip_with_more_tokens_than_sound_ends_unvoiced() -> None:
    targets = f0_targets(np.zeros(0, np.float32), 60)
    assert (targets.bins[:, 0] == 1).all()
    assert targets.bins.shape == (60, BINS)


def test_the_loss_is_least_for_the_targets_and_ignores_padding() -> None:
    waveforms = [_tones(150.0), _tones(150.0, 0.0)]
    lengths = torch.tensor([SECOND, 2 * SECOND])
    right = torch.zeros(2, 2 * SECOND, OUTPUTS)
    for row, waveform, length in zip(right, waveforms, lengths.tolist(), strict=True):
        targets = f0_targets(waveform, length)
        row[:length, :BINS] = targets.bins.clamp_min(1e-6).log()
        row[:length, BINS] = targets.deviation.nan_to_num(5.0)  # unvoiced: says nothing
    entropy = f0_loss(right, waveforms, lengths)
    wrong = right.clone()
    wrong[0, SECOND:] = 7.0
    assert torch.equal(f0_loss(wrong, waveforms, lengths), entropy)
    wrong[0, 5, BINS] += 1.0
    voiced = sum(int((~f0_targets(waveform, 50).deviation.isnan()).sum()) for waveform in waveforms)
    assert float(f0_loss(wrong, waveforms, lengths) - entropy) == pytest.approx(0.5 / voiced, rel=0.1)
    assert f0_loss(right.roll(3, dims=-1), waveforms, lengths) > entropy + 1.0


def test_a_silent_batch_has_a_finite_loss() -> None:
    predicted = torch.zeros(1, SECOND, OUTPUTS, requires_grad=True)
    loss = f0_loss(predicted, [np.zeros(16_000, np.float32)], torch.tensor([SECOND]))
    torch.autograd.backward(loss)
    assert loss.item() == pytest.approx(np.log(BINS), abs=1e-4)
    assert predicted.grad is not None
    assert bool((predicted.grad[..., BINS] == 0).all())
