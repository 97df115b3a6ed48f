"""A list of recordings, or of parts of them, with ids, prompts, languages, speakers and texts of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specdec_cli.config.problems import show
from specdec_cli.config.settings import check_value
from specdec_cli.errors import ConfigError
from specdec_cli.inputs import corpora
from specdec_cli.inputs.corpora import Listed
from specdec_cli.inputs.find import Paths, common_folder
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.inputs.table_files import FILES, read_table

_HINT: Final = "A row has file, and may have id, language, prompt, speaker and text; other columns are ignored."


@dataclass(frozen=True)
class Manifest:
    """The recordings of a manifest.

    Attributes:
        rows: the recordings by key, in order.
    """

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
            ConfigError: it cannot be read, is malformed, or has a wrong row; names the line.
        """
        rows: dict[Key, InputFile] = {}
        places: dict[object, str] = {}  # of ids, and of recordings without one
        for place, item in _listed(path):
            before = places.setdefault(item.key if item.id is None else item.id, place)
            if before != place and item.id is not None:
                raise ConfigError(f"{place}: the id {show(item.id)} is that of {before} too.", hint=_HINT)
            if before != place:
                hint = "Give each row of one recording an id of its own."
                raise ConfigError(f"{place}: {show(item.path)} is in {before} already.", hint=hint)
            rows[item.key] = item
        if not rows:
            raise ConfigError(f"{path} names no recordings.", hint=_HINT)
        return cls(rows)


Inputs = Paths | Manifest
"""Recordings, each once; found while it is iterated. `base`: absolute folder that names in exports are relative to."""


def _listed(path: Path) -> Iterator[Listed]:
    """What a manifest lists, by what it holds."""
    if path.is_dir() and (path / "wav.scp").exists():
        return corpora.kaldi(path / "wav.scp")
    if path.suffix == ".scp":
        return corpora.kaldi(path)
    if path.is_dir() or path.suffix.lower() in (".parquet", ".arrow"):
        return corpora.datasets(path)
    return (corpora.kind_of(path) or _table)(path)


def _table(path: Path) -> Iterator[Listed]:
    table = read_table(path, any_bytes=True)
    column = table.first(FILES)
    if column is None:
        names = f"{', '.join(FILES[:-1])} or {FILES[-1]}"
        message = f"{path} has no column {names}; there are {show(', '.join(table.columns))}."
        raise ConfigError(message, hint="The first line has the names of the columns.")
    for row in table.rows:
        file = row.single(column)
        if file is None:
            raise ConfigError(f"{row.place}: no recording is named.", hint=_HINT)
        given: dict[str, Any] = {name: row.single(name) for name in ("id", "language", "prompt", "speaker", "text")}
        try:
            os.fsencode(file)  # a name may hold bytes that are no UTF-8, for which surrogates stand; other text may not
            "".join(filter(None, given.values())).encode()
        except UnicodeEncodeError as error:
            raise ConfigError(f"{row.place}: not valid Unicode text.", hint="Save it as UTF-8.") from error
        for name, setting in (("language", "prompt.language"), ("prompt", "prompt.text")):
            if given[name] is not None:
                check_value(setting, given[name], row.place)
        yield row.place, corpora.item(path, file, **given)
