"""What goes out in plain lines: captions and JSON, one a line, on stdout; errors with their hints on stderr."""

from __future__ import annotations

import json
import os
import sys
import traceback
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean, hanging, paragraph
from specdec_cli.console.theme import BAD, DIM
from specdec_cli.errors import SpecdecError

if TYPE_CHECKING:
    from specdec_cli.console.view import View

BROKEN_PIPE_STATUS = 141
"""What a shell reports for a program that ended because nobody read its output any more (128 + SIGPIPE)."""


def console_on(*, stderr: bool = False, width: int | None = None) -> Console:
    """A console on stdout or stderr that interprets neither markup nor emoji codes."""
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def print_caption(caption: str, *, view: View | None = None, before: Sequence[str] = ()) -> None:
    """Write a caption to stdout as one line: white space as single spaces, control characters as escapes.

    What `view` has shown is not printed a second time on the same screen. What stands `before` the caption, e.g. the
    file's name where there are several, is separated by tabs.

    Raises:
        SystemExit: nobody reads stdout any more.
    """
    if view is not None and view.shows_caption and sys.stdout.isatty():
        return
    write_line("\t".join([*map(clean, before), paragraph(caption)]))


def write_line(line: str) -> None:
    """Write `line` and a newline to stdout at once: in UTF-8, but in the terminal's own encoding to a terminal.

    What a terminal would act on (U+009B, U+202E) becomes an escape there, which JSON reads back as the character.

    Raises:
        SystemExit: nobody reads stdout any more.
    """
    encoding = "utf-8"
    if sys.stdout.isatty():
        encoding = sys.stdout.encoding or encoding
        line = "".join(map(_visible, line))
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(line.encode(encoding, "backslashreplace") + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(BROKEN_PIPE_STATUS) from None


def _visible(character: str) -> str:
    if character == "\t" or character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return json.dumps(character)[1:-1]


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
    console = console or console_on(stderr=True)
    if debug:
        trace = "".join(traceback.format_exception(error))
        for row in trace.rstrip("\n").split("\n"):
            console.print(Text(clean(row), style=DIM), soft_wrap=True)
    for line in error_lines(error, file=file, width=console.width if console.is_terminal else None):
        console.print(line, soft_wrap=True)
