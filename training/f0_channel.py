"""A channel for F0 through the audio tower: a subspace of its states that no layer overwrites.

A linear map of the convolutions' output of a Whisper encoder gives F0 to half a semitone; each layer then overwrites
some of that. If layers are kept out of the few directions that hold F0, it reaches the top unharmed. The last layer's
MLP amplifies it there: gelu(z) - gelu(-z) = z, so two of its units carry one component exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn
from torch.nn import functional
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from training.corpus import Waveform
from training.f0_targets import BINS, f0_targets
from training.feature_cache import batches_by_length
from training.features import log_mel
from training.tower import encode, pad_mels

AMPLITUDE: Final = 1.5
"""How much a direction of the channel varies at the top, by the median of all other directions' deviations."""
EPOCHS: Final = 8
RATE: Final = 3e-3
BATCH: Final = 512


@dataclass(frozen=True)
class Channel:
    """`basis`: (width, components), orthonormal, the directions kept free; `code`: (components, width), what to read
    in them: independent components of F0's log-odds, of unit variance over centred states."""

    basis: torch.Tensor
    code: torch.Tensor


def pooled_states(
    tower: Qwen2_5OmniAudioEncoder, waveforms: Sequence[Waveform], layers: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """States after the first `layers` layers and the targets' bins of all clips' tokens, (tokens, width) and
    (tokens, `f0_targets.BINS`)."""
    states: list[torch.Tensor] = []
    targets: list[torch.Tensor] = []
    for members in batches_by_length(waveforms):
        batch = [waveforms[member] for member in members]
        mels, lengths = pad_mels([log_mel(waveform) for waveform in batch])
        with torch.no_grad():
            found, valid = encode(tower, mels, lengths, layers=layers)
        for row, waveform, length in zip(found, batch, valid.tolist(), strict=True):
            states.append(row[:length])
            targets.append(f0_targets(waveform, length).bins)
    return torch.cat(states), torch.cat(targets)


def fit_softmax(states: torch.Tensor, targets: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax regression of soft `targets` (tokens, classes) on `states` (tokens, width): weight and bias."""
    mean, deviation = states.mean(dim=0), states.std(dim=0) + 1e-5
    scaled = (states - mean) / deviation
    generator = torch.Generator().manual_seed(seed)
    weight = torch.zeros(targets.shape[1], states.shape[1], requires_grad=True)
    bias = torch.zeros(targets.shape[1], requires_grad=True)
    optimiser = torch.optim.AdamW([weight, bias], lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda epoch: 1.0 - epoch / EPOCHS)
    for _ in range(EPOCHS):
        for part in torch.split(torch.randperm(len(scaled), generator=generator), BATCH):
            optimiser.zero_grad()
            torch.autograd.backward(functional.cross_entropy(scaled[part] @ weight.T + bias, targets[part]))
            optimiser.step()
        schedule.step()
    fitted = weight.detach() / deviation
    return fitted, bias.detach() - fitted @ mean


def find_channel(tower: Qwen2_5OmniAudioEncoder, waveforms: Sequence[Waveform], components: int, seed: int) -> Channel:
    """The directions of the convolutions' output that tell F0, learned from `waveforms`: the principal components of
    the log-odds of a softmax regression. All are orthogonal to the mean over a state's entries, which layer norms
    take away."""
    states, targets = pooled_states(tower, waveforms, layers=0)
    centred = states - states.mean(dim=1, keepdim=True)
    weight, _ = fit_softmax(centred, targets, seed)
    weight = weight - weight.mean(dim=0)
    weight = weight - weight.mean(dim=1, keepdim=True)
    odds = (centred - centred.mean(dim=0)) @ weight.T
    variances, directions = torch.linalg.eigh(odds.T @ odds / len(odds))
    code = (directions[:, -components:] / variances[-components:].sqrt()).T @ weight
    return Channel(torch.linalg.qr(code.T).Q, code)


def protect(tower: Qwen2_5OmniAudioEncoder, basis: torch.Tensor) -> None:
    """Take out of every layer's output what it would write along `basis`; the last MLP, the amplifier, stays."""
    for layer in tower.layers:
        _clear(layer.self_attn.out_proj, basis)
    for layer in tower.layers[:-1]:
        _clear(layer.fc2, basis)


def _clear(written: nn.Linear, basis: torch.Tensor) -> None:
    with torch.no_grad():
        written.weight.sub_(basis @ (basis.T @ written.weight))
        written.bias.sub_(basis @ (basis.T @ written.bias))


def open_channel(tower: Qwen2_5OmniAudioEncoder, channel: Channel, waveforms: Sequence[Waveform]) -> None:
    """Clear `channel` in all layers, and let the least used units of the last MLP amplify what is in it, so that over
    `waveforms` its components vary about their mean as `AMPLITUDE` says."""
    basis, components = channel.basis, channel.basis.shape[1]
    last = tower.layers[-1]
    norm, inner, outer = last.final_layer_norm, last.fc1, last.fc2
    protect(tower, basis)
    _clear(outer, basis)
    with torch.no_grad():
        least = (inner.weight.norm(dim=1) * outer.weight.norm(dim=0)).argsort()[: 2 * components]
        read = channel.code / norm.weight
        plus, minus = least[:components], least[components:]
        for units, sign in ((plus, 1.0), (minus, -1.0)):
            inner.weight[units] = sign * read
            inner.bias[units] = -sign * (read @ norm.bias)
            outer.weight[:, units] = sign * basis
        passed, _ = pooled_states(tower, waveforms, layers=0)
        states, _ = pooled_states(tower, waveforms, layers=len(tower.layers))
        written = (states - passed) @ basis
        others = (states - states @ basis @ basis.T).std(dim=0).median()
        factor = AMPLITUDE * others / written.std(dim=0)
        outer.weight[:, plus] *= factor
        outer.weight[:, minus] *= factor
        outer.bias.sub_(basis @ (factor * written.mean(dim=0)))


def read_f0(
    tower: Qwen2_5OmniAudioEncoder, norm: nn.LayerNorm, f0: nn.Linear, waveforms: Sequence[Waveform], seed: int
) -> None:
    """Set the rows of a head's `f0` that name bins to what tells F0 best from the tower's top states under `norm`."""
    states, targets = pooled_states(tower, waveforms, layers=len(tower.layers))
    with torch.no_grad():
        normed = norm(states)
    weight, bias = fit_softmax(normed, targets, seed)
    with torch.no_grad():
        f0.weight[:BINS], f0.bias[:BINS] = weight, bias
