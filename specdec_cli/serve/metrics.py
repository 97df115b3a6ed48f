"""The counters of a server for Prometheus, in a registry of their own. No label holds anything that a client sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """Requests and their times, verified tokens, and the clips that are held."""

    def __init__(self, sessions: Callable[[], float], session_bytes: Callable[[], float]) -> None:
        self.registry = own = CollectorRegistry()
        self.requests = Counter("specdec_requests", "Requests.", ("route", "status"), registry=own)
        name, says = "specdec_request_seconds", "Request to answer."
        self.seconds = Histogram(name, says, ("route",), buckets=_SECONDS, registry=own)
        self.drafted = Counter("specdec_drafted_tokens", "Drafted tokens that were verified.", registry=own)
        self.accepted = Counter("specdec_accepted_tokens", "Drafted tokens that were accepted.", registry=own)
        self.captions = Counter("specdec_captions", "Pieces that were captioned.", ("mode",), registry=own)
        self.captioned_s = Counter("specdec_captioned_seconds", "Seconds of these.", registry=own)
        Gauge("specdec_sessions", "Clips held.", registry=own).set_function(sessions)
        Gauge("specdec_session_bytes", "Memory of the clips held.", registry=own).set_function(session_bytes)
