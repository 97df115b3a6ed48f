"""The gate: is the edge sure enough of its block, or is the block escalated to the cloud?"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from specdec_cli.config.schema import Config
from specdec_cli.errors import DecodingError
from specdec_cli.types import DEFAULT_THRESHOLDS, LOW_IS_UNSURE, TOKEN_GATES, GateName, Reason

if TYPE_CHECKING:  # commands that load no model read the gate in force
    import torch

    from specdec_cli.decoding.rows import Groups, TokenEvidence


def crosses(gate: str, value: float, threshold: float) -> bool:
    """Whether a gate's figure `value` escalates its block. A random gate with the threshold 0 escalates no block."""
    if gate == "random":
        return value < threshold
    return value <= threshold if gate in LOW_IS_UNSURE else value >= threshold


@dataclass(frozen=True, eq=False)
class Gate:
    """A threshold on one figure per drafted token; a single unsure token escalates the block.

    The figure is one of `TokenEvidence`. `random` escalates a share of the blocks: the baseline for a gate to beat.
    """

    name: GateName
    threshold: float = 0.0  # in the unit of the figure; always and never have none
    _: KW_ONLY
    wake: float | None = None  # threshold of a deferred draft that would call the cloud first; None: the same
    stop_drafting: bool = False  # end a block with the first token that escalates it
    generator: torch.Generator | None = None  # of the gate random, for one clip; tokens are drawn by another one
    groups: Groups | None = None  # of class-entropy, to read scores; recorded evidence needs none

    @classmethod
    def of(cls, config: Config, groups: Groups | None = None) -> Gate:
        """The gate in force, with both its thresholds: only this method chooses them (docs/gates.md)."""
        name, settings = config.gate_in_force, config.gate
        given = settings.threshold if name == settings.name else None
        threshold = DEFAULT_THRESHOLDS.get(name, 0.0) if given is None else given
        wake = threshold if settings.wake is None else settings.wake
        return cls(name, threshold, wake=wake, stop_drafting=settings.stop_drafting, groups=groups)

    @property
    def summed(self) -> Groups | None:
        """The groups of tokens that it reads scores by. Raises DecodingError if it needs some and has none."""
        if self.name == "class-entropy" and self.groups is None:
            raise DecodingError("the gate 'class-entropy' has no groups of tokens")
        return self.groups

    def open(self, *, waking: bool = False, whole: bool = False) -> GateState:
        """Begins a block.

        Args:
            waking: the block would call the cloud for the first time.
            whole: the block is drafted to the caption's end.
        """
        draw = None
        if self.name == "random":
            if self.generator is None:
                raise DecodingError("the gate 'random' has no generator")
            import torch

            draw = float(torch.rand((), generator=self.generator, dtype=torch.float64))
        stops = self.stop_drafting and self.name in TOKEN_GATES and not whole
        return GateState(self, draw, waking=waking, stops=stops)


class GateState:
    """The gate at work on one block, token by token, so that drafting can end (`stops`) at the first unsure one."""

    def __init__(self, gate: Gate, draw: float | None, *, waking: bool, stops: bool) -> None:
        self.gate, self._draw, self.waking, self.stops = gate, draw, waking, stops
        self._threshold = gate.wake if waking and gate.wake is not None else gate.threshold
        self.evidence: list[TokenEvidence] = []  # of each token so far
        self.values: list[float] = []  # the gate's figure for each token by itself
        self.block_value: float | None = None  # the figure of the block so far, which is compared with the threshold

    def add(self, token: TokenEvidence) -> bool:
        """Adds the block's next token; returns whether it escalates the block."""
        self.evidence.append(token)
        self.values.append(value := self._value(token))
        if self.block_value is None:
            self.block_value = value
        else:
            self.block_value = (min if self.gate.name in LOW_IS_UNSURE else max)(self.block_value, value)
        return self.escalates

    def _value(self, token: TokenEvidence) -> float:
        if self._draw is not None:
            return self._draw
        own = {"margin": token.margin, "logprob": token.logprob, "class-entropy": token.class_entropy}
        return own.get(self.gate.name, token.entropy)

    @property
    def escalates(self) -> bool:
        """Whether the block escalates: because of a token so far, or always."""
        gate, value = self.gate, self.block_value
        if value is None or gate.name in ("always", "never"):
            return gate.name == "always"
        return crosses(gate.name, value, self._threshold)

    @property
    def reason(self) -> Reason | None:
        """Why the block escalates; None if it does not."""
        name = self.gate.name
        return name if name != "never" and self.escalates else None
