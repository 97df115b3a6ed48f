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
        Course(4096, 0, DecoderRecipe(epochs=3, rate=1e-3, stop_after=300)),
        Course(1536, 1536, DecoderRecipe(epochs=1, rate=4e-4, warm_up=20, average=0.98, balanced=True)),
        Course(
            3072,
            1536,
            DecoderRecipe(
                epochs=1,
                rate=8e-4,
                warm_up=10,
                emotion=3.0,
                balanced=True,
                prosody=3.0,
                noise=0.2,
                dropout=0.05,
                average=0.98,
                seed=11,
            ),
        ),
    ),
}
"""The cloud starts from the seed's decoder, which is not shipped; the edge starts from random weights."""
