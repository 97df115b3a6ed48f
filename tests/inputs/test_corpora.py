"""Manifests of Kaldi, NeMo, Lhotse and Hugging Face datasets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.audio import open_recording
from specdec_cli.errors import AudioNotFoundError, ConfigError
from specdec_cli.inputs.find import unreadable
from specdec_cli.inputs.manifest import Manifest
from specdec_cli.inputs.recording import InputFile
from tests.inputs.formats import LHOTSE
from tests.mini_pair import write_voice


def kaldi(folder: Path, **files: str) -> Path:
    for name, text in {"wav_scp": "talk a b.wav\nother /x/other.flac\n", **files}.items():
        (folder / name.replace("_", ".")).write_text(text, "utf-8")
    return folder


def items(path: Path) -> list[InputFile]:
    return list(Manifest.read(path))


def test_kaldi_without_and_with_segments(tmp_path: Path) -> None:
    assert items(kaldi(tmp_path)) == items(tmp_path / "wav.scp")
    assert items(tmp_path) == [InputFile(str(tmp_path / "a b.wav"), id="talk"), InputFile("/x/other.flac", id="other")]
    kaldi(
        tmp_path,
        segments="talk-1 talk 0.5 2.25\ntalk-2 talk 3 -1\n",
        text="talk-1 你好 你好\ntalk-2\n",
        utt2spk="talk-1 Ann\ntalk-2 Bo\n",
    )
    whole = {"id": "talk-1", "start_s": 0.5, "end_s": 2.25, "speaker": "Ann", "text": "你好 你好"}
    until = {"id": "talk-2", "start_s": 3.0, "end_s": None, "speaker": "Bo"}
    file = str(tmp_path / "a b.wav")
    assert items(tmp_path) == [InputFile(file, **whole), InputFile(file, **until)]  # type: ignore[arg-type]


def jsonl(path: Path, *rows: Any) -> Path:
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    if path.suffix == ".gz":
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", ["train.json", "train.jsonl"])
def test_nemo(tmp_path: Path, name: str) -> None:
    path = jsonl(
        tmp_path / name,
        {"audio_filepath": "a.wav", "duration": 2.0, "text": "你好", "speaker": "Ann"},
        {"audio_filepath": "/b.wav", "offset": 1.5, "duration": 2.0, "text": "x"},
        {"audio_filepath": "/b.wav", "offset": 4, "duration": 1},
    )
    first, second, third = items(path)
    assert first == InputFile(str(tmp_path / "a.wav"), speaker="Ann", text="你好")
    assert second == InputFile("/b.wav", id="b-0001500-0003500", start_s=1.5, end_s=3.5, text="x")
    assert (third.id, third.start_s, third.end_s) == ("b-0004000-0005000", 4.0, 5.0)


@pytest.mark.parametrize("name", ["cuts.jsonl", "cuts.jsonl.gz"])
def test_lhotse(tmp_path: Path, name: str) -> None:
    whole = {**LHOTSE, "id": "cut-2", "start": 0, "duration": 10.0, "supervisions": []}
    found = items(jsonl(tmp_path / name, LHOTSE, whole))
    file = str(tmp_path / "a.wav")
    assert found == [
        InputFile(file, id="cut-1", start_s=1.0, end_s=3.5, speaker="Ann", text="你好 again"),
        InputFile(file, id="cut-2"),
    ]


def test_a_torn_archive_is_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "cuts.jsonl.gz", LHOTSE)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ConfigError, match=r"cuts\.jsonl\.gz cannot be read"):
        items(path)


# --- Hugging Face datasets ---


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A folder with a Parquet file: two recordings inside it, and the path of a third."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    clips = [write_voice(tmp_path / f"{n}.wav", n, 0.4 + 0.1 * n) for n in range(3)]
    audio = [{"bytes": clip.read_bytes(), "path": clip.name} for clip in clips[:2]]
    audio.append({"bytes": None, "path": "2.wav"})
    rows = {"audio": audio, "sentence": ["你好", None, "x"], "speaker_id": [7, 8, 9]}
    folder = tmp_path / "set" / "data"
    folder.mkdir(parents=True)
    clips[2].rename(folder / "2.wav")
    table = pa.table(rows)
    parquet.write_table(table, folder / "train-00000.parquet", row_group_size=2)
    with pa.OSFile(str(folder / "more.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.slice(0, 1))
    return folder.parent


def test_recordings_inside_a_data_set_are_opened_one_by_one(dataset: Path) -> None:
    found = items(dataset)
    assert [Path(item.path).name for item in found] == [
        "more.arrow#0",
        "train-00000.parquet#0",
        "train-00000.parquet#1",
        "2.wav",
    ]
    assert [(item.speaker, item.text) for item in found[1:]] == [("7", "你好"), ("8", None), ("9", "x")]
    assert [unreadable(item) for item in found] == [None] * 4
    lengths = [open_recording(item.path, window_s=30, opener=item.opener).duration_s for item in found]
    assert lengths == pytest.approx([0.4, 0.4, 0.5, 0.6])
    with pytest.raises(AudioNotFoundError, match="has no row 9"):
        open_recording(found[1].path[:-1] + "9", window_s=30, opener=found[1].opener)


def test_a_long_recording_inside_a_data_set_is_read_twice(dataset: Path) -> None:
    item = items(dataset)[2]
    recording = open_recording(item.path, window_s=0.3, segment_s=0.3, opener=item.opener)
    assert [len(piece.samples) for piece in recording.pieces()] == [4000, 4000]


@pytest.mark.parametrize("content", [b"", b"PAR1 and nothing", b"ARROW1"])
@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_a_data_set_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes, name: str) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(ConfigError, match="has no list of recordings"):
        items(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=rf"{name} cannot be read"):
        items(tmp_path / name)


NO_RECORDING = "no recording, and no path of one"


@pytest.mark.parametrize(
    ("column", "cells", "said"),
    [
        ("text", ["a"], "has no column audio"),
        ("audio", [1.5, float("inf")], NO_RECORDING),
        ("audio", [[1], [2]], NO_RECORDING),
        ("audio", [b"x", b"y"], NO_RECORDING),
        ("audio", [None, None], NO_RECORDING),
        ("audio", [{"bytes": bytes(1 << 18), "path": None}] * 8, "bytes would take"),
    ],
)
def test_a_data_set_without_recordings_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, cells: list[object], said: str
) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("specdec_cli.inputs.embedded.MOST_BYTES", 1 << 20)
    parquet.write_table(pa.table({column: cells}), tmp_path / "x.parquet", use_dictionary=False, compression="zstd")
    with pytest.raises(ConfigError, match=said):
        items(tmp_path / "x.parquet")


@pytest.mark.parametrize("begin", ["new_stream", "new_file"])
def test_rows_of_all_batches_of_an_arrow_file_are_read(tmp_path: Path, begin: str) -> None:
    pa = pytest.importorskip("pyarrow")
    clip = write_voice(tmp_path / "a.wav", 1, 0.4).read_bytes()
    table = pa.table({"audio": [{"bytes": clip, "path": None}] * 21, "id": [str(n) for n in range(21)]})
    with getattr(pa.ipc, begin)(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    found = items(tmp_path / "x.arrow")
    assert [item.id for item in found] == [str(n) for n in range(21)]
    assert [unreadable(found[at]) for at in (20, 3, 9, 10)] == [None] * 4
