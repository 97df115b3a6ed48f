"""Tables that a user asked for, on stdout: the settings in force, and what a check-up found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean, hanging, padded
from specdec_cli.console.figures import count, setting
from specdec_cli.console.theme import ASKED, BAD, DIM, GOOD, Signs, signs_for

Status = Literal["ok", "warn", "fail"]

_STYLES: dict[Status, str] = {"ok": GOOD, "warn": ASKED, "fail": BAD}
_UNLIMITED = 10_000


def stdout_console() -> Console:
    """A console on stdout that interprets neither markup nor emoji codes."""
    return Console(markup=False, emoji=False, highlight=False)


def print_config(rows: Sequence[tuple[str, object, str]], *, console: Console | None = None) -> None:
    """Print settings, one a line: its name, its value, and where the value comes from.

    Args:
        rows: name, value, origin of each setting.
        console: where to print, stdout if None; into a file or a pipe, lines are as long as they need to be.
    """
    console = console or stdout_console()
    texts = [(Text(clean(name)), Text(clean(setting(value))), Text(clean(origin), DIM)) for name, value, origin in rows]
    width = console.width if console.is_terminal else _UNLIMITED
    first = _widest([name for name, _, _ in texts])
    room = max(width - first - 2, 8)
    second = min(_widest([value for _, value, _ in texts]), max(room * 3 // 5, 4))
    for name, value, origin in texts:
        values = hanging(Text(), value, 0, second)
        tail = hanging(Text(), origin, 0, room - second - 2)
        for index in range(max(len(values), len(tail))):
            line = padded(name if index == 0 else Text(), first)
            line.append("  ").append_text(padded(values[index] if index < len(values) else Text(), second))
            line.append("  ").append_text(tail[index] if index < len(tail) else Text())
            _print(console, line)


def print_doctor(checks: Sequence[tuple[str, Status, str]], *, console: Console | None = None) -> None:
    """Print checks, one a line: a sign and a word for its outcome, its name, and the detail.

    Args:
        checks: name, outcome, detail of each check.
        console: where to print, stdout if None.
    """
    console = console or stdout_console()
    signs = signs_for(console)
    width = console.width if console.is_terminal else _UNLIMITED
    heads = [(_outcome(status, signs), Text(clean(name))) for name, status, _ in checks]
    first, second = _widest([head for head, _ in heads]), _widest([name for _, name in heads])
    for (outcome, name), (_, _, detail) in zip(heads, checks, strict=True):
        head = Text.assemble(padded(outcome, first), "  ", padded(name, second), "  ")
        for line in hanging(head, Text(clean(detail)), head.cell_len, max(width, head.cell_len + 8)):
            _print(console, line)
    _print(console, Text())
    _print(console, _verdict([status for _, status, _ in checks]))


def _outcome(status: Status, signs: Signs) -> Text:
    sign = {"ok": signs.ok, "warn": signs.warn, "fail": signs.fail}[status]
    return Text(status if sign == status else f"{sign} {status}", style=_STYLES[status])


def _verdict(statuses: Sequence[Status]) -> Text:
    failed, warned = statuses.count("fail"), statuses.count("warn")
    if not failed and not warned:
        return Text("All is well.", style=GOOD)
    parts = [count(failed, "problem")] if failed else []
    parts += [count(warned, "warning")] if warned else []
    return Text(", ".join(parts) + ".", style=BAD if failed else ASKED)


def _widest(texts: Sequence[Text]) -> int:
    return max((text.cell_len for text in texts), default=0)


def _print(console: Console, line: Text) -> None:
    line.rstrip()
    console.print(line, no_wrap=True, overflow="ignore", crop=console.is_terminal)
