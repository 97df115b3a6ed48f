"""The formats by name, and exporting transcripts to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from specdec_cli.errors import ConfigError, WrongFileError
from specdec_cli.export.annotation import eaf, kinds_of, textgrid
from specdec_cli.export.folder import Folder, Written, shortened
from specdec_cli.export.recordings import CaptionedRecording, Stored
from specdec_cli.export.tables import audio_folder, database, table
from specdec_cli.export.turns import rttm, srt, txt, vtt
from specdec_cli.journal import StoredLine
from specdec_cli.targets import STDOUT, Targets, to_stdout
from specdec_cli.transcript.lines import head_of
from specdec_cli.types import ExportFormat

_EACH: Final[Mapping[ExportFormat, Callable[[CaptionedRecording, Mapping[str, str], Path], str]]] = {
    "textgrid": lambda recording, kinds, _: textgrid(recording, kinds),
    "eaf": eaf,
    "srt": lambda recording, *_: srt(recording),
    "vtt": lambda recording, *_: vtt(recording),
    "txt": lambda recording, *_: txt(recording),
}
"""Formats with a file per recording -> what makes its text of a recording, the `kinds_of` all, and the file's path."""

SUFFIXES: Final[Mapping[ExportFormat, str]] = {
    **{name: f".{name}" for name in (*_EACH, "rttm", "csv")},
    "textgrid": ".TextGrid",
}
"""Format -> ending of its files, of those that can be written to a file of any name."""
_NAMED: Final = 3
"""Recordings that are named in a message."""


def format_of(target: Path) -> ExportFormat | None:
    """The format of a file by the ending of its name; None: the ending is of no format."""
    return next((name for name, suffix in SUFFIXES.items() if target.suffix.lower() == suffix.lower()), None)


def takes_several(name: ExportFormat) -> bool:
    """Whether one file of a format is of several recordings."""
    return name not in _EACH


def export(stored: Stored, formats: Sequence[ExportFormat], folder: Path, targets: Targets, *, naming: str) -> Written:
    """Writes transcripts in other formats: a file per recording, or one file or folder named after the transcripts.

    `naming` says what names turns in RTTM (see `rttm`). What may not be replaced in the folder is left alone.

    Raises:
        TranscriptError: the transcripts cannot be read, or the folder cannot be written at all.
    """
    target, recordings = Folder(folder, targets), _recordings(stored, formats)
    for name in formats:
        try:
            if name == "audiofolder":
                _put_audio_folder(recordings, target)
                continue
            for file, text, recording in _files(name, stored, recordings, folder, naming):
                target.put(file, text, recording)
        except ConfigError as error:
            target.result.problems.append(error)
    return target.result


def _put_audio_folder(recordings: Sequence[CaptionedRecording], target: Folder) -> None:
    """Writes `metadata.jsonl`; recordings that it cannot hold are a problem."""
    text, left_out = audio_folder(recordings, target.path)
    if len(left_out) < len(recordings):
        target.put("metadata.jsonl", text)
    if left_out:
        more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
        hint = "The folder to write to is that of the recordings; pieces have to be files of their own."
        reasons = f"not in {target.path}, captioned in pieces, or not named in UTF-8"
        message = f"metadata.jsonl leaves out {', '.join(left_out[:_NAMED])}{more}: {reasons}."
        target.result.problems.append(WrongFileError(message, hint=hint))


def export_file(stored: Stored, name: ExportFormat, file: Path, targets: Targets, *, naming: str) -> Written:
    """Writes transcripts to one file of a format that has one, or to stdout; see `export`.

    Raises:
        ConfigError: the format has a file per recording, and there are several.
    """
    recordings = _recordings(stored, [name])
    if name in _EACH:
        if len(recordings) != 1:
            hint = "Name a folder, for a file per recording."
            raise ConfigError(f"{stored.transcripts} has {len(recordings)} recordings, {file} is one file.", hint=hint)
        recordings = [replace(recordings[0], name=file.stem)]
    texts = [text for _, text, _ in _files(name, stored, recordings, file.parent, naming)]
    if file == STDOUT:
        to_stdout(text.removeprefix("\ufeff") for text in texts)  # which is for Excel, and for no pipe
        return Written(len(texts))
    folder = Folder(file.parent, targets)
    for text in texts:
        folder.put(file.name, text)
    return folder.result


def text_of(name: ExportFormat, content: bytes) -> str:
    """Transcripts of one recording (JSON lines) in a format that has a file per recording and does not name it.

    Raises:
        TranscriptError: they are malformed, without a caption, or of several recordings.
    """
    place = Path("The request")
    read = [head_of(place, StoredLine(number, 0, raw)) for number, raw in enumerate(content.splitlines(), 1)]
    lines = [line for line in read if line.head.good]
    if len({line.key for line in lines}) != 1:
        raise WrongFileError(
            "Captions of exactly one recording can be exported.", hint="Send its transcripts as they came."
        )
    recording = CaptionedRecording.of(lines[0].key.path, "", lines, place, datetime.now(UTC))
    return _EACH[name](recording, kinds_of([recording]), place)


def _recordings(stored: Stored, formats: Sequence[ExportFormat]) -> list[CaptionedRecording]:
    """The recordings that formats are made of; a CSV needs none: it has the lines, with or without a place."""
    return [] if set(formats) == {"csv"} else list(stored)


def _files(
    name: ExportFormat, stored: Stored, recordings: Sequence[CaptionedRecording], folder: Path, naming: str
) -> Iterator[tuple[str, str, str | None]]:
    """The files of a format: name in the folder, text, and the recording that it is about if it is about one."""
    stem = stored.transcripts.stem
    if name == "csv" and stored.runs:
        yield shortened(stem, ".csv"), table(stored), None
    elif name == "rttm" and recordings:
        yield shortened(stem, ".rttm"), rttm(recordings, naming), None
    elif name == "audformat" and recordings:
        yield from ((f"audformat/{file}", text, None) for file, text in database(recordings).items())
    elif name in _EACH:
        kinds = kinds_of(recordings)
        for recording in recordings:
            file = shortened(recording.name, SUFFIXES[name])
            yield file, _EACH[name](recording, kinds, folder / file), recording.path
