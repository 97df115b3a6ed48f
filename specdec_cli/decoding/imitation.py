"""What is imitated where both models are loaded here: a link between them, and what a step of each costs."""

from __future__ import annotations

from dataclasses import dataclass

from specdec_cli.models.family import PromptInputs

BYTES_PER_ID = 4
BYTES_PER_FEATURE = 2  # float16


@dataclass(frozen=True, slots=True)
class Imitation:
    """Delays that are added on purpose. Whatever was timed with one of them is called simulated.

    Attributes:
        rtt_ms: round trip of the link, milliseconds; None: no latency.
        mbps: bandwidth of each direction, 10^6 bits a second; None: unlimited.
        edge_step_ms, cloud_step_ms: least time of a forward, prefill included, milliseconds; None: what it takes.
    """

    rtt_ms: float | None = None
    mbps: float | None = None
    edge_step_ms: float | None = None
    cloud_step_ms: float | None = None

    @property
    def has_link(self) -> bool:
        """Whether a link is imitated, be it one without latency."""
        return self.rtt_ms is not None or self.mbps is not None

    @property
    def is_any(self) -> bool:
        """Whether anything is imitated."""
        return self.has_link or self.edge_step_ms is not None or self.cloud_step_ms is not None

    def one_way_s(self, size: int) -> float:
        """Seconds that a message of `size` bytes takes in one direction: half of the round trip and its own length."""
        own_s = 0.0 if self.mbps is None else size * 8 / (self.mbps * 1e6)
        return (self.rtt_ms or 0.0) / 2e3 + own_s


def prompt_bytes(inputs: PromptInputs) -> int:
    """What a clip's prompt would take on a wire: its ids, and its features in half precision."""
    return BYTES_PER_ID * len(inputs.ids) + BYTES_PER_FEATURE * inputs.features.values.numel()
