"""The formats of exports by name, and the endings of their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

from specdec_cli.types import ExportFormat, PictureFormat

FORMATS: Final[tuple[ExportFormat, ...]] = get_args(ExportFormat)
PICTURES: Final[tuple[PictureFormat, ...]] = get_args(PictureFormat)
SUFFIXES: Final[Mapping[ExportFormat, str]] = {name: f".{name}" for name in FORMATS} | {"textgrid": ".TextGrid"}
"""Format -> ending of its files."""


def format_of(target: Path) -> ExportFormat | None:
    """The format of a file by the ending of its name; None for other endings."""
    return next((name for name, suffix in SUFFIXES.items() if target.suffix.lower() == suffix.lower()), None)


def takes_several(name: ExportFormat) -> bool:
    """Whether one file of a format holds several recordings."""
    return name == "csv"
