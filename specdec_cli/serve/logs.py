"""One JSON object a line on stderr. What clips say or sound like is never in it: no ids, no text, no features."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

LOGGER: Final = logging.getLogger("specdec_cli.serve")


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
