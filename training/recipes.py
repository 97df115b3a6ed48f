"""Hyperparameters of the shipped weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from training.architecture import CLOUD, EDGE, SEED


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Hyperparameters that towers and decoders share. `average`: decay of the moving average that training gives."""

    weight_decay: float = 0.05
    warm_up: int = 60
    average: float = 0.99
    seed: int = 7


@dataclass(frozen=True, kw_only=True)
class EncoderRecipe(Recipe):
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
    channel: int = 0
    smoothing: float = 0.1


@dataclass(frozen=True, kw_only=True)
class DecoderRecipe(Recipe):
    """Hyperparameters.

    `captions`: different instructions answered for each clip in a step; `scaffold` and `emotion`: weights of words that
    name no attribute and of the emotion's; `prosody`: factor on the words of rate, pitch and range; `distilled`: share
    of the loss that a teacher gives.
    """

    epochs: int
    batch: int = 24
    rate: float = 1.2e-3
    captions: int = 3
    scaffold: float = 0.2
    emotion: float = 4.0
    smoothing: float = 0.06
    prosody: float = 2.0
    noise: float = 0.1
    dropout: float = 0.1
    distilled: float = 0.0


TOWER_RECIPES: Final = {EDGE: EncoderRecipe(steps=3000), CLOUD: EncoderRecipe(steps=2600, channel=24)}
"""One layer hardly writes over F0; six do."""
RECIPES: Final = {
    SEED: DecoderRecipe(epochs=2),
    CLOUD: DecoderRecipe(epochs=2, rate=8e-4),
    EDGE: DecoderRecipe(epochs=3, distilled=0.5),
}
"""Edge and cloud start from the seed's decoder, which is not shipped, and the edge is taught by the cloud."""
