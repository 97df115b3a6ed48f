"""The channel for F0: what is in it passes every layer untouched, and the last MLP reads it out amplified."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.nn import functional
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from tests.training.conftest import tone
from training import f0_channel
from training.corpus import Waveform
from training.f0_channel import (
    AMPLITUDE,
    Channel,
    find_channel,
    fit_softmax,
    open_channel,
    pooled_states,
    protect,
    read_f0,
)
from training.f0_targets import BINS, OUTPUTS
from training.features import log_mel
from training.tower import build_tower, encode, pad_mels

LAYERS = 2
COMPONENTS = 6


@pytest.fixture(scope="module")
def tones() -> list[Waveform]:
    """Tones of a second, 90 to 400 Hz, with half a second of faint noise behind some of them."""
    rng = np.random.default_rng(0)
    frequencies = np.geomspace(90.0, 400.0, 24)
    clips = [tone(float(frequency), 1.0) for frequency in frequencies]
    noise = (1e-3 * rng.standard_normal(8_000)).astype(np.float32)
    return [np.concatenate([clip, noise]) if number % 3 == 0 else clip for number, clip in enumerate(clips)]


def _tower(seed: int = 0) -> Qwen2_5OmniAudioEncoder:
    torch.manual_seed(seed)
    tower = build_tower(LAYERS).eval()
    with torch.no_grad():  # norms that do nothing would hide a reading that forgets them
        for layer in tower.layers:
            layer.final_layer_norm.weight.uniform_(0.5, 1.5)
            layer.final_layer_norm.bias.normal_()
    return tower


@pytest.fixture(scope="module", autouse=True)
def _long_fits() -> Iterator[None]:
    """A second of tones is few tokens: more passes over them make up for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f0_channel, "EPOCHS", 60)
        yield


@pytest.fixture(scope="module")
def channel(tones: list[Waveform], _long_fits: None) -> Channel:
    return find_channel(_tower(), tones, COMPONENTS, seed=1)


def test_softmax_regression_finds_what_made_the_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f0_channel, "EPOCHS", 8)
    torch.manual_seed(0)
    states = torch.randn(60_000, 20) * torch.linspace(0.1, 10.0, 20) + 3.0
    made = torch.randn(5, 20) / torch.linspace(0.1, 10.0, 20)
    targets = functional.one_hot(((states - 3.0) @ made.T).argmax(dim=1), 5).float()
    weight, bias = fit_softmax(states, targets, seed=0)
    right = (states @ weight.T + bias).argmax(dim=1) == targets.argmax(dim=1)
    assert right.float().mean() > 0.95


def test_the_basis_is_orthonormal_and_the_code_of_unit_variance(tones: list[Waveform], channel: Channel) -> None:
    assert torch.allclose(channel.basis.T @ channel.basis, torch.eye(COMPONENTS), atol=1e-4)
    assert torch.allclose(channel.basis @ (channel.basis.T @ channel.code.T), channel.code.T, atol=1e-3)
    states, _ = pooled_states(_tower(), tones, layers=0)
    read = (states - states.mean(dim=1, keepdim=True)) @ channel.code.T
    assert torch.allclose(read.T.cov(), torch.eye(COMPONENTS), atol=0.02)
    # layer norms take a state's mean away, so nothing may be read from it
    assert channel.code.sum(dim=1).abs().max() < 1e-3


def test_what_is_in_the_channel_passes_all_layers_and_varies_as_others_do_at_the_top(
    tones: list[Waveform], channel: Channel
) -> None:
    tower = _tower()
    mels, lengths = pad_mels([log_mel(clip) for clip in tones[:3]])
    with torch.no_grad():
        before = [encode(tower, mels, lengths, layers=count)[0] @ channel.basis for count in range(LAYERS + 1)]
        open_channel(tower, channel, tones)
        after = [encode(tower, mels, lengths, layers=count)[0] @ channel.basis for count in range(LAYERS + 1)]
    for count in range(1, LAYERS):
        assert torch.allclose(after[count], before[0], atol=1e-3)
        assert not torch.allclose(before[count], before[0], atol=1e-1)
    passed, top = (pooled_states(tower, tones, layers=count)[0] for count in (0, LAYERS))
    inside, written = top @ channel.basis, (top - passed) @ channel.basis
    others = (top - inside @ channel.basis.T).std(dim=0).median()
    assert torch.allclose(written.std(dim=0), (AMPLITUDE * others).expand(COMPONENTS), rtol=1e-2)
    assert written.mean(dim=0).abs().max() < 0.05 * others


def test_the_last_mlp_writes_the_code_of_its_normed_input(tones: list[Waveform], channel: Channel) -> None:
    tower = _tower()
    open_channel(tower, channel, tones)
    last = tower.layers[-1]
    states = 3.0 * torch.randn(50, 512) + 1.0
    with torch.no_grad():
        written = last.fc2(functional.gelu(last.fc1(last.final_layer_norm(states)))) @ channel.basis
    read = functional.layer_norm(states, (512,)) @ channel.code.T
    for component in range(COMPONENTS):  # but for a factor and a constant
        both = torch.stack([written[:, component], read[:, component]])
        assert torch.corrcoef(both)[0, 1] > 0.999


def test_protecting_leaves_everything_outside_the_channel(channel: Channel) -> None:
    tower, untouched = _tower(), _tower()
    protect(tower, channel.basis)
    outside = torch.eye(512) - channel.basis @ channel.basis.T
    for layer, plain in zip(tower.layers, untouched.layers, strict=True):
        for module, same in ((layer.self_attn.out_proj, plain.self_attn.out_proj), (layer.fc2, plain.fc2)):
            assert torch.allclose(outside @ module.weight, outside @ same.weight, atol=1e-4)
    assert torch.equal(tower.layers[-1].fc2.weight, untouched.layers[-1].fc2.weight)
    again = {name: value.clone() for name, value in tower.state_dict().items()}
    protect(tower, channel.basis)
    assert all(torch.allclose(value, again[name], atol=1e-5) for name, value in tower.state_dict().items())


def test_a_head_reads_f0_from_the_top(tones: list[Waveform], channel: Channel) -> None:
    tower = _tower()
    open_channel(tower, channel, tones)
    norm, f0 = torch.nn.LayerNorm(512), torch.nn.Linear(512, OUTPUTS)
    deviation = f0.weight[BINS:].detach().clone()
    read_f0(tower, norm, f0, tones, seed=2)
    states, targets = pooled_states(tower, tones, layers=LAYERS)
    voiced = targets[:, 0] == 0
    with torch.no_grad():
        said = f0(norm(states))[voiced, :BINS].argmax(dim=1)
    assert (said - targets[voiced].argmax(dim=1)).abs().float().median() <= 1.0
    assert torch.equal(f0.weight[BINS:], deviation)
