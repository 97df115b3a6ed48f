"""Training of `ln_post`, `proj` and the text decoder on cached tower states: next-token loss on the caption only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn
from transformers import Qwen2_5OmniThinkerForConditionalGeneration as Thinker

from training.collate import Batch, Collator, branch_mask, class_balance
from training.dialogue import Dialogue
from training.feature_cache import Encoded
from training.recipes import DecoderRecipe
from training.state import take_steps

TOKENS_AT_ONCE: Final = 10_000
TEXT_TOKENS: Final = 150
"""Prompts and captions of an example, roughly: for packing batches only."""


class Teacher:
    """A trained side that a smaller one learns from: its distributions over the next token (DistillSpec, Zhou et al.
    2024). `examples` are those of the side that is taught, as the teacher's own tower encodes them."""

    def __init__(self, model: Thinker, examples: Sequence[Encoded]) -> None:
        self.model = model
        self.examples = examples

    @torch.no_grad()
    def log_probs(self, batch: Batch) -> torch.Tensor:
        """Log-probabilities at the answers of a batch of its own, (answer tokens, vocabulary)."""
        hidden = _hidden(self.model, batch.embeddings, batch)[batch.weights > 0]
        log_probs: torch.Tensor = self.model.lm_head(hidden.float()).log_softmax(dim=-1)
        return log_probs


def _hidden(model: Thinker, embeddings: torch.Tensor, batch: Batch) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        hidden: torch.Tensor = model.model.language_model(
            inputs_embeds=embeddings,
            attention_mask={"full_attention": branch_mask(batch.branches)},
            position_ids=batch.positions.expand(3, *batch.positions.shape),
            use_cache=False,
        ).last_hidden_state
    return hidden


def caption_loss(
    model: Thinker, batch: Batch, dropout: float, taught: torch.Tensor | None = None, distilled: float = 0.0
) -> torch.Tensor:
    """Weighted next-token loss; at the emotion word the target is the soft emotion distribution.

    `taught`: a teacher's log-probabilities at the answers, whose cross-entropy takes the share `distilled`. Either
    vocabulary may be padded further than the other; the padding is never written.
    """
    inputs = nn.functional.dropout(batch.embeddings, dropout, training=model.training)
    chosen = batch.weights > 0
    states = nn.functional.dropout(_hidden(model, inputs, batch)[chosen].float(), dropout, training=model.training)
    log_probs = model.lm_head(states).log_softmax(dim=-1)
    per_token = -log_probs.gather(1, batch.targets[chosen][:, None])[:, 0]
    words = batch.emotion_words[chosen]
    soft = words[:, 0] >= 0
    per_token[soft] = -(batch.emotion[chosen][soft] * log_probs[soft].gather(1, words[soft])).sum(dim=-1)
    if taught is not None:
        shared = min(taught.shape[1], log_probs.shape[1])
        missed = -(taught[:, :shared].exp() * log_probs[:, :shared]).sum(dim=-1)
        per_token = (1.0 - distilled) * per_token + distilled * missed
    weights = batch.weights[chosen]
    loss: torch.Tensor = (per_token * weights).sum() / weights.sum().clamp_min(1.0)
    return loss


def plan_batches(lengths: Sequence[int], recipe: DecoderRecipe) -> list[list[int]]:
    """Example indices of every step of the training: shuffled, similar lengths together, at most `recipe.batch`."""
    steps: list[list[int]] = []
    for epoch in range(recipe.epochs):
        rng = np.random.default_rng([recipe.seed, 2, epoch])
        order = rng.permutation(len(lengths))
        epoch_steps: list[list[int]] = []
        for start in range(0, len(order), 16 * recipe.batch):
            window = sorted(order[start : start + 16 * recipe.batch].tolist(), key=lambda index: lengths[index])
            batch: list[int] = []
            for index in window:
                if batch and (len(batch) + 1) * (lengths[index] + TEXT_TOKENS) > TOKENS_AT_ONCE:
                    epoch_steps.append(batch)
                    batch = []
                batch.append(index)
                if len(batch) == recipe.batch:
                    epoch_steps.append(batch)
                    batch = []
            if batch:
                epoch_steps.append(batch)
        steps.extend(epoch_steps[place] for place in rng.permutation(len(epoch_steps)))
    return steps


def trained_parameters(model: Thinker) -> dict[str, nn.Parameter]:
    """What decoder training changes: everything but the tower's convolutions and layers."""
    frozen = ("model.audio_tower.conv", "model.audio_tower.layers", "model.audio_tower.audio_bos")
    return {name: value for name, value in model.named_parameters() if not name.startswith(frozen)}


def train_decoder(
    model: Thinker,
    dialogue: Dialogue,
    examples: Sequence[Encoded],
    recipe: DecoderRecipe,
    state_path: Path,
    report: Callable[[int, dict[str, float]], None],
    teacher: Teacher | None = None,
) -> None:
    """Train `model` in place, ending with averaged weights. Resumes from `state_path`. With a share `distilled` it
    needs the `teacher`."""
    parameters = trained_parameters(model)
    steps = plan_batches([len(example.states) for example in examples], recipe)
    balance = class_balance(examples, recipe.prosody)
    sides = [model, teacher.model] if teacher else [model]
    collate = [Collator(side, dialogue, recipe, balance) for side in sides]

    def batch_of(collator: Collator, found: Sequence[Encoded], step: int) -> Batch:
        """The step's batch, of the same captions and disturbances for every side."""
        generator = torch.Generator().manual_seed(recipe.seed * 1_000_003 + step)
        rng = np.random.default_rng([recipe.seed, 3, step])
        return collator([found[index] for index in steps[step]], rng, generator)

    def losses(first: int) -> Iterator[dict[str, torch.Tensor]]:
        for step in range(first, len(steps)):
            taught = teacher.log_probs(batch_of(collate[1], teacher.examples, step)) if teacher else None
            batch = batch_of(collate[0], examples, step)
            yield {"loss": caption_loss(model, batch, recipe.dropout, taught, recipe.distilled)}

    for side in sides:  # trains faster on a CPU than the fused attention
        side.model.language_model.set_attn_implementation("eager")
    model.train()
    groups = [{"params": list(parameters.values()), "lr": recipe.rate}]
    take_steps(recipe, len(steps), parameters, groups, losses, state_path, report)
    for side in sides:
        side.model.language_model.set_attn_implementation("sdpa")
    model.eval()
