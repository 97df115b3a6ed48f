"""An error as a sentence and a hint."""

from __future__ import annotations

import traceback

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean, hanging, paragraph
from specdec_cli.console.theme import BAD, DIM
from specdec_cli.errors import SpecdecError


def stderr_console() -> Console:
    """A console on stderr that interprets neither markup nor emoji codes."""
    return Console(stderr=True, markup=False, emoji=False, highlight=False)


def error_lines(error: SpecdecError, *, file: str | None, width: int | None) -> list[Text]:
    """The error, named after `file` unless it names it itself, and its hint; a line each if `width` is None."""
    message = paragraph(error.message)
    if file is not None and clean(file) not in message:
        message = f"{clean(file)}: {message}"
    parts = [(Text("error:", style=BAD), Text(message))]
    if error.advice:
        parts.append((Text("hint:", style=DIM), Text(paragraph(error.advice))))
    if width is None:
        return [Text.assemble(label, " ", body) for label, body in parts]
    return [line for label, body in parts for line in hanging(label, body, 7, width)]


def print_error(
    error: SpecdecError, *, file: str | None = None, debug: bool = False, console: Console | None = None
) -> None:
    """Print `error` on stderr, with its traceback first if `debug`."""
    console = console or stderr_console()
    if debug:
        trace = "".join(traceback.format_exception(error))
        for row in trace.rstrip("\n").split("\n"):
            console.print(Text(clean(row), style=DIM), soft_wrap=True)
    for line in error_lines(error, file=file, width=console.width if console.is_terminal else None):
        console.print(line, soft_wrap=True)
