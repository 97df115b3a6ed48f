"""Data sets become files and a table that other commands read as it is."""

import datetime
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile

from specdec_cli.errors import ConfigError, WrongFileError
from specdec_cli.inputs.manifest import Manifest
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from specdec_cli.unpack.data_set import DataSet
from specdec_cli.unpack.folder import TABLE, Unpacking
from specdec_cli.unpack.samples import samples
from tests.unpack.data_sets import FEATURES, arrow, clip, parquet, sound, tar


class Quiet:
    """Shows nothing, but keeps what failed."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def begin(self, steps: int) -> None: ...
    def step(self, what: str) -> None: ...
    def advance(self) -> None: ...

    def failed(self, file: str, error: Exception) -> None:
        self.failures.append(file)


def unpacked(named: object, folder: Path, **more: Any) -> tuple[list[dict[str, Any]], Unpacking]:
    column = more.pop("column", None)
    work = Unpacking(DataSet.find(str(named)), folder, column)
    work.run(Quiet(), **more)
    lines = (folder / TABLE).read_text().splitlines() if (folder / TABLE).exists() else []
    return [json.loads(line) for line in lines], work


def four(**more: Any) -> list[dict[str, Any]]:
    return [clip(n, text=f"text {n}", speaker=f"s{n % 2}", emotion=n, raters=[n, 0], **more) for n in range(4)]


@pytest.mark.parametrize("write", [parquet, arrow], ids=["parquet", "arrow"])
def test_the_table_is_manifest_and_references_at_once(tmp_path, write):
    ending = "parquet" if write is parquet else "arrow"
    source = write(tmp_path / f"train-00000-of-00001.{ending}", four(), FEATURES)
    rows, work = unpacked(source, tmp_path / "out")
    assert [row["file"] for row in rows] == [f"clip{n}.wav" for n in range(4)]
    assert all((tmp_path / "out" / row["file"]).read_bytes() == sound(n) for n, row in enumerate(rows))
    assert [row["emotion"] for row in rows] == ["angry", "happy", "neutral", "sad"]
    assert rows[1]["raters"] == ["happy", "angry"]
    assert (work.count, work.skips.left_out) == (4, 0)
    manifest = Manifest.read(tmp_path / "out" / TABLE, strict=True)
    assert [(Path(item.path).name, item.text, item.speaker) for item in manifest][2] == ("clip2.wav", "text 2", "s0")
    references = References.read(tmp_path / "out" / TABLE, lexicon=Lexicon.load(None), strict=True)
    found = references.find(str(tmp_path / "out" / "clip3.wav"))
    assert found.labels == {"emotion": "sad"}


def test_a_webdataset_gives_its_json_its_texts_and_its_classes(tmp_path):
    members = [
        ("./a/one.json", b'{"speaker": "ann", "age": 31, "words": [{"w": "hi"}]}'),
        ("./a/one.flac", sound(1, "FLAC")),
        ("./a/one.txt", "你好\n".encode()),
        ("./a/two.normalized.txt", b"two"),
        ("./a/two.flac", sound(2, "FLAC")),
        ("./a/two.npy", b"\x93NUMPY\0\0"),
        ("./a/three.txt", b"no recording"),
        ("./a/four.flac", sound(4, "FLAC")),
        ("./a/four.json", b"[1"),
        ("./a/five.mic1.wav", sound(5)),
        ("./a/five.mic2.wav", sound(6)),
        ("./a/six.wav", sound(7)),
        ("./a/seven.WAV", sound(8)),
        ("./a/seven.TXT", b"seven"),
        ("./a/eight.wav", sound(9)),
        ("./a/eight.wav", sound(10)),
    ]
    source = tar(tmp_path / "train-000000.tar.gz", members)
    rows, work = unpacked(source, tmp_path / "out")
    assert [row["file"] for row in rows] == ["a/one.flac", "a/two.flac", "a/six.wav", "a/seven.wav"]
    assert (rows[0]["text"], rows[0]["speaker"], rows[0]["age"]) == ("你好", "ann", 31)
    assert json.loads(rows[0]["words"]) == [{"w": "hi"}]
    assert rows[1]["normalized.txt"] == "two"
    assert rows[3]["text"] == "seven"
    assert work.skips.left_out == 4
    told = " ".join(work.skips.sentences())
    for part in (
        "three: it has no recording",
        ".json is no JSON object",
        "mic1.wav, mic2.wav",
        "column npy holds bytes",
    ):
        assert part in told


def test_links_in_a_tar_are_left_out_and_told(tmp_path):
    source = tar(tmp_path / "set.tar", [("a.wav", sound(1))])
    with tarfile.open(source, "a") as file:
        for name, kind in (("b.wav", tarfile.SYMTYPE), ("c.wav", tarfile.LNKTYPE), ("d", tarfile.DIRTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            file.addfile(member)
    rows, work = unpacked(source, tmp_path / "out")
    assert [row["file"] for row in rows] == ["a.wav"]
    assert work.skips.sentences() == ["links and devices in a tar are left out"]


def test_splits_and_subsets_are_told_apart_by_files_and_folders(tmp_path):
    for name in ("ihm/train-00000-of-00002", "ihm/train-00001-of-00002", "ihm/test-00000-of-00001", "sdm/test/0000"):
        parquet(tmp_path / "set" / f"{name}.parquet", [clip(1)])
    parquet(tmp_path / "set/.cache/train-00000-of-00001.parquet", [clip(1)])
    parquet(tmp_path / "set/ihm/cache-train.parquet", [clip(1)])
    found = DataSet.find(str(tmp_path / "set"))
    assert found.splits == ["ihm/test", "ihm/train", "sdm/test"]
    assert len(DataSet.find(f"{tmp_path}/set:ihm/train").shards) == 2
    assert DataSet.find(f"{tmp_path}/set:test").splits == ["ihm/test", "sdm/test"]
    with pytest.raises(ConfigError, match="no split 'dev'") as error:
        DataSet.find(f"{tmp_path}/set:dev")
    assert "ihm/test, ihm/train, sdm/test" in str(error.value.hint)
    rows, _ = unpacked(tmp_path / "set", tmp_path / "out")
    assert [(row["file"], row["split"]) for row in rows] == [
        ("ihm/test/clip1.wav", "ihm/test"),
        ("ihm/train/clip1.wav", "ihm/train"),
        ("ihm/train/clip1-1.wav", "ihm/train"),
        ("sdm/test/clip1.wav", "sdm/test"),
    ]


def test_a_saved_data_set_and_one_file_by_its_split(tmp_path):
    for split in ("train", "test"):
        arrow(tmp_path / "saved" / split / "data-00000-of-00001.arrow", [clip(3, split=split)])
    rows, _ = unpacked(f"{tmp_path}/saved:test", tmp_path / "out")
    assert [(row["file"], row["split"]) for row in rows] == [("clip3.wav", "test")]


HOSTILE = [
    "../../etc/passwd.wav", "/abs/olute.wav", "C:\\Users\\ann\\x.wav", "..\\..\\y.wav", ".hidden.wav", "a/../b.wav",
    "-rf.wav", "new\nline\x1b[31m.wav", "table.jsonl", "长" * 200 + ".wav", "same.wav", "same.wav", "same-13.wav",
    "same.wav", "same.wav/inside.wav", None, 'q"u?o*te<>|:.wav', "\u202egnp.wav",
]  # fmt: skip


def test_hostile_names_become_safe_ones_without_collisions(tmp_path):
    rows = [{"audio": {"bytes": sound(n), "path": name}} for n, name in enumerate(HOSTILE)]
    found, work = unpacked(parquet(tmp_path / "set.parquet", rows), tmp_path / "in" / "out")
    assert work.count == len(HOSTILE) == len({row["file"] for row in found})
    for n, row in enumerate(found):
        file = tmp_path / "in" / "out" / row["file"]
        assert file.read_bytes() == sound(n)
        assert file.resolve().is_relative_to(tmp_path / "in" / "out")
        parts = Path(row["file"]).parts
        assert all(part.isprintable() and part[0] not in ".-" and len(part.encode()) < 256 for part in parts)
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["out"]
    assert len(list(Manifest.read(tmp_path / "in" / "out" / TABLE, strict=True))) == len(HOSTILE)


def test_what_a_row_merely_names_on_this_machine_is_not_copied(tmp_path):
    (tmp_path / "secret.wav").write_bytes(sound(1))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "own.wav").write_bytes(sound(2))
    names = [str(tmp_path / "secret.wav"), "../secret.wav", "own.wav", "gone.wav", None]
    rows = [{"audio": {"bytes": None, "path": name}} for name in names]
    schema = pa.schema({"audio": pa.struct({"bytes": pa.binary(), "path": pa.string()})})
    pa.parquet.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "set" / "set.parquet")
    found, work = unpacked(tmp_path / "set" / "set.parquet", tmp_path / "out")
    assert [row["file"] for row in found] == ["own.wav"]
    assert work.skips.left_out == 4


def test_columns_about_the_source_do_not_cut_the_file(tmp_path):
    more = {"begin_time": 12.5, "end_time": 20.0, "file": "/data/x.wav", "source_file": "kept", "id": "twice"}
    source = parquet(tmp_path / "set.parquet", [clip(1, **more), clip(2, **more)])
    rows, work = unpacked(source, tmp_path / "out")
    assert rows[0]["source_begin_time"] == 12.5
    assert (rows[0]["source_file"], rows[0]["source_source_file"]) == ("kept", "/data/x.wav")
    items = list(Manifest.read(tmp_path / "out" / TABLE, strict=True))
    assert [(item.id, item.start_s, item.end_s) for item in items] == [(None, None, None)] * 2
    assert "column begin_time is about the source" in " ".join(work.skips.sentences())


def test_cells_of_every_type_are_kept(tmp_path):
    more: dict[str, Any] = {
        "day": datetime.date(2020, 1, 2), "nan": float("nan"), "nested": {"a": [{"b": "长"}, {"b": None}]},
        "captions": ["one", "two"], "vector": [1.5, 2.5], "yes": True,
        "picture": {"bytes": b"\x89PNG", "path": "x.png"},
    }  # fmt: skip
    features = FEATURES | {"picture": {"_type": "Image"}}
    (row,), work = unpacked(parquet(tmp_path / "set.parquet", [clip(1, **more)], features), tmp_path / "out")
    assert (row["day"], row["nan"], row["yes"]) == ("2020-01-02", None, True)
    assert json.loads(row["nested"]) == more["nested"]
    assert (row["captions"], row["vector"]) == (["one", "two"], "[1.5, 2.5]")
    assert "picture" not in row
    assert any("column picture holds bytes" in sentence for sentence in work.skips.sentences())
    assert Manifest.read(tmp_path / "out" / TABLE, strict=True).rows


def test_numbers_of_classes_without_a_name_are_told(tmp_path):
    rows = [clip(n + 1, emotion=n, raters=[0, 8 * n]) for n in (3, 0, 4, -1)]
    found, work = unpacked(parquet(tmp_path / "a.parquet", rows, FEATURES), tmp_path / "out")
    assert [row["emotion"] for row in found] == ["sad", "angry", None, None]
    assert work.skips.changed == 4
    (said,) = work.skips.sentences()
    assert "a.parquet, row 1 (column raters: its features name no class 24), " in said
    assert "a.parquet, row 3 (column emotion: its features name no class 4), " in said


SAMPLES = np.array([0.0, 0.5, -0.5] * 400)


@pytest.mark.parametrize(
    ("array", "expected"),
    [(SAMPLES, SAMPLES), (np.zeros((2, 800)), np.zeros((800, 2))), (np.zeros((800, 2)), np.zeros((800, 2)))],
    ids=["one channel", "channels first", "channels last"],
)
def test_decoded_samples_become_a_wav(tmp_path, array, expected):
    rows = [{"audio": {"array": array.tolist(), "path": "x", "sampling_rate": 8000}}]
    (row,), _ = unpacked(parquet(tmp_path / "set.parquet", rows), tmp_path / "out")
    read, rate = soundfile.read(tmp_path / "out" / row["file"])
    assert rate == 8000
    assert np.array_equal(read, expected)


def test_a_column_of_bytes_is_a_recording_by_its_name_or_by_choice(tmp_path):
    source = parquet(tmp_path / "set.parquet", [{"wav": sound(1), "other": sound(2, "FLAC")}])
    (row,), work = unpacked(source, tmp_path / "out")
    assert (tmp_path / "out" / row["file"]).read_bytes() == sound(1)
    assert "column other holds bytes" in " ".join(work.skips.sentences())
    (row,), _ = unpacked(source, tmp_path / "chosen", column="other")
    assert (row["file"], (tmp_path / "chosen" / row["file"]).read_bytes()) == ("000001.flac", sound(2, "FLAC"))


def test_one_of_several_columns_is_chosen_by_name(tmp_path):
    source = parquet(tmp_path / "set.parquet", [{"near": clip(1)["audio"], "far": clip(2)["audio"]}])
    with pytest.raises(ConfigError, match="several columns") as error:
        unpacked(source, tmp_path / "out")
    assert "--column audio=near" in str(error.value.hint)
    unpacked(source, tmp_path / "far", column="far")
    assert (tmp_path / "far" / "clip2.wav").read_bytes() == sound(2)
    with pytest.raises(ConfigError, match="no recordings in a column 'none'"):
        unpacked(source, tmp_path / "none", column="none")


@pytest.mark.parametrize("at", range(1, 4))
def test_a_later_run_goes_on_and_ends_alike(tmp_path, at):
    for name in ("train-00000-of-00002", "train-00001-of-00002"):
        parquet(tmp_path / "set" / f"{name}.parquet", four(), FEATURES)
    whole, _ = unpacked(tmp_path / "set", tmp_path / "whole")
    asked = iter([False] * (2 * at) + [True])
    unpacked(tmp_path / "set", tmp_path / "out", stopped=lambda: next(asked))
    with (tmp_path / "out" / TABLE).open("ab") as file:  # a killed run leaves half a line, and a file without its row
        file.write(b'{"unpacked": 1, "file": "cl')
    (tmp_path / "out" / whole[2 * at]["file"]).write_bytes(sound(2 * at % 4))
    rows, work = unpacked(tmp_path / "set", tmp_path / "out")
    assert rows == whole
    assert (work.before, work.count) == (2 * at, 8 - 2 * at)
    assert unpacked(tmp_path / "set", tmp_path / "out")[1].count == 0
    files = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("out", "whole")]
    assert files[0] == files[1]


def test_another_folder_or_data_set_is_left_alone(tmp_path):
    one, other = (parquet(tmp_path / f"{n}" / "set.parquet", [clip(n)] * (n + 1)) for n in range(2))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "clip0.wav").write_bytes(b"mine")
    with pytest.raises(WrongFileError, match="holds something other"):
        unpacked(one, tmp_path / "mine")
    unpacked(one, tmp_path / "out")
    before = (tmp_path / "out" / TABLE).read_bytes()
    with pytest.raises(ConfigError, match="unpacked of another data set"):
        unpacked(other, tmp_path / "out")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / TABLE).write_text('{"file": "a.wav"}\n')
    with pytest.raises(WrongFileError, match="holds something other"):
        unpacked(one, tmp_path / "foreign")
    assert (tmp_path / "out" / TABLE).read_bytes() == before
    assert (tmp_path / "mine" / "clip0.wav").read_bytes() == b"mine"


@pytest.mark.parametrize("damage", ["cut", "noise"])
def test_a_damaged_file_costs_no_other(tmp_path, damage):
    tar(tmp_path / "set" / "a-0.tar", [(f"{n}.wav", sound(n)) for n in range(3)])
    parquet(tmp_path / "set" / "a-1.parquet", [clip(5)])
    whole = (tmp_path / "set" / "a-0.tar").read_bytes()
    tar(tmp_path / "set" / "a-2.tar", [("x.wav", sound(9))])
    (tmp_path / "set" / "a-0.tar").write_bytes(whole[:50_000] if damage == "cut" else b"noise" * 999)
    (tmp_path / "set" / "a-1.parquet").write_bytes(b"PAR1 no")
    for again in (False, True):
        rows, work = unpacked(tmp_path / "set", tmp_path / "out")
        assert (work.failed, work.before > 0) == (2, again), "a later run does not pass over the damage in silence"
        assert [row["file"] for row in rows] == (["0.wav"] if damage == "cut" else []) + ["x.wav"]


@pytest.mark.ci
def test_memory_does_not_grow_with_the_data_set(tmp_path):
    rows = [{"audio": {"bytes": bytes([n]) * (1 << 20), "path": f"{n}.wav"}} for n in range(96)]
    layout = {"row_group_size": 96, "write_batch_size": 1, "use_dictionary": False, "compression": "none"}
    pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "set.parquet", **layout)
    shard = DataSet.find(str(tmp_path / "set.parquet")).shards[0]
    before, most = pa.total_allocated_bytes(), 0
    for _ in samples(shard, tmp_path, None, print):
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 48 << 20


def test_only_what_needs_pyarrow_asks_for_it(tmp_path, monkeypatch):
    parquet(tmp_path / "set.parquet", [clip(1)])
    tar(tmp_path / "set.tar", [("x.wav", sound(1))])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="needs pyarrow") as error:
        unpacked(tmp_path / "set.parquet", tmp_path / "out")
    assert "specdec-cli[unpack]" in str(error.value.hint)
    assert unpacked(tmp_path / "set.tar", tmp_path / "tar")[1].count == 1


@pytest.mark.parametrize(
    ("named", "hint"),
    [
        ("owner/name", "hf download owner/name --repo-type dataset"),
        ("folder", "specdec batch --manifest folder/metadata.csv"),
        ("notes.txt", "It takes .parquet"),
    ],
)
def test_what_is_no_data_set_is_refused_with_what_to_do(tmp_path, monkeypatch, named, hint):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder/metadata.csv").write_text("file_name\n")
    Path("notes.txt").write_text("x")
    with pytest.raises(ConfigError) as error:
        DataSet.find(named)
    assert hint in str(error.value.hint)
