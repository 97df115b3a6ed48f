"""What each decoder of the pair is trained on, in order: the recipe that made the shipped weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from training.architecture import CLOUD, EDGE, SEED, Side
from training.decoder_training import DecoderRecipe


@dataclass(frozen=True)
class Course:
    """One run of decoder training.

    `plain` and `tempo`: examples drawn with `feature_cache.DECODER_PLAN` and with `TEMPO_PLAN`; `tower`: which of
    `encoder_training.TOWER_COURSES` made the tower that encodes them (the cloud's; the other sides have Whisper's).
    """

    plain: int
    tempo: int
    recipe: DecoderRecipe
    tower: int = 1


_HEARING_F0: Final = DecoderRecipe(
    epochs=2, rate=8e-4, warm_up=30, emotion=6.0, balanced=True, prosody=3.0, noise=0.1, average=0.99
)

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
        Course(2048, 1024, _HEARING_F0, tower=2),
        Course(4096, 2048, replace(_HEARING_F0, noise=0.05), tower=3),
        Course(
            4096,
            2048,
            replace(_HEARING_F0, epochs=1, rate=5e-4, warm_up=20, prosody=5.0, noise=0.05, average=0.98),
            tower=3,
        ),
    ),
}
"""The cloud starts from the seed's decoder, which is not shipped; the edge starts from random weights. The cloud's last
three courses hear F0, which the tower's last two taught it to keep."""
