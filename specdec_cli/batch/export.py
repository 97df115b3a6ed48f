"""The captions of an output as a table, or as text files in the recordings' own folders' likeness."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from specdec_cli.batch.lines import Line, stored_groups
from specdec_cli.errors import ConfigError, SpecdecError, TranscriptError
from specdec_cli.inputs import Inputs, Key
from specdec_cli.inputs.find import relative_name
from specdec_cli.targets import COLUMNS, STDOUT, TABLE, replace, write
from specdec_cli.transcript.schema import readable

INDEX: Final = ".specdec-texts"
"""File in a folder of texts: which of them specdec wrote, and a digest of each."""

_FORMAT: Final = "specdec texts"
_LONGEST: Final = 255  # bytes of a file's name
_UNSAFE: Final = re.compile(r"[/\\%:<>|?*\x00-\x1f]|^\.")  # what a file's name cannot hold, and a leading dot
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")


def write_csv(output: Path, inputs: Inputs | None, base: str, target: Path) -> None:
    """One row per line of the output, in the order of the inputs; the file is replaced as a whole.

    Labels get a column each. A cell that a spreadsheet would run as a formula gets a ' in front.

    Args:
        output: transcripts.
        inputs: the recordings in order; lines of others come last. None: the order of the output.
        base: folder that names are relative to.
        target: the table; "-" is stdout.

    Raises:
        TranscriptError: it cannot be written, or holds something that specdec did not write.
    """
    ranks = {item.key: rank for rank, item in enumerate(inputs or ())}
    labels: dict[str, None] = {}
    order: list[tuple[int, list[int]]] = []
    for group in stored_groups(output):
        order.append((ranks.get(group[0].key, len(ranks)), [line.offset for line in group]))
        for line in group:
            labels |= dict.fromkeys(line.values.get("labels") or ())
    order.sort()

    def rows() -> Iterator[str]:
        yield _as_csv([*COLUMNS, *(f"label_{name}" for name in labels)])
        for group in stored_groups(output, [offsets for _, offsets in order]):
            for line in group:
                yield _as_csv(_cells(line, base, list(labels)))

    write(target, rows(), TABLE)


def require_rows_of(table: Path, output: Path) -> None:
    """Refuses a table that has rows of other recordings than the output: another run wrote it.

    Raises:
        ConfigError: names a recording.
        TranscriptError: the output holds something else.
    """
    if table == STDOUT or not table.is_file():
        return
    with table.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = [Key.of(_undefused(row["file"]), _undefused(row["id"]) or None) for row in csv.DictReader(file)]
    known = {group[0].key for group in stored_groups(output)} if output.is_file() and rows else set()
    if others := [key for key in rows if key not in known]:
        raise ConfigError(
            f"--csv {table} has {len(others)} rows of recordings that {output} does not hold, e.g. {others[0].path}.",
            hint="It is the table of another --output. Name another file, or delete it.",
        )


def write_texts(output: Path, base: str, folder: Path) -> list[SpecdecError]:
    """One text file per captioned recording, a caption a line: `speaker/clip.wav` becomes `speaker/clip.wav.txt`.

    A clip with an id of its own becomes `ID.txt`. A name that is too long is cut, and ends in a digest. A file that
    specdec did not write, or that was edited since, is left alone.

    Args:
        output: transcripts.
        base: folder that names are relative to.
        folder: where to put them; created if need be.

    Returns:
        What could not be written, and why.

    Raises:
        TranscriptError: the folder cannot be written at all.
    """
    written, problems = _read_index(folder), list[SpecdecError]()
    before = dict(written)
    for group in stored_groups(output):
        captions = [str(line.values["caption"]) for line in group if line.good]
        if not captions:
            continue
        name = text_name(group[0].key, base)
        text = readable("".join(f"{' '.join(caption.split())}\n" for caption in captions))
        try:
            _write_text(folder / name, text, written.get(name))
            written[name] = _digest(text.encode())
        except (TranscriptError, OSError, ValueError) as error:
            known = error if isinstance(error, SpecdecError) else TranscriptError(f"{folder / name}: {error}.")
            problems.append(known)
    if written != before:
        replace(folder / INDEX, json.dumps({"format": _FORMAT, "files": written}, indent=0))
    return problems


def text_name(key: Key, base: str) -> str:
    """The path of a clip's text file; no two clips have the same."""
    if key.id is None:
        folder, name = os.path.split(relative_name(key.path, base))
    else:
        folder, name = "", _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", key.id)
    if len(os.fsencode(f"{name}.txt")) > _LONGEST:
        digest = _digest(os.fsencode(name))
        name = f"{os.fsencode(name)[: _LONGEST - len(digest) - 5].decode('utf-8', 'ignore')}-{digest}"
    return os.path.join(folder, f"{name}.txt")


def _write_text(target: Path, text: str, digest: str | None) -> None:
    if os.path.lexists(target):
        there = target.read_bytes() if target.is_file() else b"\0"
        if there == text.encode():
            return
        if digest is None or _digest(there) != digest or target.is_symlink():
            raise TranscriptError(
                f"{target} was left as it is: specdec did not write it, or it was edited since.",
                hint="Name another --txt-dir, or move that file away.",
            )
    for folder in reversed(target.parents):  # not parents=True, which calls itself for each of them
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
    replace(target, text)


def _read_index(folder: Path) -> dict[str, str]:
    """Name -> digest of what specdec wrote into a folder."""
    try:
        index = json.loads((folder / INDEX).read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        index = None
    if not isinstance(index, Mapping) or index.get("format") != _FORMAT or not isinstance(index.get("files"), dict):
        raise TranscriptError(
            f"{folder / INDEX} does not say which texts specdec wrote.", hint="Move it away, or name another --txt-dir."
        )
    return dict(index["files"])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _cells(line: Line, base: str, labels: list[str]) -> list[object]:
    values, error = line.values, line.values.get("error")
    described = f"{error['type']}: {error['message']}" if error else None
    no_speech = str(values["no_speech"]).lower() if "no_speech" in values else None
    known = {**values, "name": relative_name(line.key.path, base), "no_speech": no_speech, "error": described}
    said = values.get("labels") or {}
    return [*(known.get(column) for column in COLUMNS), *(said.get(name) for name in labels)]


def _as_csv(cells: list[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_defused(c) if isinstance(c, str) else c for c in cells])
    return text.getvalue()


def _defused(cell: str) -> str:
    return f"'{readable(cell)}" if _FORMULA.match(cell) else readable(cell)


def _undefused(cell: str | None) -> str:
    return cell[1:] if cell and cell.startswith("'") and _FORMULA.match(cell) else cell or ""
