"""Logs and counters. Neither holds anything of a clip: no ids, no text, no features.

The log is one JSON object a line on stderr; the counters are for Prometheus, in a registry of the server's own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary, generate_latest

LOGGER: Final = logging.getLogger("specdec_cli.serve")


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

    def __init__(self, held: Callable[[], float], held_bytes: Callable[[], float]) -> None:
        self._registry = registry = CollectorRegistry()
        routes = "route", "status"
        self.seconds = Summary("specdec_request_seconds", "Request to answer.", routes, registry=registry)
        self.drafted = Counter("specdec_drafted_tokens", "Drafted tokens that were verified.", registry=registry)
        self.accepted = Counter("specdec_accepted_tokens", "Drafted tokens that were accepted.", registry=registry)
        Gauge("specdec_sessions", "Clips held.", registry=registry).set_function(held)
        Gauge("specdec_session_bytes", "Memory of the clips held.", registry=registry).set_function(held_bytes)

    def text(self) -> bytes:
        return generate_latest(self._registry)
