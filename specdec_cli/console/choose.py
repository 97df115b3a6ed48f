"""Which display fits the place where specdec runs."""

from __future__ import annotations

import os
import sys

from rich.console import Console

from specdec_cli.console.errors import stderr_console
from specdec_cli.console.lines import LinesView
from specdec_cli.console.live import LiveView
from specdec_cli.console.plain import PlainView, QuietView
from specdec_cli.console.view import View

LOG_WIDTH = 100
"""Cells of a row where there is no terminal to ask."""


def choose_view(*, quiet: bool = False, no_live: bool = False, json: bool = False, debug: bool = False) -> View:
    """The display for stderr.

    Args:
        quiet: errors only.
        no_live: rows as ordinary lines, also into a file.
        json: JSON goes to stdout; on the terminal that shows it there is nothing else but errors.
        debug: errors with their traceback; nothing is redrawn, so that log lines and warnings stay where they are.

    Returns:
        On a terminal the live display, or its rows as ordinary lines with `no_live`, `debug`, under CI and where the
        cursor cannot be moved (TERM=dumb). Elsewhere two lines a clip, or rows with `no_live`.
    """
    console = stderr_console()
    terminal = sys.stderr.isatty()
    if quiet or (json and terminal and sys.stdout.isatty()):
        return QuietView(console, debug=debug)
    if not terminal:
        if not no_live:
            return PlainView(console, debug=debug)
        wide = Console(stderr=True, markup=False, emoji=False, highlight=False, width=LOG_WIDTH)
        return LinesView(wide, debug=debug)
    if no_live or debug or os.environ.get("CI") or not can_redraw():
        return LinesView(console, debug=debug)
    return LiveView(console, debug=debug)


def can_redraw() -> bool:
    """Whether the terminal can move its cursor."""
    return os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown") or sys.platform == "win32"
