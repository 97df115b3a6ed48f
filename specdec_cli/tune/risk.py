"""A threshold with a guarantee: conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster 2022).

The loss of a caption is 1 if any class that the lexicon reads differs from that in the cloud's own caption, else 0.
Settings are ordered so that each escalates less than the one before, and are tried on n clips that had no part in
choosing them. The last setting is certified that satisfies

    (sum of losses + 1) / (n + 1) <= alpha.

Then the loss of a further clip is at most alpha on average, over clips that are exchangeable with those n. The theorem
needs a loss that never falls as less is escalated; so each setting counts by the largest loss that it or a setting
which escalates more has on the clip, which can only overstate it.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from pydantic import Field

from specdec_cli.stats import Figures, Values

LOSS: Final = "captions of which a class that the lexicon reads differs from that in the cloud's own caption"


class Certified(Figures):
    """A guarantee by conformal risk control, as a gate file holds it."""

    alpha: float = Field(description="largest expected share of such captions, over clips that are exchangeable")
    clips: int = Field(description="that certify it; settings were chosen on others")
    differing: int = Field(description="of them, clips that count as such captions, at this threshold or a safer one")
    bound: float = Field(description="(differing + 1) / (clips + 1), which is at most alpha")
    loss: str = Field(default=LOSS, description="what is counted")


def fewest(alpha: float) -> int:
    """Clips below which not even a setting without any loss is certified."""
    return math.ceil(round(1 / alpha, 9)) - 1


def certify(losses: Values, alpha: float) -> tuple[int, Certified] | None:
    """How many of the settings, from the first, are certified, and the guarantee of the last of them.

    0 is escalating everything, which has no loss: the text is the cloud's own. None if not even that is certified.

    Args:
        losses: 0 to 1 [clips, settings]; the setting that escalates most is first.
        alpha: the risk.
    """
    losses = np.concatenate([np.zeros((len(losses), 1)), losses], axis=1)
    worst = np.maximum.accumulate(losses, axis=1).sum(axis=0)
    bounds = (worst + 1) / (len(losses) + 1)  # rising
    last = int((bounds <= alpha + 1e-12).sum()) - 1
    if last < 0:
        return None
    differing, bound = round(float(worst[last])), round(float(bounds[last]), 6)
    return last, Certified(alpha=alpha, clips=len(losses), differing=differing, bound=bound)
