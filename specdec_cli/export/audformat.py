"""A database in audformat's layout: https://audeering.github.io/audformat/"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from specdec_cli.export.recordings import CaptionedRecording, columns, one_line, short_names
from specdec_cli.export.subtitles import clock
from specdec_cli.export.table import as_csv

_TABLE: Final = "pieces"
_RATER: Final = "specdec"
_LANGUAGES: Final = {"zh": "zho", "en": "eng"}  # ISO 639-3
_TEXTS: Final = ("caption", "speaker", "text", "flags")


def database(recordings: Iterable[CaptionedRecording]) -> dict[str, Iterable[str]]:
    """The files of a database: its header, and one table of all pieces with a segmented index.

    Columns are the caption and `details`; a label's column is called like its attribute. Recordings are named by their
    absolute paths, where audformat finds them.

    Args:
        recordings: iterated several times.

    Returns:
        Name of a file in the database's folder -> its text.
    """
    found = columns(piece.details for recording in recordings for piece in recording.pieces)
    names = {"caption": "caption", **short_names(found)}
    classes: dict[str, dict[str, None]] = {}
    languages: set[str] = set()
    for recording in recordings:
        for piece in recording.pieces:
            languages.add(_LANGUAGES[piece.language])
            for column, value in piece.details.items():
                if column.startswith("label_") and value is not None:
                    classes.setdefault(column, {})[one_line(str(value))] = None
    header = {
        "name": "specdec",
        "source": "specdec",
        "usage": "other",
        "languages": sorted(languages),
        "description": "How people speak, described by audio language models.",
        "raters": {_RATER: {"type": "machine"}},
        "schemes": {name: _scheme(column, list(classes.get(column, ()))) for column, name in names.items()},
        "tables": {
            _TABLE: {
                "type": "segmented",
                "columns": {name: {"scheme_id": name, "rater_id": _RATER} for name in names.values()},
            }
        },
    }
    header_text = yaml.safe_dump(header, sort_keys=False, allow_unicode=True)
    return {"db.yaml": [header_text], f"db.{_TABLE}.csv": _rows(recordings, names)}


def _rows(recordings: Iterable[CaptionedRecording], names: Mapping[str, str]) -> Iterator[str]:
    yield as_csv(["file", "start", "end", *names.values()])
    for recording in recordings:
        for piece in recording.pieces:
            known = {"caption": piece.caption, **piece.details}
            cells = (known.get(column) for column in names)
            shown = (one_line(cell) if isinstance(cell, str) else cell for cell in cells)
            yield as_csv([recording.path, _time(piece.start_ms), _time(piece.end_ms), *shown])


def _scheme(column: str, classes: Sequence[str]) -> Mapping[str, Any]:
    kind = column.partition("_")[0]
    if column in _TEXTS:
        return {"dtype": "str"}
    if kind == "score":
        return {"dtype": "float", "minimum": 0, "maximum": 1}
    if kind == "measured":
        return {"dtype": "float"}
    if kind == "label":
        return {"dtype": "str", **({"labels": classes} if classes else {})}
    return {"dtype": "bool"}


def _time(time_ms: int) -> str:
    """As pandas writes a Timedelta."""
    days, rest = divmod(time_ms, 86_400_000)
    return f"{days} days {clock(rest, '.')}000"
