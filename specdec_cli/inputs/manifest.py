"""Reads tables of recordings, or of parts of them, with ids, prompts, languages, speakers and texts of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from specdec_cli.audio.paths import is_url
from specdec_cli.config.settings import check_value
from specdec_cli.errors import ConfigError, ReferencesError
from specdec_cli.inputs.entries import FILES, Columns, Entry
from specdec_cli.inputs.find import Manifest
from specdec_cli.inputs.names import as_spelled
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import read_table
from specdec_cli.text import show, show_name

_NAMED: Final = 12  # columns, in a message


def read_manifest(path: Path, *, strict: bool = False) -> Manifest:
    """Reads and checks a manifest. Relative paths are relative to its own folder.

    Args:
        path: a table (.tsv, .csv, .json, .jsonl).
        strict: whether a row that would be left out or changed is refused instead.

    Raises:
        ConfigError: it cannot be read, or names no recording that can be used.
    """
    rows: dict[Key, InputFile] = {}
    places: dict[object, str] = {}  # of ids, and of recordings without one
    skips, spelled = Skips(strict), dict[str, Mapping[str, str]]()
    for entry in _listed(path, skips):
        try:
            item = _item(path.parent, entry, spelled)
        except ConfigError as error:
            skips.leave_out(entry.place, error.message.removeprefix(f"{entry.place}: ").rstrip("."))
            continue
        name = show(item.path) if item.id is None else f"the id {show(item.id)}"
        if (before := places.setdefault(item.id or item.key, entry.place)) != entry.place:
            skips.leave_out(entry.place, f"{name} is also that of {before}")
        else:
            rows[item.key] = item
    skips.require_some(rows, f"{path} names no recordings.", "It needs a line for each.")
    return Manifest(rows, skips)


def _listed(path: Path, skips: Skips) -> Iterator[Entry]:
    """The rows of a manifest; ReferencesError if no column names recordings."""
    columns = Columns(table := read_table(path, skips))
    if columns.file is None:
        wanted, found = ", ".join(FILES[:3]), ", ".join(map(show_name, table.columns[:_NAMED]))
        message = f"{path} has no column {wanted} or the like that names the recording; the first are {found}."
        raise ReferencesError(message, hint="The first line has the names of the columns.")
    return columns.entries(skips)


def _path(folder: Path, file: str, spelled: MutableMapping[str, Mapping[str, str]]) -> str:
    """The path of a recording in a manifest in `folder`: also of a `file:` address, below ~, or written by Windows."""
    if file.lower().startswith("file://"):
        file = unquote(urlsplit(file).path)
    if is_url(file):
        return file
    path = str(folder / file)
    others = os.path.expanduser(file), path.replace("\\", "/"), str(folder / file.strip("\"'"))
    known = path if os.path.lexists(path) else next(filter(os.path.lexists, others), None)
    return known or as_spelled(path, spelled)


def _item(folder: Path, entry: Entry, spelled: MutableMapping[str, Mapping[str, str]]) -> InputFile:
    """The recording, or the part of it, that an entry names; ConfigError if it names none, or with a wrong prompt.

    A part without an id is called after its recording and its times, so that a later run finds it again. `spelled`: see
    `as_spelled`.
    """
    if not (file := entry.file):
        raise ReferencesError(f"{entry.place}: no recording is named.", hint="Name one, or drop the row.")
    if entry.prompt is not None:
        check_value("prompt.instruction", entry.prompt, entry.place)
    start_s, end_s = entry.start_s, entry.end_s
    if start_s == 0 and end_s is None:
        start_s = None
    id_, channel = entry.id, entry.channel
    if id_ is None and (start_s is not None or channel is not None):
        until = "end" if end_s is None else f"{round(1000 * end_s):07d}"
        times = [] if start_s is None else [f"{round(1000 * start_s):07d}", until]  # milliseconds
        id_ = "-".join([Path(file).stem, *times, *([] if channel is None else [f"ch{channel + 1}"])])
    return InputFile(
        _path(folder, file, spelled),
        id=id_,
        language=entry.language,
        instruction=entry.prompt,
        start_s=start_s,
        end_s=end_s,
        channel=channel,
        speaker=entry.speaker,
        text=entry.text,
    )
