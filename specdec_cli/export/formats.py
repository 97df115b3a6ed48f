"""The formats by name, and exporting transcripts to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from specdec_cli.errors import ConfigError, SpecdecError
from specdec_cli.export.annotation import eaf, textgrid
from specdec_cli.export.audformat import database
from specdec_cli.export.folder import Folder, Written, fitted
from specdec_cli.export.recordings import CaptionedRecording, Stored
from specdec_cli.export.rttm import rttm
from specdec_cli.export.subtitles import srt, txt, vtt
from specdec_cli.export.table import table_rows
from specdec_cli.export.tiers import kinds_of
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

    Args:
        folder: created with the first file. What specdec did not write there is left alone.
        option: that names the folder, for messages.
        naming: what names turns in RTTM, see `rttm`.
        inputs: the order of the table's rows; None: that of the transcripts.

    Raises:
        TranscriptError: the transcripts cannot be read, or the folder cannot be written at all.
    """
    each = _each(formats, stored)
    target = Folder(folder, option)
    for recording in stored if each else ():
        for name, text in each.items():
            path = fitted(recording.name, SUFFIXES[name])
            target.put(path, text(recording, folder / path))
    for name in formats:
        try:
            _put_all(target, stored, name, naming, inputs)
        except SpecdecError as error:
            target.result.problems.append(error)
    return target.result


def _each(
    formats: Iterable[ExportFormat], recordings: Iterable[CaptionedRecording]
) -> dict[ExportFormat, Callable[[CaptionedRecording, Path], str]]:
    """Those formats that have a file per recording, each with what gives its text, for a target."""
    kinds = kinds_of(recordings) if {"textgrid", "eaf"}.intersection(formats) else {}
    every: dict[ExportFormat, Callable[[CaptionedRecording, Path], str]] = {
        "textgrid": lambda recording, _: textgrid(recording, kinds),
        "eaf": lambda recording, target: eaf(recording, kinds, target),
        "srt": lambda recording, _: srt(recording),
        "vtt": lambda recording, _: vtt(recording),
        "txt": lambda recording, _: txt(recording),
    }
    return {name: every[name] for name in formats if name in every}


def _put_all(target: Folder, stored: Stored, name: ExportFormat, naming: str, inputs: Inputs | None) -> None:
    """The files of a format that are about all recordings; see `export`."""
    if name == "csv" and stored.runs:
        table = target.path / fitted(stored.transcripts.stem, ".csv")
        target.path.mkdir(parents=True, exist_ok=True)
        write(table, table_rows(stored, inputs), TABLE)
        target.result.count += 1
    elif next(iter(stored), None) is None:
        return
    elif name == "audformat":
        for file, parts in database(stored).items():
            target.put(f"audformat/{file}", "".join(parts))
    elif name == "rttm":
        target.put(fitted(stored.transcripts.stem, ".rttm"), "".join(rttm(stored, naming)))


def export_file(stored: Stored, name: ExportFormat, file: Path, *, naming: str) -> Written:
    """Writes transcripts to one file of a format that has one, or to stdout; see `export`.

    Raises:
        ConfigError: the format has a file per recording, and there are several.
    """
    if name == "csv":
        write(file, table_rows(stored), TABLE)
        return Written(1)
    if name == "rttm":
        text = "".join(rttm(stored, naming))
    else:
        recordings = list(islice(stored, 2))
        if len(recordings) != 1:
            has = "several recordings" if recordings else "no captions"
            hint = "Name a folder, for a file per recording." if recordings else "Each line says why it has none."
            raise ConfigError(f"{stored.transcripts} has {has}, and {file} is one file.", hint=hint)
        text = _each([name], recordings)[name](recordings[0], file)
    if file == STDOUT:
        write(file, text, TABLE)
        return Written(1)
    folder = Folder(file.parent, "--output")
    folder.put(file.name, text)
    return folder.result
