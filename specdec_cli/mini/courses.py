"""What each decoder of the pair is trained on, in order: the recipe that made the shipped weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specdec_cli.mini.architecture import CLOUD, EDGE, SEED, Side
from specdec_cli.mini.decoder_training import DecoderRecipe


@dataclass(frozen=True)
class Course:
    """One run of decoder training.

    `plain` and `tempo`: examples drawn with `feature_cache.DECODER_PLAN` and with `TEMPO_PLAN`.
    """

    plain: int
    tempo: int
    recipe: DecoderRecipe


COURSES: Final[dict[Side, tuple[Course, ...]]] = {
    SEED: (Course(8192, 0, DecoderRecipe(epochs=4)),),
    EDGE: (Course(8192, 2048, DecoderRecipe(epochs=2, balanced=True)),),
    CLOUD: (
        Course(4096, 2048, DecoderRecipe(epochs=2, rate=1e-3, balanced=True, prosody=2.0)),
        Course(
            4096,
            2048,
            DecoderRecipe(epochs=1, rate=6e-4, warm_up=20, emotion=8.0, balanced=True, prosody=2.0, average=0.99),
        ),
    ),
}
"""The cloud starts from the seed's decoder, which is not shipped; the edge starts from random weights."""
