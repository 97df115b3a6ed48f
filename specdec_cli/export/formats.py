"""The formats by name, and exporting transcripts to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from specdec_cli.errors import ConfigError, SpecdecError
from specdec_cli.export.annotation import eaf, kinds_of, textgrid
from specdec_cli.export.folder import Folder, Written
from specdec_cli.export.recordings import CaptionedRecording, Stored
from specdec_cli.export.tables import database, table_rows
from specdec_cli.export.turns import rttm, srt, txt, vtt
from specdec_cli.inputs.manifest import Inputs
from specdec_cli.targets import STDOUT, TABLE, write
from specdec_cli.types import ExportFormat

SUFFIXES: Final[Mapping[ExportFormat, str]] = {
    "textgrid": ".TextGrid",
    "eaf": ".eaf",
    "srt": ".srt",
    "vtt": ".vtt",
    "rttm": ".rttm",
    "csv": ".csv",
    "txt": ".txt",
}
"""Format -> ending of its files, of those that can be written to a file of any name."""

_EACH: Final[Mapping[ExportFormat, Callable[[CaptionedRecording, Mapping[str, str], Path], str]]] = {
    "textgrid": lambda recording, kinds, _: textgrid(recording, kinds),
    "eaf": eaf,
    "srt": lambda recording, *_: srt(recording),
    "vtt": lambda recording, *_: vtt(recording),
    "txt": lambda recording, *_: txt(recording),
}
"""Formats with a file per recording: from a recording, `kinds_of` all and the file's path to its text."""


def format_of(target: Path) -> ExportFormat | None:
    """The format that the ending of a file's name says; None where it says none."""
    return next((name for name, suffix in SUFFIXES.items() if target.suffix.lower() == suffix.lower()), None)


def export(
    stored: Stored,
    formats: Sequence[ExportFormat],
    folder: Path,
    option: str,
    *,
    naming: str,
    inputs: Inputs | None = None,
) -> Written:
    """Writes transcripts in other formats: a file per recording, or one file or folder named after the transcripts.

    `option` names the folder in messages, `naming` says what names turns in RTTM (see `rttm`), and rows of a table come
    in the order of `inputs`. What specdec did not write in the folder is left alone.

    Raises:
        TranscriptError: the transcripts cannot be read, or the folder cannot be written at all.
    """
    each, target = [name for name in formats if name in _EACH], Folder(folder, option)
    kinds = kinds_of(stored) if each else {}
    for recording in stored if each else ():
        for name in each:
            path = f"{recording.name}{SUFFIXES[name]}"
            target.put(path, _EACH[name](recording, kinds, folder / path))
    stem, captioned = stored.transcripts.stem, next(iter(stored), None) is not None
    for name in formats:
        try:
            if name == "csv" and stored.runs:
                folder.mkdir(parents=True, exist_ok=True)
                write(folder / f"{stem}.csv", table_rows(stored, inputs), TABLE)
                target.result.count += 1
            elif name == "audformat" and captioned:
                for file, text in database(stored).items():
                    target.put(f"audformat/{file}", text)
            elif name == "rttm" and captioned:
                target.put(f"{stem}.rttm", rttm(stored, naming))
        except SpecdecError as error:
            target.result.problems.append(error)
    return target.result


def export_file(stored: Stored, name: ExportFormat, file: Path, *, naming: str) -> Written:
    """Writes transcripts to one file of a format that has one, or to stdout; see `export`.

    Raises:
        ConfigError: the format has a file per recording, and there are several.
    """
    if name == "csv":
        write(file, table_rows(stored), TABLE)
        return Written(1)
    if name == "rttm":
        text = rttm(stored, naming)
    else:
        recordings = list(stored)
        if len(recordings) != 1:
            hint = "Name a folder, for a file per recording."
            raise ConfigError(f"{stored.transcripts} has {len(recordings)} recordings, {file} is one file.", hint=hint)
        text = _EACH[name](recordings[0], kinds_of(recordings), file)
    if file == STDOUT:
        write(file, text, TABLE)
        return Written(1)
    folder = Folder(file.parent, "--output")
    folder.put(file.name, text)
    return folder.result
