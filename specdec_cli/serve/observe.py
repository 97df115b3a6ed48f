"""The log: one JSON object a line on stderr, which holds nothing of a clip: no ids, no text, no features."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

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
