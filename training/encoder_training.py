"""Fine-tuning of the audio tower, end to end: emotion, prosody classes and measures of a clip, F0 of its tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from training.augment import Example, Plan, Pool, draw_example
from training.f0_channel import find_channel, open_channel, protect, read_f0
from training.f0_targets import OUTPUTS, f0_loss
from training.features import log_mel
from training.labels import ATTRIBUTES, CLASSES, classify
from training.recipes import EncoderRecipe
from training.state import take_steps
from training.tower import encode, pad_mels

MEASURES: Final[dict[str, tuple[float, float]]] = {
    "f0_hz": (12.0 * math.log2(165.0), 6.0),
    "f0_range_st": (8.0, 3.0),
    "rate_syl_s": (4.8, 1.2),
    "level_dbfs": (-26.0, 8.0),
    "pause_ratio": (0.04, 0.06),
}
"""Measures that the head regresses, with centre and scale; F0 in semitones above 1 Hz. A class boundary says little
about clips far from it, a measure teaches from every clip."""
CHUNK: Final = 4
"""Batches drawn at once and sorted by length, so that little of a batch is padding."""
CHANNEL_CLIPS: Final = 400
"""Clips that a channel for F0 is learned from."""
ENCODER_PLAN: Final = Plan(join=0.03, trim=0.85, pad=0.1, tempo=0.25, longest_s=5.0, cut_s=3.2)
"""Short clips: the tower's cost grows with length, and emotion shows within a few seconds."""


class AttributeHead(nn.Module):
    """Attentive pooling under `queries` learned weightings, then linear layers.

    Emotion reads means and deviations. Prosody reads the means alone, so that the tower itself has to gather what a
    deviation would tell (how much F0 moves) into its states, where a text decoder finds it by attending. F0 is read
    from each state alone.
    """

    def __init__(self, width: int = 512, queries: int = 8) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.queries = nn.Linear(width, queries)
        self.dropout = nn.Dropout(0.3)
        self.emotion = nn.Linear(2 * queries * width, len(CLASSES["emotion"]))
        self.prosody = nn.Linear(queries * width, sum(len(CLASSES[name]) for name in ATTRIBUTES[:-1]))
        self.measures = nn.Linear(queries * width, len(MEASURES))
        self.f0 = nn.Linear(width, OUTPUTS)

    def forward(
        self, states: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
        """`states` (batch, frames, width) and valid `lengths` (batch,) -> (logits (batch, classes) by attribute,
        scaled measures (batch, len(MEASURES)), `f0_targets` outputs (batch, frames, OUTPUTS))."""
        normed = self.norm(states)
        outside = torch.arange(states.shape[1]) >= lengths[:, None]
        scores = self.queries(normed).masked_fill(outside[..., None], -1e4).softmax(dim=1).transpose(1, 2)
        mean = scores @ normed
        deviation = (scores @ normed.square() - mean.square()).clamp_min(1e-5).sqrt()
        emotion = self.emotion(self.dropout(torch.cat([mean, deviation], dim=-1).flatten(1)))
        pooled = self.dropout(mean.flatten(1))
        parts = self.prosody(pooled).split([len(CLASSES[name]) for name in ATTRIBUTES[:-1]], dim=-1)
        return dict(zip(ATTRIBUTES, (*parts, emotion), strict=True)), self.measures(pooled), self.f0(normed)


def batches(seed: int, first: int, batch: int, pool: Pool) -> Iterator[list[tuple[torch.Tensor, Example]]]:
    """Endless batches of (features, example) from number `first` on; a batch depends on `seed` and number only."""
    chunk = first // CHUNK
    while True:
        rng = np.random.default_rng([seed, chunk])
        drawn = [draw_example(rng, pool, ENCODER_PLAN) for _ in range(CHUNK * batch)]
        drawn.sort(key=lambda example: len(example.waveform))
        order = rng.permutation(CHUNK)
        for place in range(first % CHUNK if chunk == first // CHUNK else 0, CHUNK):
            part = drawn[order[place] * batch : (order[place] + 1) * batch]
            masks = np.random.default_rng([seed, chunk, place])
            yield [(_mask(masks, log_mel(example.waveform)), example) for example in part]
        chunk += 1


def _mask(rng: np.random.Generator, mel: torch.Tensor) -> torch.Tensor:
    """Two bands of up to 8 mel bins and up to two stretches of up to 10% of the time, set to the clip's minimum."""
    low = mel.min()
    for _ in range(2):
        width, start = int(rng.integers(0, 9)), int(rng.integers(0, 72))
        mel[start : start + width] = low
    for _ in range(int(rng.integers(0, 3))):
        width = int(rng.uniform(0.0, 0.10) * mel.shape[1])
        start = int(rng.integers(0, mel.shape[1] - width))
        mel[:, start : start + width] = low
    return mel


def attribute_loss(
    logits: dict[str, torch.Tensor], examples: Sequence[Example], smoothing: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(emotion loss, sum of the prosody attributes' losses) of a batch; unknown attributes do not count."""
    names = CLASSES["emotion"]
    target = torch.tensor([[example.emotion.get(name, 0.0) for name in names] for example in examples])
    weight = torch.tensor([example.emotion_weight if example.emotion else 0.0 for example in examples])
    smooth = target * (1.0 - smoothing) + smoothing / len(names)
    per_clip = -(smooth * logits["emotion"].float().log_softmax(dim=-1)).sum(dim=-1)
    emotion = (per_clip * weight).sum() / weight.sum().clamp_min(1.0)
    classes = [classify(example.measures) for example in examples]
    losses = []
    for name in ATTRIBUTES[:-1]:
        index = torch.tensor([CLASSES[name].index(found[name]) if name in found else -100 for found in classes])
        if bool((index >= 0).any()):
            losses.append(functional.cross_entropy(logits[name].float(), index, label_smoothing=smoothing))
    return emotion, torch.stack(losses).sum()


def scaled_measures(examples: Sequence[Example]) -> torch.Tensor:
    """What `MEASURES` lists of each example, centred and scaled, NaN where unknown, shape (batch, measures)."""
    rows = []
    for example in examples:
        values = [getattr(example.measures, name) for name in MEASURES]
        if values[0] is not None:
            values[0] = 12.0 * math.log2(values[0])
        rows.append(
            [
                math.nan if value is None else (value - centre) / scale
                for value, (centre, scale) in zip(values, MEASURES.values(), strict=True)
            ]
        )
    return torch.tensor(rows)


def measure_loss(predicted: torch.Tensor, examples: Sequence[Example]) -> torch.Tensor:
    """Sum over the measures of the mean Huber loss of the examples where the measure is known."""
    target = scaled_measures(examples)
    known = ~target.isnan()
    errors = functional.smooth_l1_loss(predicted, target.nan_to_num().clamp(-3.0, 3.0), reduction="none") * known
    return (errors.sum(dim=0) / known.sum(dim=0).clamp_min(1)).sum()


def parameter_groups(tower: Qwen2_5OmniAudioEncoder, head: nn.Module, recipe: EncoderRecipe) -> list[dict[str, object]]:
    """Learning rates that fall with depth from the top layer; convolutions and `proj` are left out."""
    count = len(tower.layers)
    groups: list[dict[str, object]] = [{"params": list(head.parameters()), "lr": recipe.head_rate}]
    for index in range(count):
        rate = recipe.tower_rate * recipe.layer_decay ** (count - 1 - index)
        groups.append({"params": list(tower.layers[index].parameters()), "lr": rate})
    return groups


def new_head(seed: int) -> AttributeHead:
    """A randomly initialised head, the same for the same `seed`."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return AttributeHead()


def fine_tune(
    tower: Qwen2_5OmniAudioEncoder,
    head: AttributeHead,
    pool: Pool,
    recipe: EncoderRecipe,
    state_path: Path,
    report: Callable[[int, dict[str, float]], None],
) -> None:
    """Train `tower` and `head` in place, both ending with averaged weights. Resumes from `state_path`."""
    basis = _give_channel(tower, head, pool, recipe) if recipe.channel else None
    model = nn.ModuleDict({"tower": tower, "head": head})

    def losses(first: int) -> Iterator[dict[str, torch.Tensor]]:
        for examples in batches(recipe.seed, first, recipe.batch, pool):
            mels, lengths = pad_mels([mel for mel, _ in examples])
            with torch.autocast("cpu", torch.bfloat16):
                states, valid = encode(tower, mels, lengths)
            drawn = [example for _, example in examples]
            logits, predicted, tokens = head(states.float(), valid)
            emotion, prosody = attribute_loss(logits, drawn, recipe.smoothing)
            measures = measure_loss(predicted, drawn)
            f0 = f0_loss(tokens, [example.waveform for example in drawn], valid)
            loss = emotion + recipe.prosody * prosody + recipe.measures * measures + recipe.f0 * f0
            yield {"loss": loss, "emotion": emotion, "prosody": prosody, "measures": measures, "f0": f0}

    def after() -> None:
        if basis is not None:
            protect(tower, basis)

    model.train()
    groups = parameter_groups(tower, head, recipe)
    take_steps(recipe, recipe.steps, dict(model.named_parameters()), groups, losses, state_path, report, after)
    model.eval()


def _give_channel(
    tower: Qwen2_5OmniAudioEncoder, head: AttributeHead, pool: Pool, recipe: EncoderRecipe
) -> torch.Tensor:
    """Open a channel for F0 in `tower`, let `head` read it, and give its basis."""
    rng = np.random.default_rng([recipe.seed, CHANNEL_CLIPS])
    waveforms = [draw_example(rng, pool, ENCODER_PLAN).waveform for _ in range(CHANNEL_CLIPS)]
    channel = find_channel(tower, waveforms, recipe.channel, recipe.seed)
    open_channel(tower, channel, waveforms)
    read_f0(tower, head.norm, head.f0, waveforms, recipe.seed)
    return channel.basis
