"""The settings and clips of a tuning, and the checks before any model is loaded."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from specdec_cli.errors import ConfigError
from specdec_cli.types import Cost, GateName

if TYPE_CHECKING:
    from specdec_cli.config import Config
    from specdec_cli.labels.references import Reference
    from specdec_cli.tune.recording import Trace

FEWEST: Final = 8  # clips below which halves of them decide nothing


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """What to try: gates that compete, and block sizes; deferred drafts too, unless the budget is of blocks."""

    gates: tuple[GateName, ...]
    ks: tuple[int, ...]
    budget: float  # largest share of the cost to recommend, 0 to 1
    seed: int  # of the split, of the random gate and of the bootstrap
    cost: Cost = "blocks"  # that the budget is of, and that is kept low


def require_tunable(config: Config, clips: int) -> None:
    """Raises ConfigError if a tuning of hybrid runs over this number of different clips cannot succeed."""
    if config.decoding.sampling:
        raise ConfigError("Tuning compares texts, and sampling leaves no one text.", hint="Use temperature 0.")
    if config.cloud is not None and config.cloud.url is not None:
        hint = "Tune where both models can be loaded: set cloud.model to one that is loaded here."
        raise ConfigError(f"Tuning needs the cloud's scores, and {config.cloud.url} returns verdicts only.", hint=hint)
    if config.audio.segment is not None:
        raise ConfigError("Tuning takes whole recordings, not pieces.", hint="Leave audio.segment out.")
    require_clips(clips)


def require_clips(clips: int) -> None:
    """Raises ConfigError for too few clips for any tuning."""
    if clips < FEWEST:
        message = f"Tuning needs at least {FEWEST} clips, and {clips} can be recorded."
        raise ConfigError(message, hint="Name more; a hundred is a good number.")


def groups_of(traces: Sequence[Trace], references: Mapping[str, Reference]) -> tuple[str, dict[str, str]]:
    """By what clips are grouped, and the group of each clip by SHA-256; no group is in both halves.

    Groups are speakers if the references name one for every clip and at least four different ones; else single clips.
    """
    speakers = {sha256: reference.speaker for sha256, reference in references.items() if reference.speaker}
    if len(speakers) == len(traces) and len(set(speakers.values())) >= 4:
        return "speaker", speakers
    return "clip", {trace.sha256: trace.sha256 for trace in traces}


def split(traces: Sequence[Trace], groups: Mapping[str, str], seed: int) -> tuple[list[Trace], list[Trace]]:
    """The clips that thresholds and candidates come from, and those that confirm them; no group is in both."""
    members: dict[str, list[Trace]] = defaultdict(list)
    for trace in traces:
        members[groups[trace.sha256]].append(trace)
    names = sorted(members)
    random.Random(seed).shuffle(names)
    halves: tuple[list[Trace], list[Trace]] = [], []
    for name in names:
        min(halves, key=len).extend(members[name])  # so that both halves have about as many clips
    return halves
