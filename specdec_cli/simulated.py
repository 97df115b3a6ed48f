"""Settings that imitate a link or step costs: how transcripts name them, and how they are told in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SIMULATED: Final[Mapping[str, str]] = {
    "simulated_rtt_ms": "a round trip of {:g} ms",
    "simulated_mbps": "{:g} Mbit/s",
    "simulated_edge_step_ms": "edge steps of {:g} ms",
    "simulated_cloud_step_ms": "cloud steps of {:g} ms",
}
"""Setting, as transcripts record it where it is set -> how to say it."""


def simulation(settings: Mapping[str, object]) -> str | None:
    """What a run imitated: "a round trip of 50 ms, edge steps of 48 ms"; None if nothing."""
    said = [phrase.format(settings[name]) for name, phrase in SIMULATED.items() if settings.get(name) is not None]
    return ", ".join(said) or None
