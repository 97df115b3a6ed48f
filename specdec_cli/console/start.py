"""The parts of a start, on stdout."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from specdec_cli.bench.start import WITHIN
from specdec_cli.console.cells import hanging, padded
from specdec_cli.console.compare import PIPED_WIDTH
from specdec_cli.console.tables import stdout_console
from specdec_cli.console.theme import DIM, STRONG

_NAME, _FIGURE = 16, 12  # cells


def print_start(parts: Sequence[tuple[str, float, float, str]], starts: int, *, console: Console | None = None) -> None:
    """Print how long each part of a start took, and their sum.

    Args:
        parts: name, wall-clock ms, CPU ms and meaning of each.
        starts: over how many fresh processes the medians are taken.
        console: where to print, stdout if None.
    """
    console = console or stdout_console()
    width = console.width if console.is_terminal else PIPED_WIDTH
    lines = [Text(f"From the command to the first token, medians of {starts} starts", STRONG), _row("", "wall", "CPU")]
    for name, wall_ms, cpu_ms, meaning in parts:
        head = Text.assemble(_row(name, _ms(wall_ms), _ms(cpu_ms)), "   ")
        lines += hanging(head, Text(meaning, DIM), head.cell_len, max(width, head.cell_len + 16))
    counted = [part for part in parts if part[0] not in WITHIN]
    wall, cpu = sum(part[1] for part in counted), sum(part[2] for part in counted)
    lines.append(_row("together", _ms(wall), _ms(cpu)))
    for line in lines:
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _row(name: str, wall: str, cpu: str) -> Text:
    figures = [padded(Text(figure), _FIGURE, right=True) for figure in (wall, cpu)]
    return Text.assemble(padded(Text(f" {name}"), _NAME), *figures)


def _ms(value: float) -> str:
    return f"{value:.0f} ms"
