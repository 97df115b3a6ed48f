"""Lists of recordings, or of parts of them, with ids, prompts, languages, speakers and texts of their own.

Tables, and what other tools write: manifests of NeMo, Kaldi's data folders, cuts of Lhotse.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specdec_cli.audio.paths import is_url
from specdec_cli.config.problems import show
from specdec_cli.config.settings import check_value
from specdec_cli.errors import ConfigError, ReferencesError
from specdec_cli.inputs.find import Paths, common_folder
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.inputs.table_files import (
    FILES,
    JSON,
    ending,
    one_line,
    read_objects,
    read_table,
    read_text,
    span,
)
from specdec_cli.times import MOST_S, seconds

_Listed = Iterator[tuple[str, InputFile]]
"""Where a manifest lists each recording, "clips.tsv, line 7", and the recording."""
_ROUNDING_S: Final = 0.01


@dataclass(frozen=True)
class Manifest:
    """The recordings of a manifest."""

    rows: Mapping[Key, InputFile]  # by key, in order

    @property
    def base(self) -> str:
        """The deepest folder that holds all of its recordings."""
        return common_folder([os.path.dirname(key.path) for key in self.rows])

    def __iter__(self) -> Iterator[InputFile]:
        """The recordings in order."""
        return iter(self.rows.values())

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Reads and checks a manifest. Relative paths are relative to its own folder.

        Args:
            path: a table (.tsv, .csv, .json, .jsonl), also of NeMo, cuts of Lhotse (.jsonl, .jsonl.gz), or Kaldi's
                wav.scp or its folder.

        Raises:
            ConfigError: it cannot be read, is malformed, or has a wrong row; names the line.
        """
        rows: dict[Key, InputFile] = {}
        places: dict[object, str] = {}  # of ids, and of recordings without one
        for place, item in _listed(path):
            name = show(item.path) if item.id is None else f"the id {show(item.id)}"
            if (before := places.setdefault(item.id or item.key, place)) != place:
                hint = "Give each row of one recording an id of its own."
                raise ConfigError(f"{place}: {name} is that of {before} too.", hint=hint)
            rows[item.key] = item
        if not rows:
            raise ConfigError(f"{path} names no recordings.", hint="It needs a line for each.")
        return cls(rows)


Inputs = Paths | Manifest
"""Recordings, each once; found while it is iterated. `base`: absolute folder that names in exports are relative to."""


def _listed(path: Path) -> _Listed:
    """What a manifest lists, by what it holds."""
    if path.suffix == ".scp" or (path / "wav.scp").exists():
        return _kaldi(path if path.suffix == ".scp" else path / "wav.scp")
    if ending(path) in JSON and "recording" in next(read_objects(path), ("", {}))[1]:
        return _lhotse(path)
    return _table(path)


def _item(manifest: Path, place: str, file: str | None, **known: Any) -> tuple[str, InputFile]:
    if not file:
        raise ReferencesError(f"{place}: no recording is named.", hint="Name one, or drop the row.")
    return place, InputFile(file if os.path.isabs(file) or is_url(file) else str(manifest.parent / file), **known)


def _table(path: Path) -> _Listed:
    """The rows of a table, also of a manifest of NeMo; one with an `offset` is a part of its recording."""
    table = read_table(path)
    file, offset, duration = (table.first(names) for names in ((*FILES, "audio_filepath"), ("offset",), ("duration",)))
    if file is None:
        message = f"{path} has no column {', '.join(FILES)}; there are {show(', '.join(table.columns))}."
        raise ReferencesError(message, hint="The first line has the names of the columns.")
    for row in table.rows:
        known: dict[str, Any] = {name: row.single(name) for name in ("id", "language", "prompt", "speaker", "text")}
        for column, setting in (("language", "prompt.language"), ("prompt", "prompt.text")):
            if known[column] is not None:
                check_value(setting, known[column], row.place)
        name = row.single(file)
        if (start := row.single(offset)) is not None:
            start_s, end_s = span(row.place, start, length=row.single(duration))
            part_id = f"{Path(name or '').stem}-{round(1000 * start_s):07d}-{round(1000 * end_s):07d}"  # milliseconds
            known |= {"id": known["id"] or part_id, "start_s": start_s, "end_s": end_s}
        yield _item(path, row.place, name, **known)


def _kaldi(scp: Path) -> _Listed:
    """The utterances of a data folder: wav.scp, and segments, text and utt2spk where they are; commands never run."""
    recordings: dict[str, tuple[str, str]] = {}
    for place, name, file in _pairs(scp):
        if (before := recordings.setdefault(name, (place, file))[0]) != place:
            raise ReferencesError(f"{place}: {show(name)} is in {before} too.", hint="Keep one of them.")
    texts, speakers = ({name: text for _, name, text in _pairs(scp.with_name(of))} for of in ("text", "utt2spk"))
    segments = scp.with_name("segments")
    cut = segments.exists()
    for place, utterance, rest in _pairs(segments) if cut else [(place, n, n) for n, (place, _) in recordings.items()]:
        of, start, end = (*rest.split(), None, None)[:3]
        if of not in recordings:
            raise ReferencesError(f"{place}: {scp} has no recording {show(of)}.", hint="Add it, or drop the segment.")
        listed, file = recordings[of]
        if file.endswith("|"):
            hint = "Write the recordings to files of their own, and name those; specdec runs no commands of a list."
            raise ReferencesError(f"{listed}: {show(of)} is a command, not a file.", hint=hint)
        known: dict[str, Any] = {"speaker": speakers.get(utterance) or None, "text": texts.get(utterance) or None}
        if cut:
            start_s, end_s = span(place, start, MOST_S if end == "-1" else end)  # -1: to the end of the recording
            known |= {"start_s": start_s, "end_s": None if end == "-1" else end_s}
        yield _item(scp, place, file, id=utterance, **known)


def _pairs(path: Path) -> Iterator[tuple[str, str, str]]:
    """Place, first word and rest of each line of a file, which may be absent unless it is wav.scp."""
    if path.suffix != ".scp" and not path.exists():
        return
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if words := line.split(maxsplit=1):
            yield f"{path}, line {number}", words[0], "".join(words[1:]).strip()


def _lhotse(path: Path) -> _Listed:
    """The cuts of a Lhotse manifest, of recordings that are files. Channels are mixed, as everywhere.

    Source: https://lhotse.readthedocs.io/en/latest/cuts.html; a MixedCut has no recording of its own.
    """
    for place, row in read_objects(path):
        try:
            recording, said = row["recording"], row.get("supervisions") or []
            (source,) = recording["sources"]
            changed = {change["name"] for change in recording.get("transforms") or []} - {"Resample"}
            if source["type"] != "file" or changed:
                raise ValueError("its sound is made when it is read")
            file, length, id_ = os.fspath(source["source"]), recording["duration"], str(row["id"])
            texts, speakers = ([each[name] for each in said if each.get(name)] for name in ("text", "speaker"))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            hint = "Cuts of one recording in one file are read; write others to files first: cuts.save_audios(...)."
            raise ReferencesError(f"{place}: this is no cut of a recording in a file.", hint=hint) from error
        start_s, end_s = span(place, row.get("start"), length=row.get("duration"))
        known: dict[str, Any] = {"text": one_line(" ".join(map(str, texts)))}
        if len({*map(str, speakers)}) == 1:
            known["speaker"] = one_line(speakers[0])
        if start_s > 0 or abs((seconds(length) or 0.0) - end_s) >= _ROUNDING_S:
            known |= {"start_s": start_s, "end_s": end_s}
        yield _item(path, place, file, id=id_, **known)
