"""Lists of recordings as other tools write them: Kaldi's data folders, NeMo's manifests, cuts of Lhotse, data sets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from specdec_cli.audio.paths import is_url
from specdec_cli.config.problems import show
from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.embedded import COLUMNS, open_table
from specdec_cli.inputs.recording import InputFile
from specdec_cli.inputs.table_files import FILES, SPEAKERS, TEXTS, json_lines, one_line, read_text, span
from specdec_cli.times import MOST_S, seconds

Listed = tuple[str, InputFile]
"""Where a manifest lists a recording, "cuts.jsonl, line 7", and the recording."""

_ROUNDING_S: Final = 0.01
_ARCHIVE: Final = re.compile(r"\.ark:\d+$")


def item(manifest: Path, file: str, **more: Any) -> InputFile:
    """A recording that a manifest names: relative to the manifest's folder."""
    if os.path.isabs(file) or is_url(file):
        return InputFile(file, **more)
    return InputFile(str(manifest.parent / file), **more)


def _part_id(file: str, start_s: float, end_s: float) -> str:
    """The id of a part that has none of its own: "talk-0012500-0014000", in milliseconds."""
    return f"{Path(file).stem}-{round(1000 * start_s):07d}-{round(1000 * end_s):07d}"


# --- Kaldi ---


def kaldi(scp: Path) -> Iterator[Listed]:
    """The utterances of a data folder: wav.scp, and segments, text and utt2spk where they are.

    Commands are never run.

    Raises:
        ReferencesError: a line is malformed, is a command, or names a recording that is not listed; names the line.
    """
    recordings: dict[str, tuple[str, str]] = {}
    for place, name, file in _pairs(scp):
        if file.endswith("|") or _ARCHIVE.search(file):
            hint = "Write the recordings to files of their own, and name those; specdec runs no commands of a list."
            raise ReferencesError(f"{place}: {show(name)} is a command or in an archive, not a file.", hint=hint)
        if name in recordings:
            raise ReferencesError(f"{place}: {show(name)} is in {recordings[name][0]} too.", hint="Keep one of them.")
        recordings[name] = place, file
    texts, speakers = ({name: text for _, name, text in _pairs(scp.with_name(of))} for of in ("text", "utt2spk"))

    def listed(utterance: str, file: str, start_s: float | None = None, end_s: float | None = None) -> InputFile:
        known = {"speaker": speakers.get(utterance), "text": texts.get(utterance) or None}
        return item(scp, file, id=utterance, start_s=start_s, end_s=end_s, **known)

    if not (segments := scp.with_name("segments")).exists():
        yield from ((place, listed(name, file)) for name, (place, file) in recordings.items())
        return
    for place, utterance, rest in _pairs(segments):
        of, start, end = (*rest.split(), None, None)[:3]
        if of not in recordings:
            raise ReferencesError(f"{place}: {scp} has no recording {show(of)}.", hint="Add it, or drop the segment.")
        start_s, end_s = span(place, start, MOST_S if end == "-1" else end)  # -1: to the end of the recording
        yield place, listed(utterance, recordings[of][1], start_s, None if end == "-1" else end_s)


def _pairs(path: Path) -> Iterator[tuple[str, str, str]]:
    """Place, first word and rest of each line of a file, which may be absent unless it is wav.scp."""
    if path.suffix != ".scp" and not path.exists():
        return
    for number, line in enumerate(read_text(path, any_bytes=True).split("\n"), 1):
        if not line.strip():
            continue
        name, _, rest = line.strip().partition(" ") if " " in line.strip() else line.strip().partition("\t")
        place = f"{path}, line {number}"
        if not rest.strip() and path.name != "text":
            raise ReferencesError(f"{place}: a name and what belongs to it were expected.", hint="Add what is missing.")
        yield place, name, rest.strip()


# --- JSON lines ---


def kind_of(path: Path) -> Callable[[Path], Iterator[Listed]] | None:
    """What reads a file of JSON lines that NeMo or Lhotse wrote; None for any other file."""
    if path.name.endswith(".gz"):
        return lhotse
    if path.suffix.lower() not in (".json", ".jsonl"):
        return None
    text = read_text(path, any_bytes=True)
    try:
        first = json.loads(text.lstrip().split("\n", 1)[0])
    except (ValueError, RecursionError):
        return None
    if not isinstance(first, dict):
        return None
    if "audio_filepath" in first:
        return nemo
    return lhotse if str(first.get("type", "")).endswith("Cut") or "recording" in first else None


def nemo(path: Path) -> Iterator[Listed]:
    """The rows of a NeMo manifest; one with an offset is a part of its recording.

    Raises:
        ReferencesError: a row is malformed; names the line.
    """
    for place, row in json_lines(path, read_text(path)):
        file = row.get("audio_filepath")
        if not isinstance(file, str) or not file:
            raise ReferencesError(f"{place}: audio_filepath is missing.", hint="Each line names one recording.")
        known: dict[str, Any] = {name: one_line(row.get(name)) for name in ("id", "speaker", "text")}
        if row.get("offset") is not None:
            part = span(place, row["offset"], length=row.get("duration"))
            known |= {"id": known["id"] or _part_id(file, *part), "start_s": part[0], "end_s": part[1]}
        yield place, item(path, file, **known)


def lhotse(path: Path) -> Iterator[Listed]:
    """The cuts of a Lhotse manifest, of recordings that are files. Channels are mixed, as everywhere.

    Raises:
        ReferencesError: a cut is malformed, made of several, or of a recording that is no file; names the line.
    """
    for place, row in json_lines(path, read_text(path)):
        recording = row.get("recording")
        if row.get("type", "MonoCut") not in ("MonoCut", "MultiCut") or not isinstance(recording, dict):
            hint = "Cuts of one recording each are read; write mixed ones to files first: cuts.save_audios(...)."
            raise ReferencesError(f"{place}: this is no cut of a recording.", hint=hint)
        sources = recording.get("sources")
        source = sources[0] if isinstance(sources, list) and len(sources) == 1 else None
        if not isinstance(source, dict) or source.get("type") != "file" or not isinstance(source.get("source"), str):
            hint = "Its source must be one file; write it to one first: cuts.save_audios(...)."
            raise ReferencesError(f"{place}: the recording {show(recording.get('id'))} is no file.", hint=hint)
        start_s, end_s = span(place, row.get("start"), length=row.get("duration"))
        whole = start_s == 0 and abs((seconds(recording.get("duration")) or 0.0) - end_s) < _ROUNDING_S
        listed = row.get("supervisions")
        said = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        speakers = {one_line(each.get("speaker")) for each in said} - {None}
        yield (
            place,
            item(
                path,
                source["source"],
                id=one_line(row.get("id")) or _part_id(source["source"], start_s, end_s),
                start_s=None if whole else start_s,
                end_s=None if whole else end_s,
                speaker=speakers.pop() if len(speakers) == 1 else None,
                text=" ".join(filter(None, (one_line(each.get("text")) for each in said))) or None,
            ),
        )


# --- Data sets of Hugging Face ---


def datasets(path: Path) -> Iterator[Listed]:
    """The rows of a Parquet or Arrow file, or of all in a folder and the folders inside it.

    A recording inside a file is called `file.parquet#12`, after its row; see `inputs.embedded`.

    Raises:
        ReferencesError: there is no such file, it cannot be read, or it has no recordings.
        ConfigError: pyarrow is not installed.
    """
    files = [path]
    if path.is_dir():
        files = sorted(found for found in path.rglob("*") if found.suffix in (".parquet", ".arrow"))
    if not files:
        hint = "Name a folder with wav.scp, or with .parquet or .arrow files of a data set."
        raise ReferencesError(f"{path} has no list of recordings.", hint=hint)
    for file in files:
        yield from _data_set(file)


def _data_set(path: Path) -> Iterator[Listed]:
    table = open_table(path)

    def column(*wanted: str) -> str | None:
        return next((name for name in wanted if name in table.names), None)

    audio = column(*COLUMNS, *FILES)
    if audio is None:
        message = f"{path} has no column {' or '.join(COLUMNS)}; there are {show(', '.join(table.names))}."
        raise ReferencesError(message, hint="Each row holds a recording, or the path of one.")
    columns = {"id": column("id"), "speaker": column(*SPEAKERS), "text": column(*TEXTS)}
    for number, (has_bytes, file, row) in enumerate(table.rows(audio, [name for name in columns.values() if name])):
        place = f"{path}, row {number}"
        if not has_bytes and not file:
            raise ReferencesError(f"{place}: no recording, and no path of one.", hint="Drop that row.")
        known: dict[str, Any] = {part: one_line(row[name]) for part, name in columns.items() if name}
        yield place, item(path, f"{path.absolute()}#{number}" if has_bytes else str(file), **known)
