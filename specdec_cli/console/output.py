"""What goes to stdout: captions and JSON, plain, in UTF-8, one a line."""

from __future__ import annotations

import json
import os
import sys
import unicodedata

from specdec_cli.console.cells import clean, paragraph
from specdec_cli.console.view import View

BROKEN_PIPE_STATUS = 141
"""What a shell reports for a program that ended because nobody read its output any more (128 + SIGPIPE)."""


def print_caption(caption: str, *, view: View | None = None, label: str | None = None) -> None:
    """Write a caption to stdout as one line: white space as single spaces, control characters as escapes.

    What `view` has shown is not printed a second time on the same screen. A `label`, e.g. the file's name where there
    are several, stands before the caption with a tab between them.

    Raises:
        SystemExit: nobody reads stdout any more.
    """
    if view is not None and view.shows_caption and sys.stdout.isatty():
        return
    line = paragraph(caption)
    write_line(line if label is None else f"{clean(label)}\t{line}")


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
