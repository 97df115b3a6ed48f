"""Fine-tuning of the audio tower, end to end: emotion, prosody classes and measures of a clip, F0 of its tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from training.architecture import CLOUD, EDGE
from training.augment import Example, Plan, Pool, draw_example
from training.corpus import Waveform
from training.f0_channel import find_channel, open_channel, protect, read_f0
from training.f0_targets import OUTPUTS, f0_loss
from training.features import log_mel
from training.labels import ATTRIBUTES, CLASSES, classify
from training.state import Average, load_state, save_state
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


@dataclass(frozen=True)
class EncoderRecipe:
    """Hyperparameters of the fine-tuning.

    `prosody`, `measures` and `f0`: factors on their losses; emotion's counts once. `channel`: components of a channel
    for F0 that is opened before the first step (`f0_channel`), 0 for none.
    """

    steps: int
    batch: int = 16
    prosody: float = 0.25
    measures: float = 0.5
    f0: float = 0.5
    tower_rate: float = 2e-4
    head_rate: float = 4e-4
    layer_decay: float = 0.85
    weight_decay: float = 0.05
    warm_up: int = 60
    channel: int = 0
    smoothing: float = 0.1
    average: float = 0.99
    save_every: int = 100
    seed: int = 7


TOWER_RECIPES: Final = {EDGE: EncoderRecipe(steps=3000), CLOUD: EncoderRecipe(steps=2600, channel=24)}
"""One layer hardly writes over F0; six do."""


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


def batches(
    seed: int, first: int, batch: int, pool: Pool, read: Callable[[str], Waveform], plan: Plan
) -> Iterator[list[tuple[torch.Tensor, Example]]]:
    """Endless batches of (features, example) from number `first` on; a batch depends on `seed` and number only."""
    chunk = first // CHUNK
    while True:
        rng = np.random.default_rng([seed, chunk])
        drawn = [draw_example(rng, pool, read, plan) for _ in range(CHUNK * batch)]
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
    read: Callable[[str], Waveform],
    recipe: EncoderRecipe,
    state_path: Path,
    report: Callable[[int, dict[str, float]], None],
    plan: Plan | None = None,
) -> None:
    """Train `tower` and `head` in place, both ending with averaged weights. Resumes from `state_path`."""
    state = load_state(state_path)
    if state is not None and state["recipe"] != asdict(recipe):
        state = None
    plan = plan or ENCODER_PLAN
    basis = None if state is None else state.get("basis")
    if recipe.channel and basis is None:
        basis = _give_channel(tower, head, pool, read, recipe, plan)
    model = nn.ModuleDict({"tower": tower, "head": head})
    optimiser = torch.optim.AdamW(
        parameter_groups(tower, head, recipe), betas=(0.9, 0.98), weight_decay=recipe.weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: warm_cosine(step, recipe.warm_up, recipe.steps)
    )
    average = Average(model.state_dict(), recipe.average)
    first = 0
    if state is not None:
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        schedule.load_state_dict(state["schedule"])
        average.values = state["average"]
        first = int(state["step"])
    source = batches(recipe.seed, first, recipe.batch, pool, read, plan)
    model.train()
    for step in range(first, recipe.steps):
        examples = next(source)
        with torch.random.fork_rng():
            torch.manual_seed(recipe.seed * 1_000_003 + step)
            mels, lengths = pad_mels([mel for mel, _ in examples])
            with torch.autocast("cpu", torch.bfloat16):
                states, valid = encode(tower, mels, lengths)
            drawn = [example for _, example in examples]
            logits, predicted, tokens = head(states.float(), valid)
            emotion, prosody = attribute_loss(logits, drawn, recipe.smoothing)
            measures = measure_loss(predicted, drawn)
            loss = emotion + recipe.prosody * prosody + recipe.measures * measures
            losses = {"emotion": emotion, "prosody": prosody, "measures": measures}
            if recipe.f0:
                losses["f0"] = f0_loss(tokens, [example.waveform for example in drawn], valid)
                loss = loss + recipe.f0 * losses["f0"]
            torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if basis is not None:
            protect(tower, basis)
        schedule.step()
        optimiser.zero_grad(set_to_none=True)
        average.update(model.state_dict(), step)
        report(step + 1, {name: float(loss.detach()) for name, loss in losses.items()})
        if (step + 1) % recipe.save_every == 0 or step + 1 == recipe.steps:
            save_state(
                state_path,
                {
                    "step": step + 1,
                    "recipe": asdict(recipe),
                    "model": model.state_dict(),
                    "optimiser": optimiser.state_dict(),
                    "schedule": schedule.state_dict(),
                    "average": average.values,
                    "basis": basis,
                },
            )
    model.load_state_dict(average.values)
    model.eval()


def _give_channel(
    tower: Qwen2_5OmniAudioEncoder,
    head: AttributeHead,
    pool: Pool,
    read: Callable[[str], Waveform],
    recipe: EncoderRecipe,
    plan: Plan,
) -> torch.Tensor:
    """Open a channel for F0 in `tower`, let `head` read it, and give its basis."""
    rng = np.random.default_rng([recipe.seed, CHANNEL_CLIPS])
    waveforms = [draw_example(rng, pool, read, plan).waveform for _ in range(CHANNEL_CLIPS)]
    channel = find_channel(tower, waveforms, recipe.channel, recipe.seed)
    open_channel(tower, channel, waveforms)
    read_f0(tower, head.norm, head.f0, waveforms, recipe.seed)
    return channel.basis


def warm_cosine(step: int, warm_up: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to 0.02 at `steps`."""
    if step < warm_up:
        return (step + 1) / warm_up
    progress = min(1.0, (step - warm_up) / max(1, steps - warm_up))
    return 0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * progress))
