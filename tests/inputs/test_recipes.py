"""The recipes of docs/tables.md are run as they are written, and what they make is read."""

import gzip
import json
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest

from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.manifest import read_manifest
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References

DOCUMENT = Path(__file__).parents[2] / "docs" / "tables.md"
LHOTSE = {
    "id": "cut-1",
    "start": 1.0,
    "duration": 2.5,
    "channel": 1,
    "supervisions": [{"id": "s", "recording_id": "r", "start": 0, "duration": 1, "text": "你好", "speaker": "Ann"}],
    "recording": {"id": "r", "sources": [{"type": "file", "channels": [0, 1], "source": "a.wav"}], "duration": 10.0},
    "type": "MonoCut",
}


def recipe(name: str) -> str:
    found = re.search(rf"<!-- recipe: {name} -->\n```\w+\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert found
    return found[1]


@pytest.mark.filterwarnings("ignore")  # of datasets and its hashes of functions
def test_a_data_set_of_hugging_face(tmp_path, monkeypatch):
    datasets, pyarrow = pytest.importorskip("datasets"), pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    features = datasets.Features(
        {
            "audio": datasets.Audio(),
            "emotion": datasets.ClassLabel(names=["angry", "sad"]),
            "text": datasets.Value("string"),
            "start": datasets.Value("float32"),
        }
    )
    rows = {
        "audio": [{"bytes": b"one", "path": "x/a.flac"}, None, {"bytes": b"two", "path": None}],
        "emotion": [1, 0, 0],
        "text": ["hi", "lost", None],
        "start": [7.0, 8.0, 9.0],
    }
    files = str(tmp_path / "train.parquet")
    parquet.write_table(pyarrow.Table.from_pydict(rows, schema=features.arrow_schema), files)
    load = partial(datasets.load_dataset, "parquet", data_files=files, cache_dir=str(tmp_path / "cache"))
    monkeypatch.setattr(datasets, "load_dataset", lambda _, **options: load(**options))
    monkeypatch.chdir(tmp_path)
    exec(recipe("datasets"), {})
    items = list(read_manifest(tmp_path / "recordings" / "table.jsonl", strict=True))
    assert [Path(item.path).read_bytes() for item in items] == [b"one", b"two"]
    assert [(Path(item.path).name, item.text, item.start_s) for item in items] == [
        ("000000-a.flac", "hi", None),
        ("000002-clip.wav", None, None),
    ]
    references = References.read(tmp_path / "recordings" / "table.jsonl", lexicon=Lexicon.read())
    assert [entry.labels for entry in references.entries] == [{"emotion": "sad"}, {"emotion": "angry"}]


def test_a_folder_of_kaldi(tmp_path):
    (tmp_path / "wav.scp").write_text("talk a b.wav\nother /x/other.flac\n")
    (tmp_path / "segments").write_text("talk-1 talk 0.5 2.25\ntalk-2 talk 3 -1\n")
    (tmp_path / "text").write_text("talk-1 你好 you\n")
    (tmp_path / "utt2spk").write_text("talk-1 Ann\ntalk-2 Bo\n")
    subprocess.run(recipe("kaldi"), shell=True, check=True, cwd=tmp_path)
    found = [
        (Path(item.path).name, item.id, item.start_s, item.end_s, item.speaker, item.text)
        for item in read_manifest(tmp_path / "table.tsv", strict=True)
    ]
    assert found == [
        ("a b.wav", "talk-1", 0.5, 2.25, "Ann", "你好 you"),
        ("a b.wav", "talk-2", 3.0, None, "Bo", None),
    ]


def test_cuts_of_lhotse(tmp_path, monkeypatch):
    bare = {**LHOTSE, "id": "cut-2", "supervisions": None, "channel": 0}
    lines = "".join(json.dumps(cut) + "\n" for cut in (LHOTSE, bare))
    (tmp_path / "cuts.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    monkeypatch.chdir(tmp_path)
    exec(recipe("lhotse"), {})
    found = [(i.id, i.start_s, i.end_s, i.channel, i.speaker, i.text) for i in read_manifest(tmp_path / "table.csv")]
    assert found == [("cut-1", 1.0, 3.5, 1, "Ann", "你好"), ("cut-2", 1.0, 3.5, 0, None, None)]


def test_labels_of_audacity(tmp_path):
    (tmp_path / "labels.txt").write_text("0.700000\t1.500000\thi\n\\\t100.0\t200.0\n2.000000\t3.000000\tyou\n")
    subprocess.run(recipe("audacity"), shell=True, check=True, cwd=tmp_path)
    cuts = Cuts.read(tmp_path / "talk.tsv", strict=True).of_recording("talk.wav")
    assert [(cut.start_s, cut.end_s, cut.text) for cut in cuts] == [(0.7, 1.5, "hi"), (2.0, 3.0, "you")]
