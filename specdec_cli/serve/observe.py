"""Logs and counters. Neither holds anything of a clip: no ids, no text, no features.

The log is one JSON object a line on stderr; the counters are for Prometheus, in a registry of the server's own.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

LOGGER: Final = logging.getLogger("specdec_cli.serve")
_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def event(name: str, **fields: object) -> None:
    LOGGER.info(name, extra={"fields": fields})


class JsonLines(logging.Formatter):
    """time, level, event, and the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        time_ = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time_, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line, ensure_ascii=False)


def log_json(*, debug: bool) -> None:
    """Sends the server's log, and uvicorn's errors, to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name, level in (("specdec_cli", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.DEBUG if debug else level)


class Metrics:
    """What a server counts. No label holds anything that a client sent."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self._registry), partial(Gauge, registry=self._registry)
        self.requests = counter("specdec_requests", "Requests by route and status.", ("route", "status"))
        self.seconds = Histogram(
            "specdec_request_seconds", "Request to answer.", ("route",), buckets=_SECONDS, registry=self._registry
        )
        self.drafted = counter("specdec_drafted_tokens", "Drafted tokens that were verified.")
        self.accepted = counter("specdec_accepted_tokens", "Drafted tokens that were accepted.")
        self.sessions = gauge("specdec_sessions", "Clips held.")
        self.held_bytes = gauge("specdec_session_bytes", "Memory of the clips held.")

    def answered(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)
