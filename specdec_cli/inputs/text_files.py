"""Text files that tables and cuts are read from, also packed ones and those in UTF-16, and the texts in them."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from pathlib import Path
from typing import Final

from specdec_cli.errors import ReferencesError
from specdec_cli.regular_files import open_regular

MOST_BYTES: Final = 256 << 20
"""Largest table, manifest or file of cuts, unpacked."""
NONE: Final = frozenset({"", "na", "n/a", "#n/a", "nan", "nat", "none", "null", "<na>", "-"})
"""Cells without a value, in small letters."""
_GZIP: Final = b"\x1f\x8b"
_ZIP: Final = b"PK\x03\x04"
UNDECODED: Final = re.compile(r"[\ud800-\udfff]")  # of bytes that are not UTF-8, read leniently


def read_text(path: Path, *, lenient: bool = False) -> str:
    """The text of a regular file in UTF-8, or in UTF-16, as Praat and Excel write it.

    One that gzip packed is unpacked. `lenient`: bytes that are not UTF-8 become lone surrogates.

    Raises:
        ReferencesError: it cannot be read, is not text, or has more than `MOST_BYTES` once unpacked.
    """
    try:
        with open_regular(path) as stored:
            packed = stored.read(len(_GZIP)) == _GZIP or path.name.lower().endswith(".gz")
            stored.seek(0)
            with gzip.open(stored) if packed else stored as file:
                data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError, EOFError, zlib.error) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        hint = "Check the path and its permissions, and whether the file is complete."
        raise ReferencesError(f"{path} cannot be read: {reason}.", hint=hint) from error
    if len(data) > MOST_BYTES:
        raise ReferencesError(f"{path} holds more than {MOST_BYTES >> 20} MiB.", hint="Split it into smaller files.")
    if data.startswith(_ZIP):
        hint = "A workbook (.xlsx) is one: save it as CSV. Take other files out of their archive."
        raise ReferencesError(f"{path} is not text but a ZIP archive.", hint=hint)
    if data[:2].count(0) == 1:  # UTF-16 without a mark; no text begins with a NUL
        data = (codecs.BOM_UTF16_BE if data[0] == 0 else codecs.BOM_UTF16_LE) + data
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        if utf16:
            return data.decode("utf-16")
        return data.decode("utf-8-sig", "surrogateescape" if lenient else "strict")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ReferencesError(f"{path}, line {line}: not UTF-8 text.", hint="Save it as UTF-8.") from error


def decoded(text: str) -> bool:
    """Whether a text that was read leniently is UTF-8 throughout."""
    return text.isascii() or UNDECODED.search(text) is None


def cell_text(value: object) -> str | None:
    """A text or a number as one line; None for all other values."""
    return " ".join(str(value).split()) or None if isinstance(value, str | int | float) else None
