"""What a tuning tries, and what it refuses before any model is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from specdec_cli.errors import ConfigError, install
from specdec_cli.tune.risk import fewest
from specdec_cli.types import Cost, GateName

if TYPE_CHECKING:
    from specdec_cli.config import Config

FEWEST: Final = 8
"""Clips below which halves of them decide nothing."""

INSTALL: Final = install("tune")


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """What to try: gates that compete, and block sizes."""

    gates: tuple[GateName, ...]
    ks: tuple[int, ...]
    budget: float  # largest share of the cost to recommend, 0 to 1
    seed: int  # of the split, of the random gate and of the bootstrap
    cost: Cost = "blocks"  # that the budget is of, and that is kept low
    risk: float | None = None  # largest share of captions whose classes may differ from the cloud's, with a guarantee

    @property
    def defers(self) -> bool:
        """Whether deferred drafts are tried too; as blocks they do not compare with others."""
        return self.cost != "blocks"

    @property
    def k(self) -> int:
        """The block size that is neither small nor large."""
        return sorted(self.ks)[len(self.ks) // 2]


def require_tunable(config: Config, gates: Sequence[GateName], clips: int, risk: float | None = None) -> None:
    """Refuses what no tuning of a hybrid run over so many different clips can succeed with.

    Raises:
        ConfigError: a temperature above 0, under which there is no one text to record; recordings in pieces; a cloud
            that returns verdicts only; the learned gate without scikit-learn; too few clips, at all or for the risk;
            or a risk with a rule under which escalating everything does not give the cloud's caption.
    """
    if config.decoding.sampling:
        raise ConfigError(
            f"tuning compares texts, and at temperature {config.decoding.temperature:g} there is no one text",
            hint="Use temperature 0; the gate that comes out serves sampling too.",
        )
    if config.cloud is not None and config.cloud.url is not None:
        raise ConfigError(
            f"tuning needs the cloud's scores, and {config.cloud.url} returns verdicts only",
            hint="Tune where both models can be loaded: set cloud.model in place of cloud.url.",
        )
    if config.audio.segment is not None:
        raise ConfigError(
            "tuning takes whole recordings, and audio.segment cuts them into pieces",
            hint="Leave audio.segment out, and give recordings that fit the models as a whole.",
        )
    if "learned" in gates and find_spec("sklearn") is None:
        raise ConfigError(
            "the learned gate is fitted with scikit-learn, which is not installed",
            hint=f"Install it with: {INSTALL}; or leave this gate out.",
        )
    require_clips(clips)
    if risk is not None:
        least, confirming = fewest(risk), clips // 2
        if confirming < least:
            raise ConfigError(
                f"certifying a risk of {100 * risk:g}% takes {least} clips in the half that confirms settings, and of "
                f"{clips} clips it holds {confirming}",
                hint=f"Tune on {2 * least} clips or more, or certify a larger risk.",
            )
        if config.acceptance.rule not in (None, "greedy"):
            raise ConfigError(
                f"--risk needs a rule under which escalating every block gives the cloud's caption, and "
                f"{config.acceptance.rule} does not",
                hint="Use --accept greedy, or leave --risk out.",
            )


def require_clips(clips: int) -> None:
    """Raises ConfigError for fewer than `FEWEST` clips."""
    if clips < FEWEST:
        raise ConfigError(
            f"tuning needs at least {FEWEST} clips, and {clips} can be recorded",
            hint="Half of them choose the settings, the other half confirms them. A hundred is a good number.",
        )
