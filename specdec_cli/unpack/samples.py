"""The rows of a data set one at a time: a recording, and the other columns as a table can hold them."""

from __future__ import annotations

import io
import json
import math
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final

from specdec_cli.errors import ConfigError, install
from specdec_cli.inputs.entries import FILES, plain_name
from specdec_cli.inputs.names import SOUND_ENDINGS
from specdec_cli.inputs.table_files import UNDECODED
from specdec_cli.unpack.data_set import PARQUET, TARS, Shard

_SOUND: Final = re.compile(rf"(?:.*\.)?(?:{SOUND_ENDINGS})", re.IGNORECASE)
_IN_MEMORY: Final = 32 << 20  # bytes of a recording from a tar; longer ones wait on the disk
_MOST_TEXT: Final = 16 << 20  # bytes of a text or JSON in a tar
_NO_TEXT: Final = "column {} holds bytes, which a table cannot: it is left out"
_ROWS: Final = 16  # of a Parquet file that are decoded together


class UnusableRowError(Exception):
    """A row without a recording that can be written; says why."""


@dataclass(slots=True)
class Sample:
    """One row. `sound` is None with a `problem`."""

    number: int  # in its file, from 1
    sound: IO[bytes] | None = None
    name: str = ""  # of the recording within the data set, as its maker wrote it
    cells: dict[str, object] = field(default_factory=dict)
    problem: str | None = None


def samples(shard: Shard, root: Path, column: str | None, note: Callable[[str], None]) -> Iterator[Sample]:
    """The rows of one file, in order.

    Args:
        shard: the file.
        root: the folder of the data set; recordings may be files in it.
        column: which holds the recording; None: the only one that does.
        note: is told what no table can hold.

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
        else:
            file = _ipc(pyarrow, source)
            schema, batches = file.schema, _batches(file)
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features") or {}
        sound = _sound_column(shard, schema, features, column)
        raw = {each.name for each in schema if "bytes" in _parts(each.type) or "binary" in str(each.type)} - {sound}
        for name in sorted(raw):
            note(_NO_TEXT.format(name))
        number = 0
        for batch in batches:
            for at in range(batch.num_rows):
                number += 1
                sample = Sample(number)
                try:
                    (row,) = batch.slice(at, 1).to_pylist()
                    sample.sound, sample.name = _recording(row.pop(sound), root, shard)
                    kept = {name: value for name, value in row.items() if name not in raw}
                    sample.cells = {name: _cell(_named(features.get(name), value)) for name, value in kept.items()}
                except UnusableRowError as error:
                    sample.problem = str(error)
                except UnicodeDecodeError:
                    sample.problem = "a text in it is not UTF-8"
                yield sample


def _ipc(pyarrow: Any, source: Any) -> Any:
    """An Arrow file, which is a stream as `datasets` writes it, or a file as Feather is."""
    streamed = source.read(6) != b"ARROW1"
    source.seek(0)
    return pyarrow.ipc.open_stream(source) if streamed else pyarrow.ipc.open_file(source)


def _batches(file: Any) -> Iterator[Any]:
    if hasattr(file, "num_record_batches"):
        return (file.get_batch(number) for number in range(file.num_record_batches))
    return iter(file)


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
    hint = f"Choose one: --audio-column {found[0]}. There are {', '.join(found)}."
    what = "several columns with recordings" if column is None else f"no recordings in a column {column!r}"
    raise ConfigError(f"{shard.label} has {what}.", hint=hint)


def _type_of(feature: object) -> str:
    return str(feature.get("_type", "")) if isinstance(feature, dict) else ""


def _parts(kind: Any) -> set[str]:
    """The names of what a structure holds."""
    return {kind.field(at).name for at in range(kind.num_fields)} if str(kind).startswith("struct") else set()


def _recording(value: Any, root: Path, shard: Shard) -> tuple[IO[bytes], str]:
    """A recording and its name, of a cell with its bytes, its samples, or the path of a file of the data set."""
    cell: dict[str, Any] = {"bytes": value} if isinstance(value, bytes) else {"path": value}
    if isinstance(value, dict):
        cell = value
    name = str(cell.get("path") or "")
    if cell.get("bytes"):
        return io.BytesIO(cell["bytes"]), name
    if cell.get("array") and cell.get("sampling_rate"):
        return _as_wav(cell["array"], int(cell["sampling_rate"])), f"{name}.wav"
    for folder in (shard.path.parent, root):
        file = (folder / name).resolve()
        if name and file.is_relative_to(root) and file.is_file():  # no file of the machine that a row merely names
            return file.open("rb"), name
    raise UnusableRowError(f"its recording {name!r} is not in the data set" if name else "it has no recording")


def _as_wav(samples: Any, rate: int) -> IO[bytes]:
    import numpy
    import soundfile

    written = io.BytesIO()
    mono_or_frames = numpy.asarray(samples, dtype=numpy.float32)
    shape = mono_or_frames.T if mono_or_frames.ndim == 2 and len(mono_or_frames) < 9 else mono_or_frames
    soundfile.write(written, shape, rate, "FLOAT", format="WAV")
    written.seek(0)
    return written


def _of_tar(shard: Shard, column: str | None, note: Callable[[str], None]) -> Iterator[Sample]:
    """The samples of a WebDataset: files that follow each other, with one name up to the first dot of its last part."""
    with tarfile.open(shard.path, "r|*") as tar:
        members = (member for member in tar if _is_taken(member, note))
        for number, (key, group) in enumerate(groupby(members, key=lambda member: _key(member.name)[0]), 1):
            sample = Sample(number)
            try:
                sample.sound, sample.name, sample.cells = _grouped(tar, key, group, column, note)
            except UnusableRowError as error:
                sample.problem = f"{key}: {error}"
            yield sample


def _is_taken(member: tarfile.TarInfo, note: Callable[[str], None]) -> bool:
    if not (member.isfile() or member.isdir()):
        note("links and devices in a tar are left out")
    return member.isfile() and not PurePosixPath(member.name).name.startswith(".")


def _key(name: str) -> tuple[str, str]:
    folder, slash, last = name.rpartition("/")
    stem, _, ending = last.partition(".")
    return f"{folder}{slash}{stem}", ending


def _grouped(
    tar: tarfile.TarFile,
    key: str,
    group: Iterator[tarfile.TarInfo],
    column: str | None,
    note: Callable[[str], None],
) -> tuple[IO[bytes], str, dict[str, object]]:
    """Recording, its name and the other columns of one sample of a tar; all of it is read, whatever is wrong."""
    sounds: dict[str, IO[bytes]] = {}
    with ExitStack() as unless_returned:
        cells, problem = _read_group(tar, group, column, note, sounds, unless_returned)
        if len(sounds) > 1:
            problem = f"it has several recordings, choose one with --audio-column: {', '.join(sounds)}"
        if problem or not sounds:
            raise UnusableRowError(problem or "it has no recording")
        unless_returned.pop_all()
    ((ending, sound),) = sounds.items()
    return sound, f"{key}.{ending}", {"key": key} | cells


def _read_group(
    tar: tarfile.TarFile,
    group: Iterator[tarfile.TarInfo],
    column: str | None,
    note: Callable[[str], None],
    sounds: dict[str, IO[bytes]],
    stack: ExitStack,
) -> tuple[dict[str, object], str | None]:
    """The columns of one sample, and what is wrong with it; its recordings go to `sounds` by their endings."""
    cells: dict[str, object] = {}
    problem = None
    for member in group:
        ending = _key(member.name)[1]
        content = tar.extractfile(member)
        if content is None:
            continue
        if _SOUND.fullmatch(ending):
            if column in (None, ending):
                kept: Any = stack.enter_context(SpooledTemporaryFile(max_size=_IN_MEMORY))  # noqa: SIM115
                shutil.copyfileobj(content, kept, 1 << 20)
                kept.seek(0)
                sounds[ending] = kept
            else:
                note(_NO_TEXT.format(ending))
        elif member.size > _MOST_TEXT:
            problem = f"its .{ending} is longer than {_MOST_TEXT >> 20} MiB"
        elif b"\0" in (data := content.read()):  # numpy arrays, pictures
            note(_NO_TEXT.format(ending))
        else:
            try:
                cells |= _told(ending, data)
            except ValueError:
                problem = f"its .{ending} is no {'JSON object' if ending.endswith('json') else 'UTF-8 text'}"
    return cells, problem


def _told(ending: str, data: bytes) -> dict[str, object]:
    """The columns that a file of a sample gives; ValueError if it is neither JSON nor text."""
    if ending.endswith("json"):
        tree = json.loads(data)
        if not isinstance(tree, dict):
            raise ValueError
        return {name: _cell(value) for name, value in tree.items()}
    return {"text" if ending == "txt" else ending: data.decode("utf-8-sig").strip()}


def _named(feature: Any, value: Any) -> Any:
    """A value with the names of classes in place of their numbers, as the features of `datasets` declare them."""
    if isinstance(feature, list) and len(feature) == 1:
        feature = {"_type": "List", "feature": feature[0]}
    if not isinstance(feature, dict):
        return value
    if _type_of(feature) == "ClassLabel" and isinstance(value, int):
        names = feature.get("names") or []
        return names[value] if 0 <= value < len(names) else None
    if isinstance(value, list):
        return [_named(feature.get("feature", feature), each) for each in value]
    if isinstance(value, dict):
        inner = feature.get("feature", feature)
        return (
            {name: _named(inner.get(name), each) for name, each in value.items()} if isinstance(inner, dict) else value
        )
    return value


def _cell(value: object) -> object:
    """What a cell of a JSON table holds: text, number, truth or a list of texts; all else as JSON in a text."""
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
