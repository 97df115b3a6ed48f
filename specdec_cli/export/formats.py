"""The formats by name, and exporting transcripts to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from specdec_cli.batch.lines import Line
from specdec_cli.errors import ConfigError, SpecdecError
from specdec_cli.export.annotation import eaf, textgrid
from specdec_cli.export.audformat import database
from specdec_cli.export.folder import Folder, Written, fitted, safe
from specdec_cli.export.recordings import CaptionedRecording, Stored
from specdec_cli.export.rttm import rttm
from specdec_cli.export.subtitles import srt, vtt
from specdec_cli.export.table import table_rows
from specdec_cli.inputs.find import relative_name
from specdec_cli.inputs.manifest import Inputs
from specdec_cli.inputs.recording import Key
from specdec_cli.targets import STDOUT, TABLE, write
from specdec_cli.transcript.schema import readable
from specdec_cli.types import ExportFormat

_EACH: Final[Mapping[ExportFormat, Callable[[CaptionedRecording, Path], str]]] = {
    "textgrid": textgrid,
    "eaf": eaf,
    "srt": srt,
    "vtt": vtt,
}
SUFFIXES: Final[Mapping[ExportFormat, str]] = {
    "textgrid": ".TextGrid",
    "eaf": ".eaf",
    "srt": ".srt",
    "vtt": ".vtt",
    "rttm": ".rttm",
    "csv": ".csv",
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
    naming: str | None,
    inputs: Inputs | None = None,
) -> Written:
    """Writes transcripts in other formats: a file per recording, or one file or folder named after the transcripts.

    Args:
        stored: the transcripts.
        formats: names of them.
        folder: where to; created with the first file. What specdec did not write there is left alone.
        option: that names the folder, for messages.
        naming: what names turns in RTTM, see `rttm`.
        inputs: the order of the table's rows; None: that of the transcripts.

    Raises:
        TranscriptError: the transcripts cannot be read, or the folder cannot be written at all.
    """
    each = {name: _EACH[name] for name in formats if name in _EACH}
    with Folder(folder, option) as target:
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


def _put_all(target: Folder, stored: Stored, name: ExportFormat, naming: str | None, inputs: Inputs | None) -> None:
    """The files of a format that are about all recordings; see `export`."""
    if name == "txt":
        put_texts(target, stored)
    elif name == "csv" and stored.runs:
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


def export_file(stored: Stored, name: ExportFormat, file: Path, *, naming: str | None) -> Written:
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
        text = _EACH[name](recordings[0], file)
    if file == STDOUT:
        write(file, text, TABLE)
        return Written(1)
    with Folder(file.parent, "--output") as folder:
        folder.put(file.name, text)
    return folder.result


def put_texts(target: Folder, stored: Stored) -> None:
    """A text file per captioned clip, see `text_name`."""
    for key in stored.runs:
        if text := as_text(list(stored.lines([key]))):
            target.put(text_name(key, stored.base), text)


def text_name(key: Key, base: str) -> str:
    """The path of a clip's text file below a folder: `speaker/clip.wav` becomes `speaker/clip.wav.txt`.

    A clip with an id of its own becomes `ID.txt`. No two clips have the same.
    """
    return fitted(relative_name(key.path, base) if key.id is None else safe(key.id), ".txt")


def as_text(lines: list[Line]) -> str:
    """The captions of a clip, one a line; nothing if there is none."""
    captions = (str(line.values["caption"]) for line in lines if line.good)
    return readable("".join(f"{' '.join(caption.split())}\n" for caption in captions))
