"""The rows of a data set, one at a time: a recording, and its other columns as cells of a table."""

from __future__ import annotations

import io
import json
import math
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, Final

from specdec_cli.errors import ConfigError, install
from specdec_cli.inputs.entries import FILES, plain_name
from specdec_cli.inputs.names import SOUND_ENDINGS
from specdec_cli.inputs.text_files import UNDECODED
from specdec_cli.unpack.data_set import PARQUET, TARS, Shard

_SOUND: Final = re.compile(rf"(?:.*\.)?(?:{SOUND_ENDINGS})", re.IGNORECASE)
_MOST_TEXT: Final = 16 << 20  # bytes of a text or JSON in a tar
_NO_TEXT: Final = "column {} holds bytes, or too long a text, which a table cannot: it is left out"
_ROWS: Final = 16  # of a Parquet file that are decoded together


@dataclass(slots=True)
class Sample:
    """One row. `sound` is None with a `problem`."""

    number: int  # in its file, from 1
    sound: bytes | None = None
    name: str = ""  # of the recording within the data set, as its maker wrote it
    cells: dict[str, object] = field(default_factory=dict)
    problem: str | None = None
    changes: list[str] = field(default_factory=list)  # what of its cells is not as in the data set


def samples(shard: Shard, root: Path, column: str | None, note: Callable[[str], None]) -> Iterator[Sample]:
    """The rows of one file, in order.

    Args:
        shard: the file.
        root: the folder of the data set; recordings may be files in it.
        column: which holds the recording; None: the only one that does.
        note: called with a sentence about what no table can hold.

    Raises:
        ConfigError: there are several such columns, or none; or pyarrow is not installed.
        Exception: whatever pyarrow or tarfile makes of a damaged file.
    """
    return _of_tar(shard, column, note) if shard.ends_in(TARS) else _of_columns(shard, root, column, note)


def _of_columns(shard: Shard, root: Path, column: str | None, note: Callable[[str], None]) -> Iterator[Sample]:
    """The rows of a Parquet or Arrow file."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(f"{shard.label} needs pyarrow.", hint=f"Install it: {install('unpack')}") from error
    with closing(pyarrow.memory_map(str(shard.path))) as source:
        if shard.ends_in(PARQUET):
            file = pyarrow.parquet.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20)
            schema, batches = file.schema_arrow, file.iter_batches(batch_size=_ROWS)
        elif source.read(6) == b"ARROW1":  # a file, as Feather is
            file = pyarrow.ipc.open_file(source)
            schema, batches = file.schema, map(file.get_batch, range(file.num_record_batches))
        else:  # a stream, as `datasets` writes it
            source.seek(0)
            batches = pyarrow.ipc.open_stream(source)
            schema = batches.schema
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features") or {}
        sound = _sound_column(shard, schema, features, column)
        raw = {each.name for each in schema if "bytes" in _parts(each.type) or "binary" in str(each.type)} - {sound}
        for name in sorted(raw):
            note(_NO_TEXT.format(name))
        rows = (batch.slice(at, 1) for batch in batches for at in range(batch.num_rows))
        for number, one in enumerate(rows, 1):
            sample = Sample(number)
            try:
                (row,) = one.to_pylist()
                sample.sound, sample.name, sample.problem = _recording(row.pop(sound), root, shard)
                kept = {name: value for name, value in row.items() if name not in raw}
                for name, value in kept.items():
                    unnamed = set[int]()
                    sample.cells[name] = _cell(_named(features.get(name), value, unnamed))
                    sample.changes += [f"column {name}: its features name no class {each}" for each in sorted(unnamed)]
            except UnicodeDecodeError:
                sample = Sample(number, problem="a text in it is not UTF-8")
            yield sample


def _sound_column(shard: Shard, schema: Any, features: Mapping[str, Any], column: str | None) -> str:
    """The column that holds recordings: declared as such, a structure with bytes or samples, or bytes by its name."""
    kinds = {name: _type_of(features.get(name)) for name in schema.names}
    parts = {each.name: _parts(each.type) for each in schema if kinds[each.name] in ("", "Audio")}
    declared = [name for name, kind in kinds.items() if kind == "Audio"]
    shaped = [name for name, known in parts.items() if known & {"bytes", "array"} and known & {"path", "sampling_rate"}]
    raw = [each.name for each in schema if "binary" in str(each.type)]
    found = declared or shaped or [name for name in raw if plain_name(name) in FILES]
    if column in (*found, *shaped, *raw) or (column is None and len(found) == 1):
        return column or found[0]
    if not found:
        hint = f"Columns: {', '.join(schema.names)}. Recordings are structures of bytes and path."
        raise ConfigError(f"{shard.label} has no column with recordings.", hint=hint)
    hint = f"Choose one: --column audio={found[0]}. There are {', '.join(found)}."
    what = "several columns with recordings" if column is None else f"no recordings in a column {column!r}"
    raise ConfigError(f"{shard.label} has {what}.", hint=hint)


def _type_of(feature: object) -> str:
    return str(feature.get("_type", "")) if isinstance(feature, dict) else ""


def _parts(kind: Any) -> set[str]:
    """The names of what a structure holds."""
    return {kind.field(at).name for at in range(kind.num_fields)} if str(kind).startswith("struct") else set()


def _recording(value: Any, root: Path, shard: Shard) -> tuple[bytes | None, str, str | None]:
    """The recording in a cell with its bytes, its samples or its path; its name; and what is wrong, if it has none."""
    cell: dict[str, Any] = {"bytes": value} if isinstance(value, bytes) else {"path": value}
    if isinstance(value, dict):
        cell = value
    name = str(cell.get("path") or "")
    if cell.get("bytes"):
        return cell["bytes"], name, None
    if cell.get("array") and cell.get("sampling_rate"):
        return _as_wav(cell["array"], int(cell["sampling_rate"])), f"{name}.wav", None
    for folder in (shard.path.parent, root):
        file = (folder / name).resolve()
        if name and file.is_relative_to(root) and file.is_file():  # no file of the machine that a row merely names
            return file.read_bytes(), name, None
    return None, name, f"its recording {name!r} is not in the data set" if name else "it has no recording"


def _as_wav(samples: Any, rate: int) -> bytes:
    """Samples [n], [channels, n] as `datasets` decodes them, or [n, channels], as a WAV of floats."""
    import numpy
    import soundfile

    written = io.BytesIO()
    array = numpy.asarray(samples, numpy.float32)
    frames = array.T if array.ndim == 2 and len(array) < array.shape[1] else array
    soundfile.write(written, frames, rate, "FLOAT", format="WAV")
    return written.getvalue()


def _of_tar(shard: Shard, column: str | None, note: Callable[[str], None]) -> Iterator[Sample]:
    """The samples of a WebDataset: files that follow each other, with one name up to the first dot of its last part."""
    with tarfile.open(shard.path, "r|*") as tar:
        files = (member for member in tar if _is_taken(member, note))
        for number, (key, group) in enumerate(groupby(files, key=lambda member: _key(member.name)[0]), 1):
            sample = Sample(number, cells={"key": key})
            sounds = list[tuple[str, bytes]]()
            for member in group:
                content = tar.extractfile(member)
                ending = _key(member.name)[1].lower()
                data = content.read() if content else b""
                is_sound = _SOUND.fullmatch(ending) is not None
                if is_sound and column in (None, ending):
                    sounds.append((ending, data))
                elif is_sound or b"\0" in data or len(data) > _MOST_TEXT:  # also numpy arrays, pictures
                    note(_NO_TEXT.format(ending))
                else:
                    _tell(sample, ending, data)
            if len(sounds) > 1:
                endings = ", ".join(ending for ending, _ in sounds)
                sample.problem = f"it has several recordings, choose one with --column audio=ENDING: {endings}"
            for ending, data in sounds if sample.problem is None else ():
                sample.sound, sample.name = data, f"{key}.{ending}"
            if sample.sound is None:
                sample.problem = f"{key}: {sample.problem or 'it has no recording'}"
            yield sample


def _is_taken(member: tarfile.TarInfo, note: Callable[[str], None]) -> bool:
    if not (member.isfile() or member.isdir()):
        note("links and devices in a tar are left out")
    return member.isfile() and not PurePosixPath(member.name).name.startswith(".")


def _key(name: str) -> tuple[str, str]:
    folder, slash, last = name.rpartition("/")
    stem, _, ending = last.partition(".")
    return f"{folder}{slash}{stem}", ending


def _tell(sample: Sample, ending: str, data: bytes) -> None:
    """Adds the columns of a file of a tar to its sample, or what is wrong with the file."""
    is_json = ending.endswith("json")
    try:
        tree = (
            json.loads(data) if is_json else {"text" if ending == "txt" else ending: data.decode("utf-8-sig").strip()}
        )
        sample.cells |= {name: _cell(value) for name, value in tree.items()}
    except (AttributeError, ValueError):
        sample.problem = f"its .{ending} is no {'JSON object' if is_json else 'UTF-8 text'}"


def _named(feature: Any, value: Any, unnamed: set[int]) -> Any:
    """A class, or a list of them, by name in place of number, as the features of `datasets` declare; else the value.

    A number without a name becomes None and is added to `unnamed`, except -1, with which `datasets` means no class.
    """
    if isinstance(value, list):
        inner = feature.get("feature") if isinstance(feature, dict) else next(iter(feature or ()), None)
        return [_named(inner, each, unnamed) for each in value]
    if _type_of(feature) == "ClassLabel" and isinstance(value, int):
        names = feature.get("names") or []
        if 0 <= value < len(names):
            return names[value]
        if value != -1:
            unnamed.add(value)
        return None
    return value


def _cell(value: object) -> object:
    """A value as a cell of a JSON table: text, number, truth or a list of texts; all else as JSON in a text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return UNDECODED.sub("\ufffd", value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [UNDECODED.sub("\ufffd", each) for each in value]
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=_as_text)
    return str(value)  # dates, times, decimals


def _as_text(value: object) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)
