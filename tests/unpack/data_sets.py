"""Small data sets in the formats that other tools write."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile

EMOTIONS = ["angry", "happy", "neutral", "sad"]
FEATURES = {
    "audio": {"sampling_rate": 16_000, "_type": "Audio"},
    "emotion": {"names": EMOTIONS, "_type": "ClassLabel"},
    "raters": {"feature": {"names": EMOTIONS, "_type": "ClassLabel"}, "_type": "List"},
}


def sound(seed: int, form: str = "WAV") -> bytes:
    """A recording of a second and a bit."""
    written = io.BytesIO()
    noise = np.random.default_rng(seed).normal(0, 0.1, 17_000 + seed)
    soundfile.write(written, noise, 16_000, format=form)
    return written.getvalue()


def table(rows: Sequence[Mapping[str, Any]], features: Mapping[str, Any] | None = None) -> pa.Table:
    """Rows as `datasets` stores them."""
    found = pa.Table.from_pylist([dict(row) for row in rows])
    told = {"info": {"features": features or {}}}
    return found.replace_schema_metadata({"huggingface": json.dumps(told)} if features else {})


def clip(seed: int, path: str | None = None, **more: Any) -> dict[str, Any]:
    """One row with a recording inside of it."""
    return {"audio": {"bytes": sound(seed), "path": path or f"clip{seed}.wav"}, **more}


def parquet(path: Path, rows: Sequence[Mapping[str, Any]], features: Mapping[str, Any] | None = None) -> Path:
    """Writes a Parquet file with row groups of two."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(rows, features), path, row_group_size=2)
    return path


def arrow(path: Path, rows: Sequence[Mapping[str, Any]], features: Mapping[str, Any] | None = None) -> Path:
    """Writes an Arrow file as `save_to_disk` does: a stream."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = table(rows, features)
    with path.open("wb") as file, pa.ipc.new_stream(file, found.schema) as writer:
        writer.write_table(found, max_chunksize=2)
    return path


def tar(path: Path, members: Sequence[tuple[str, bytes]]) -> Path:
    """Writes a tar of WebDataset; `.tar.gz` is packed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as file:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return path
