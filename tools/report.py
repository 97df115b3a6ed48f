"""What the measurements print: tables, figures with their intervals, and the machine that they were taken on."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import specdec_cli
from specdec_cli.types import Interval


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table whose first column is on the left, and the others on the right."""
    print(title)
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(width=200, markup=False, highlight=False).print(table)


def spread_text(spread: Interval, digits: int = 2) -> str:
    """A figure with the ends of its interval, where it has one."""
    value = f"{spread.value:.{digits}f}"
    if spread.low is None or spread.high is None:
        return value
    return f"{value} ({spread.low:.{digits}f}-{spread.high:.{digits}f})"


def machine() -> str:
    """This machine and its libraries, in one line."""
    listed = Path("/proc/cpuinfo")  # `platform` has the processor's name on other systems than Linux
    named = re.search(r"^model name\s*:\s*(.*)", listed.read_text("utf-8") if listed.exists() else "", re.M)
    processor = named[1].strip() if named else platform.processor() or "unknown processor"
    computes = f"{processor}, {torch.get_num_threads()} of {os.cpu_count()} threads"
    if torch.cuda.is_available():
        computes = f"{torch.cuda.get_device_name()}; {computes}"
    libraries = f"torch {torch.__version__}, transformers {version('transformers')}"
    return f"specdec {specdec_cli.__version__}, {libraries}; {computes}"
