"""A list of recordings, or of parts of them, with ids, prompts, languages, speakers and texts of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specdec_cli.config.problems import raise_if_any, show
from specdec_cli.config.settings import check_value
from specdec_cli.errors import ConfigError
from specdec_cli.inputs import corpora, parquet
from specdec_cli.inputs.corpora import Listed
from specdec_cli.inputs.find import Paths, common_folder
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.inputs.table_files import FILES, Row, read_table

_HINT: Final = "A row has file, and may have id, language, prompt, speaker and text; other columns are ignored."


@dataclass(frozen=True)
class Manifest:
    """The recordings of a manifest.

    Attributes:
        path: the manifest.
        rows: the recordings by key, in order.
    """

    path: Path
    rows: Mapping[Key, InputFile]

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
            path: a table (.tsv, .csv, .json, .jsonl), a manifest of NeMo (.json, .jsonl), cuts of Lhotse (.jsonl,
                .jsonl.gz), Kaldi's wav.scp or its folder, Parquet of Hugging Face datasets (.parquet) or a folder.

        Raises:
            ConfigError: it cannot be read, is malformed, or has wrong rows; names each line.
        """
        rows: dict[Key, InputFile] = {}
        places: dict[object, str] = {}  # of ids, and of recordings without one
        problems: list[ConfigError] = []
        for place, item in _listed(path, problems):
            before = places.setdefault(item.key if item.id is None else item.id, place)
            if before == place:
                rows[item.key] = item
            elif item.id is not None:
                problems.append(ConfigError(f"{place}: the id {show(item.id)} is that of {before} too.", hint=_HINT))
            else:
                hint = "Give each row of one recording an id of its own."
                problems.append(ConfigError(f"{place}: {show(item.path)} is in {before} already.", hint=hint))
        raise_if_any(problems)
        return cls(path, rows)


Inputs = Paths | Manifest
"""Recordings, each once; found while it is iterated. `base`: absolute folder that names in exports are relative to."""


def _listed(path: Path, problems: list[ConfigError]) -> Iterator[Listed]:
    """What a manifest lists, by what it holds; what is wrong with single rows goes to `problems`."""
    if path.is_dir() and not (path / "wav.scp").exists():
        yield from parquet.read(path)
    elif path.is_dir() or path.suffix == ".scp":
        yield from corpora.kaldi(path / "wav.scp" if path.is_dir() else path)
    elif path.suffix.lower() in (".parquet", ".arrow"):
        yield from parquet.read(path)
    elif (kind := corpora.kind_of(path)) is not None:
        yield from kind(path)
    else:
        yield from _table(path, problems)


def _table(path: Path, problems: list[ConfigError]) -> Iterator[Listed]:
    table = read_table(path, any_bytes=True)
    column = table.first(FILES)
    if column is None:
        names = f"{', '.join(FILES[:-1])} or {FILES[-1]}"
        message = f"{path} has no column {names}; there are {show(', '.join(table.columns))}."
        raise ConfigError(message, hint="The first line has the names of the columns.")
    for row in table.rows:
        if (item := _input(row, column, path, problems)) is not None:
            yield row.place, item


def _input(row: Row, column: str, manifest: Path, problems: list[ConfigError]) -> InputFile | None:
    """The recording of a row; None where something is wrong with it, which `problems` gets."""
    before = len(problems)
    given = {name: row.single(name) for name in (column, "id", "language", "prompt", "speaker", "text")}
    for name, text in given.items():
        # A name may hold bytes that are no UTF-8, for which these surrogates stand.
        rest = "".join(c for c in text or "" if name != column or not "\udc80" <= c <= "\udcff")
        if any("\ud800" <= c <= "\udfff" for c in rest):
            problems.append(ConfigError(f"{row.place}: {name} is not valid Unicode text.", hint="Save it as UTF-8."))
        elif text is not None and name in ("language", "prompt"):
            try:
                check_value("prompt.language" if name == "language" else "prompt.text", text, row.place)
            except ConfigError as error:
                problems.append(error)
    file = given.pop(column)
    if file is None:
        problems.append(ConfigError(f"{row.place}: no recording is named.", hint=_HINT))
    if file is None or len(problems) > before:
        return None
    return corpora.item(manifest, file, **given)
