"""Counters and times for Prometheus, in a registry of the server's own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from specdec_cli.serve.sessions import Why

_MS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """What a server counts. No label holds anything that a client said."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "specdec_requests", "Requests by route and status.", ("route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "specdec_request_seconds", "Request to answer.", ("route",), buckets=_MS, registry=self.registry
        )
        self._bytes = Counter("specdec_bytes", "Bytes of bodies.", ("direction",), registry=self.registry)
        self._drafted = Counter("specdec_drafted_tokens", "Drafted tokens that were judged.", registry=self.registry)
        self._accepted = Counter(
            "specdec_accepted_tokens", "Drafted tokens that were accepted.", registry=self.registry
        )
        self._generated = Counter(
            "specdec_generated_tokens", "Corrections, bonus tokens and tokens run on.", registry=self.registry
        )
        self._forwards = Counter("specdec_forwards", "Forwards of the model.", registry=self.registry)
        self._clips = Counter("specdec_forward_clips", "Clips that forwards were made for.", registry=self.registry)
        self._forward_s = Histogram(
            "specdec_forward_seconds", "Time of a forward.", buckets=_MS, registry=self.registry
        )
        self._forgotten = Counter(
            "specdec_sessions_forgotten", "Clips that were let go.", ("why",), registry=self.registry
        )
        self.sessions = Gauge("specdec_sessions", "Clips held.", registry=self.registry)
        self.held_bytes = Gauge("specdec_session_bytes", "Memory of the clips held.", registry=self.registry)
        self.waiting = Gauge("specdec_waiting", "Requests that wait for the model.", registry=self.registry)

    def answered(self, route: str, status: int, seconds: float, received: int, sent: int) -> None:
        """A request came to its end."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._bytes.labels("in").inc(received)
        self._bytes.labels("out").inc(sent)

    def judged(self, drafted: int, accepted: int, generated: int) -> None:
        """A draft was judged."""
        self._drafted.inc(drafted)
        self._accepted.inc(accepted)
        self._generated.inc(generated)

    def fed(self, clips: int, seconds: float) -> None:
        """A forward for so many clips took so long."""
        self._forwards.inc()
        self._clips.inc(clips)
        self._forward_s.observe(seconds)

    def forgot(self, why: Why) -> None:
        """A clip was let go."""
        self._forgotten.labels(why).inc()

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
