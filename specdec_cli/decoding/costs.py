"""What drafting, verifying and guessing cost on this machine: running means of measurements, shared by all clips.

A cost that is not measured any more, because what it would buy does not pay, fades towards its start, until it is tried
again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from specdec_cli.decoding.block import Draft, Verdict
    from specdec_cli.types import ModelWork

ALONE: Final = 2.0  # start of the cloud's tokens a forward, with guesses: more than it writes, so that it is tried
COST: Final = 0.2  # of a drafted token, in verifications, before both are measured: 0.20 for the mini pair, one thread
_ROW: Final = 0.1  # cost of a guess before anything is measured, in forwards
_DECAY: Final = 0.9  # older values are multiplied by this whenever one is added: the last ten or so count
_HICCUP: Final = 3.0  # a cost counts as so many times the mean at most
# Everything recorded is multiplied by this for each round in which it was not tried: half is left after 34 rounds.
# So a hopeless edge costs a lossless caption less than 3% (tests/decoding/test_adaptive.py).
_IDLE: Final = 0.98


class Mean:
    """A running mean in which older values count less. `start` counts as one value; None: there is no such value."""

    def __init__(self, start: float | None = None) -> None:
        self._start = start
        self._sum = self._count = 0.0

    @property
    def known(self) -> bool:
        """Whether a value was recorded."""
        return self._count > 0

    @property
    def value(self) -> float:
        """The mean; 0 before the first value, if there is no start."""
        if self._start is None:
            return self._sum / self._count if self.known else 0.0
        return (self._start + self._sum) / (1.0 + self._count)

    def add(self, total: float, count: float = 1.0) -> None:
        """Records `count` values by their sum."""
        self.fade(_DECAY)
        self._sum += total
        self._count += count

    def add_cost(self, value: float) -> None:
        """Records a measured cost, as `_HICCUP` times the mean at most: more would be a hiccup of the machine."""
        self.add(min(value, _HICCUP * self.value) if self.value > 0 else value)

    def fade(self, by: float = _IDLE) -> None:
        """Multiplies the weight of everything recorded."""
        self._sum *= by
        self._count *= by


class GuessCosts:
    """The cost and the gain of guesses on one model, measured over all clips."""

    def __init__(self) -> None:
        self._alone = Mean()  # ms of a forward without guesses
        self._row = Mean(_ROW)  # cost of a guess, in forwards
        self._trust = Mean(1.0)  # guesses that stood, per guess that was expected to

    def record(self, guessed: int, ms: float) -> None:
        """Records the time of a forward of one token and `guessed` guessed ones."""
        if guessed == 0:
            self._alone.add_cost(ms)
        elif self._alone.known:
            self._row.add_cost((ms / self._alone.value - 1.0) / guessed)

    def learn(self, expected: float, stood: int) -> None:
        """Records how many guessed tokens were expected to stand, and how many did."""
        self._trust.add(stood, expected)

    def worth(self, chances: Sequence[float]) -> int:
        """How many guessed tokens are worth scoring. `chances` must not increase."""
        count = sum(chance * self._trust.value >= self._row.value for chance in chances)
        if chances and not count:
            self._trust.fade()
            self._row.fade()
        return count


class Costs:
    """The times of drafting, verifying and guessing on this machine, shared by all clips."""

    def __init__(self) -> None:
        self._ms: dict[str, Mean] = {"token": Mean(), "verification": Mean(), "prefill": Mean()}
        self.alone = Mean(ALONE)  # tokens that the cloud writes in a forward without a draft
        self.length = Mean()  # tokens of a caption
        self.guesses: defaultdict[str, GuessCosts] = defaultdict(GuessCosts)  # by model

    def record(self, what: Literal["token", "verification", "prefill"], ms: float) -> None:
        """Records the time of a drafted token, of a forward of the cloud, or of the edge's prefill."""
        mean = self._ms[what]
        if what == "token":  # guessed tokens take no time, but the one before them takes that of all: no hiccup
            mean.add(ms)
        else:
            mean.add_cost(ms)

    def record_draft(self, draft: Draft, work: ModelWork) -> None:
        """Records the times of a block that the edge drafted in `work`."""
        if work.encoder_passes:
            self.record("prefill", work.reading_ms)
        if (steps := len(draft.ids) - work.encoder_passes) > 0:  # the prefill gives the first token
            self.record("token", work.step_ms / steps)

    def record_verdict(self, draft: Draft, verdict: Verdict, forwards: int) -> None:
        """Records the times of a verdict, for which a cloud that had read the clip made some `forwards`."""
        if verdict.prefilled:
            return
        calls = 1 + len(verdict.stood or ())
        self.record("verification", verdict.ms / forwards + (verdict.network_ms or 0.0) / calls)
        if not draft.ids:
            self.alone.add(1 + len(verdict.run_on), forwards)

    @property
    def ratio(self) -> float:
        """The time of a drafted token in verifications; `COST` before both have been measured."""
        token, verification = self._ms["token"], self._ms["verification"]
        return token.value / verification.value if token.known and verification.value > 0 else COST

    @property
    def prefill(self) -> float:
        """The time of the edge's prefill in verifications; 0 before both have been measured."""
        verification = self._ms["verification"].value
        return self._ms["prefill"].value / verification if verification > 0 else 0.0
