"""What a change waits for, and what CI runs beside it: the marker `slow`, on rows of a table."""

from collections.abc import Iterable
from typing import Any

import pytest


def few(rows: Iterable[Any], fast: int = 1) -> list[Any]:
    """Parameters of a test: the first `fast` rows belong to the fast tier, and the others to CI."""
    return [row if at < fast else slow(row) for at, row in enumerate(rows)]


def named(rows: Iterable[str], *fast: str) -> list[Any]:
    """Parameters of a test: the rows in `fast` belong to the fast tier, and the others to CI."""
    return [row if row in fast else slow(row) for row in rows]


def slow(row: Any) -> Any:
    """A row of a table of parameters that belongs to CI; a tuple is one value for each name."""
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.slow)
