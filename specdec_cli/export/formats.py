"""The formats by name, and exporting transcripts to them. The writer of a format is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from specdec_cli.errors import AudioError, ConfigError, WrongFileError
from specdec_cli.export.endings import PICTURES, SUFFIXES, takes_several
from specdec_cli.export.folder import Folder, Written, shortened
from specdec_cli.export.recordings import CaptionedRecording, Stored
from specdec_cli.journal import StoredLine
from specdec_cli.targets import STDOUT, Targets, to_stdout
from specdec_cli.transcript.lines import head_of
from specdec_cli.types import ExportFormat

_Writer = Callable[[CaptionedRecording, Path], str | bytes]
"""From a recording, and the path of the file about it, to the content of that file."""


def export(stored: Stored, formats: Sequence[ExportFormat], folder: Path, targets: Targets) -> Written:
    """Writes transcripts in other formats: a CSV named after the transcripts, of other formats a file per recording.

    Files that may not be replaced are left alone.

    Raises:
        TranscriptError: the transcripts cannot be read, or the folder cannot be written at all.
    """
    target, recordings = Folder(folder, targets), _recordings(stored, formats)
    for name in formats:
        if takes_several(name):
            if stored.runs:
                target.put(shortened(stored.transcripts.stem, SUFFIXES[name]), _table(stored))
            continue
        write = _writer(name, recordings)
        for recording in recordings:
            file = shortened(recording.name, SUFFIXES[name])
            try:
                target.put(file, write(recording, folder / file), recording.path)
            except AudioError as error:  # a picture of a recording that is not there any more
                target.result.problems.append(error)
    return target.result


def export_file(stored: Stored, name: ExportFormat, file: Path, targets: Targets) -> Written:
    """Writes transcripts to one file of a format, or to stdout; see `export`.

    Raises:
        ConfigError: the format has a file per recording, and there are several.
        AudioError: the recording of a picture cannot be read.
    """
    contents = list(_contents(stored, name, file))
    if file == STDOUT:
        # the byte order mark is for Excel, and for no pipe
        to_stdout(text.removeprefix("\ufeff") if isinstance(text, str) else text for text in contents)
        return Written(len(contents))
    folder = Folder(file.parent, targets)
    for content in contents:
        folder.put(file.name, content)
    return folder.result


def text_of(name: ExportFormat, content: bytes) -> str:
    """Transcripts of one recording (JSON lines) as a TextGrid or as subtitles.

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
    return str(_writer(name, [recording])(recording, place))


def _contents(stored: Stored, name: ExportFormat, file: Path) -> Iterator[str | bytes]:
    """The content of the one file of a format, or nothing if there is nothing to write."""
    recordings = _recordings(stored, [name])
    if takes_several(name):
        if stored.runs:
            yield _table(stored)
    elif len(recordings) == 1:
        yield _writer(name, recordings)(replace(recordings[0], name=file.stem), file)
    else:
        hint = "Name a folder, for a file per recording."
        raise ConfigError(f"{stored.transcripts} has {len(recordings)} recordings, {file} is one file.", hint=hint)


def _recordings(stored: Stored, formats: Sequence[ExportFormat]) -> list[CaptionedRecording]:
    """The recordings that formats are made of; a CSV needs none: it has the lines, with or without a place."""
    return [] if set(formats) == {"csv"} else list(stored)


def _table(stored: Stored) -> str:
    from specdec_cli.export.tables import table

    return table(stored)


def _writer(name: ExportFormat, recordings: Sequence[CaptionedRecording]) -> _Writer:
    """The writer of a format with a file per recording, for recordings that are exported together."""
    if name in ("srt", "vtt"):
        from specdec_cli.export import subtitles

        cues = subtitles.srt if name == "srt" else subtitles.vtt
        return lambda recording, _: cues(recording)
    if name in ("textgrid", "eaf"):
        from specdec_cli.export import annotation

        kinds = annotation.kinds_of(recordings)
        if name == "textgrid":
            return lambda recording, _: annotation.textgrid(recording, kinds)
        return lambda recording, file: annotation.eaf(recording, kinds, file)
    from specdec_cli.export.timeline import timeline

    kind = next(each for each in PICTURES if each == name)
    return lambda recording, _: timeline(recording, kind)
