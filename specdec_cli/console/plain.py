"""Plain lines: captions and JSON on stdout, warnings, errors and their hints on stderr."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper

from rich.console import Console
from rich.text import Text

from specdec_cli.config.settings import with_flags
from specdec_cli.console.cells import Prose
from specdec_cli.console.theme import BAD, DIM
from specdec_cli.errors import BROKEN_PIPE_STATUS, SpecdecError
from specdec_cli.text import clean, paragraph


def console_on(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr that interprets neither markup nor emoji codes; ? for what it cannot encode."""
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def print_line(console: Console, line: Text, label: Text | None = None) -> None:
    """Print a line beside its label; a terminal wraps it."""
    if console.is_terminal:
        console.print(Prose(line, label or Text(), label.cell_len + 1 if label else 0))
    else:
        console.print(Text.assemble(label, " ", line) if label else line, soft_wrap=True)


def print_caption(caption: str, *, before: Sequence[str] = (), shown: bool = False) -> None:
    """Write a caption to stdout as one line: white space as single spaces, control characters as escapes.

    What stands `before` the caption, e.g. the file's name where there are several, is separated by tabs. A caption that
    a display has `shown` is not printed a second time on the same screen.

    Raises:
        SystemExit: nobody reads stdout any more.
    """
    if not (shown and sys.stdout.isatty()):
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
        line = "".join(each if each.isprintable() or each == "\t" else json.dumps(each)[1:-1] for each in line)
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(line.encode(encoding, "backslashreplace") + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(BROKEN_PIPE_STATUS) from None


def warn(sentence: str, console: Console | None = None) -> None:
    """Print a warning on stderr."""
    print_line(console or console_on(stderr=True), Text(clean(sentence)), Text("warning:", BAD))


def print_error(
    error: SpecdecError, *, file: str | None = None, debug: bool = False, console: Console | None = None
) -> None:
    """Print `error` and its hint on stderr, behind the name of its `file` unless the message has it.

    `debug`: print its traceback, too.
    """
    console = console or console_on(stderr=True)
    for row in "".join(traceback.format_exception(error)).splitlines() if debug else ():
        console.print(Text(clean(row), style=DIM), soft_wrap=True)
    message = paragraph(error.message)
    if file is not None and clean(file) not in message:
        message = f"{clean(file)}: {message}"
    print_line(console, Text(message), Text("error:", BAD))
    for number, row in enumerate(with_flags(error.hint or "").splitlines()):
        print_line(console, Text(paragraph(row)), Text("     " if number else "hint:", DIM))
