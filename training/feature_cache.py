"""Encoded training examples on disk: the frozen tower's states before `ln_post`, with each example's labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from rich.progress import track
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from training.augment import Plan, Pool, draw_example
from training.corpus import Waveform
from training.features import HOP, log_mel
from training.labels import classify
from training.state import load_state, save_state
from training.tower import encode, pad_mels

EXAMPLES: Final = 8192
"""Drawn and encoded once by each tower; every decoder is trained on the same ones."""
CHUNK: Final = 256
"""Examples in a file; a file is the unit of resuming."""
FRAMES_AT_ONCE: Final = 9000
"""Mel frames of a batch, padding included."""
DECODER_PLAN: Final = Plan(join=0.12, trim=0.5, pad=0.15, tempo=0.3, longest_s=30.0, cut_s=30.0)
"""Often with another tempo, so that rate cannot be guessed from how a corpus or a language sounds."""


@dataclass(frozen=True)
class Encoded:
    """An encoded example. `states`: (audio tokens, 512) float16, 25 a second."""

    states: torch.Tensor
    classes: dict[str, str]
    emotion: dict[str, float]
    emotion_weight: float


def batches_by_length(waveforms: Sequence[Waveform]) -> Iterator[list[int]]:
    """Indices of `waveforms`, shortest first, in batches of at most `FRAMES_AT_ONCE` mel frames; longer ones alone."""
    order = sorted(range(len(waveforms)), key=lambda index: len(waveforms[index]))
    batch: list[int] = []
    for index in order:
        if batch and len(waveforms[index]) // HOP * (len(batch) + 1) > FRAMES_AT_ONCE:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _states(tower: Qwen2_5OmniAudioEncoder, waveforms: list[Waveform]) -> list[torch.Tensor]:
    """States of each waveform, (audio tokens, 512) float16, in batches of similar length."""
    found: dict[int, torch.Tensor] = {}
    for batch in batches_by_length(waveforms):
        mels, lengths = pad_mels([log_mel(waveforms[member]) for member in batch])
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            states, valid = encode(tower, mels, lengths)
        for member, row, length in zip(batch, states, valid.tolist(), strict=True):
            found[member] = row[:length].to(torch.float16).clone()
    return [found[index] for index in range(len(waveforms))]


def build_cache(folder: Path, tower: Qwen2_5OmniAudioEncoder, pool: Pool, seed: int) -> list[Encoded]:
    """`EXAMPLES` examples, drawn from `pool` and encoded. Draws depend on `seed` only: both sides get the same."""
    tower.eval()
    encoded: list[Encoded] = []
    for chunk in track(range(-(-EXAMPLES // CHUNK)), folder.name):
        path = folder / f"{chunk:04d}.pt"
        state = load_state(path)
        if state is None:
            rng = np.random.default_rng([seed, 1, chunk])
            size = min(CHUNK, EXAMPLES - chunk * CHUNK)
            examples = [draw_example(rng, pool, DECODER_PLAN) for _ in range(size)]
            states = _states(tower, [example.waveform for example in examples])
            found = [
                Encoded(own, classify(example.measures), dict(example.emotion), example.emotion_weight)
                for own, example in zip(states, examples, strict=True)
            ]
            state = {"examples": [vars(each) for each in found]}
            save_state(path, state)
        encoded += [Encoded(**each) for each in state["examples"]]
    return encoded
