"""The captions of an output as a table, or as text files in the recordings' own folders' likeness."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specdec_cli.batch.inputs import relative_name
from specdec_cli.batch.items import Key
from specdec_cli.batch.lines import Line, groups, read_lines
from specdec_cli.errors import TranscriptError

COLUMNS: Final = (
    "name", "id", "file", "start_s", "end_s", "duration_s", "language", "caption", "finish_reason", "no_speech", "error"
)  # fmt: skip
_UNSAFE: Final = re.compile(r"[/\\%:<>|?*\x00-\x1f]|^\.")  # what a file's name cannot hold, and a leading dot


def write_csv(output: Path, base: str, target: Path) -> None:
    """One row per line of the output; the file is replaced as a whole.

    Args:
        output: transcripts.
        base: folder that names are relative to.
        target: the table.

    Raises:
        TranscriptError: it cannot be written.
    """
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(COLUMNS)
            for group in _groups(output):
                table.writerows(_row(line, base) for line in group)
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise _unwritable(target, error) from error


def write_texts(output: Path, base: str, folder: Path) -> None:
    """One text file per captioned recording, a caption a line: `speaker/clip.wav` becomes `speaker/clip.wav.txt`.

    A clip with an id of its own becomes `ID.txt`.

    Args:
        output: transcripts.
        base: folder that names are relative to.
        folder: where to put them; created if need be.

    Raises:
        TranscriptError: one cannot be written.
    """
    for group in _groups(output):
        captions = [str(line.values["caption"]) for line in group if line.good]
        if not captions:
            continue
        target = folder / text_name(group[0].key, base)
        text = "".join(f"{' '.join(caption.split())}\n" for caption in captions)
        try:
            if not target.is_file() or target.read_text("utf-8") != text:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, "utf-8")
        except OSError as error:
            raise _unwritable(target, error) from error


def text_name(key: Key, base: str) -> str:
    """The path of a clip's text file; no two clips have the same."""
    if key.id is None:
        return f"{relative_name(key.path, base)}.txt"
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", key.id) + ".txt"


def _row(line: Line, base: str) -> list[object]:
    values, error = line.values, line.values.get("error")
    described = f"{error['type']}: {error['message']}" if error else None
    no_speech = str(values["no_speech"]).lower() if "no_speech" in values else None
    known = {**values, "name": relative_name(line.key.path, base), "no_speech": no_speech, "error": described}
    return [known.get(column) for column in COLUMNS]


def _groups(output: Path) -> Iterator[list[Line]]:
    with output.open("rb") as file:
        yield from groups(read_lines(output, file))


def _unwritable(target: Path, error: OSError) -> TranscriptError:
    return TranscriptError(
        f"{target} cannot be written: {error.strerror or error}.",
        hint="The captions are in the output all the same; run the command again with another name.",
    )
