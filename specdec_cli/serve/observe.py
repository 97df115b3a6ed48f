"""Logs and counters. Neither holds anything of a clip: no ids, no text, no features.

The log is one JSON object a line on stderr; the counters are for Prometheus, in a registry of the server's own.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOGGER: Final = logging.getLogger("specdec_cli.serve")
_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_GONE: Final = 499  # the client left before an answer began


def event(name: str, level: int = logging.INFO, **fields: object) -> None:
    """Logs that something happened."""
    LOGGER.log(level, name, extra={"fields": fields})


class JsonLines(logging.Formatter):
    """time, level, event, and the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = f"{type(record.exc_info[1]).__name__}"
        return json.dumps(line, ensure_ascii=False)


def log_json(stream: TextIO | None = None, *, debug: bool = False) -> None:
    """Sends the server's log, and uvicorn's errors, to a stream; None: stderr."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in (("specdec_cli", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.DEBUG if debug else level)


class Metrics:
    """What a server counts. No label holds anything that a client sent."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter("requests", "Requests by route and status.", "route", "status")
        self._seconds = Histogram(
            "specdec_request_seconds", "Request to answer.", ("route",), buckets=_SECONDS, registry=self.registry
        )
        self._bytes = self._counter("bytes", "Bytes of bodies.", "direction")
        self._drafted = self._counter("drafted_tokens", "Drafted tokens that were judged.")
        self._accepted = self._counter("accepted_tokens", "Drafted tokens that were accepted.")
        self._generated = self._counter("generated_tokens", "Corrections, bonus tokens and run-on tokens.")
        self._forwards = self._counter("forwards", "Forwards of the model.")
        self._clips = self._counter("forward_clips", "Clips that forwards were made for.")
        self._forward_s = Histogram(
            "specdec_forward_seconds", "Time of a forward.", buckets=_SECONDS, registry=self.registry
        )
        self._forgotten = self._counter("sessions_forgotten", "Clips that were dropped.", "why")
        self.sessions = Gauge("specdec_sessions", "Clips held.", registry=self.registry)
        self.held_bytes = Gauge("specdec_session_bytes", "Memory of the clips held.", registry=self.registry)
        self.waiting = Gauge("specdec_waiting", "Requests that wait for the model.", registry=self.registry)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"specdec_{name}", meaning, labels, registry=self.registry)

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

    def forgot(self, why: str) -> None:
        """A clip was dropped."""
        self._forgotten.labels(why).inc()

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)


class Observed:
    """Logs and counts every request around an application."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the server's lifetime."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status, received, sent, gone = 0, 0, 0, False

        async def receiving() -> Message:
            nonlocal received, gone
            message = await receive()
            received += len(message.get("body", b""))
            gone = gone or message["type"] == "http.disconnect"
            return message

        async def sending(message: Message) -> None:
            nonlocal status, sent
            status = message.get("status", status)
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receiving, sending)
        finally:
            seconds = time.perf_counter() - started
            path = getattr(scope.get("route"), "path", None)
            route = f"{scope['method']} {path}" if path else "other"
            status = _GONE if gone or not status else status
            self._metrics.answered(route, status, seconds, received, sent)
            event(
                "request",
                route=route,
                status=status,
                ms=round(seconds * 1e3, 2),
                received=received,
                sent=sent,
                client=(scope.get("client") or ("",))[0],
            )
