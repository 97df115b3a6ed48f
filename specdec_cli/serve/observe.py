"""Logs and counters. Neither holds anything of a clip: no ids, no text, no features.

The log is one JSON object a line on stderr; the counters are for Prometheus, in a registry of the server's own.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOGGER: Final = logging.getLogger("specdec_cli.serve")
_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_METHODS: Final = frozenset({"GET", "PUT", "POST", "DELETE"})
GONE: Final = 499  # the client left before an answer began


def event(name: str, level: int = logging.INFO, **fields: object) -> None:
    LOGGER.log(level, name, extra={"fields": fields})


class JsonLines(logging.Formatter):
    """time, level, event, and the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = type(record.exc_info[1]).__name__
        return json.dumps(line, ensure_ascii=False)


def log_json(*, debug: bool) -> None:
    """Sends the server's log, and uvicorn's errors, to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name, level in (("specdec_cli", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.DEBUG if debug else level)


class Metrics:
    """What a server counts. No label holds anything that a client sent."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self._registry), partial(Gauge, registry=self._registry)
        times = partial(Histogram, buckets=_SECONDS, registry=self._registry)
        self.requests = counter("specdec_requests", "Requests by route and status.", ("route", "status"))
        self.seconds = times("specdec_request_seconds", "Request to answer.", ("route",))
        self.drafted = counter("specdec_drafted_tokens", "Drafted tokens that were verified.")
        self.accepted = counter("specdec_accepted_tokens", "Drafted tokens that were accepted.")
        self.generated = counter("specdec_generated_tokens", "Corrections, bonus tokens and run-on tokens.")
        self.forwards = counter("specdec_forwards", "Forwards of the model.")
        self.clips = counter("specdec_forward_clips", "Clips that forwards were made for.")
        self.forward_s = times("specdec_forward_seconds", "Time of a forward.")
        self.forgotten = counter("specdec_sessions_forgotten", "Clips that were dropped.", ("why",))
        self.sessions = gauge("specdec_sessions", "Clips held.")
        self.held_bytes = gauge("specdec_session_bytes", "Memory of the clips held.")
        self.waiting = gauge("specdec_waiting", "Requests that wait for the model.")

    def fed(self, clips: int, seconds: float) -> None:
        self.forwards.inc()
        self.clips.inc(clips)
        self.forward_s.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)


def observed(app: ASGIApp, metrics: Metrics) -> ASGIApp:
    """Logs and counts every request around an application."""

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the server's lifetime
            await app(scope, receive, send)
            return
        started, status = time.perf_counter(), GONE

        async def sending(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        with suppress(Exception):  # which the application has answered and logged
            await app(scope, receive, sending)
        seconds = time.perf_counter() - started
        path = getattr(scope.get("route"), "path_format", None)
        # a label is one of a few texts of this program's own: a client may make up methods, and the counters stay
        route = f"{scope['method']} {path}" if path and scope["method"] in _METHODS else "other"
        metrics.requests.labels(route, str(status)).inc()
        metrics.seconds.labels(route).observe(seconds)
        client = (scope.get("client") or ("",))[0]
        event("request", route=route, status=status, ms=round(seconds * 1e3, 2), client=client)

    return counted
