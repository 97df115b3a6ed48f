"""Lists with ids, prompts and languages, and those of Kaldi, NeMo and Lhotse."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.inputs.manifest import Manifest
from specdec_cli.inputs.recording import InputFile
from tests.inputs.formats import LHOTSE


def read(path: Path, text: str) -> list[InputFile]:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return list(Manifest.read(path))


def jsonl(*rows: Any) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def test_a_table_and_json_lines_say_the_same(tmp_path):
    rows = [
        ("a.wav", "1", "zh", "怎么说话的？"),
        ("/b c.wav", "2", "en", 'with a "quote", and a comma'),
        ("d.wav", "3", "", ""),
    ]
    names = ("file", "id", "language", "prompt")
    quoted = "\n".join(",".join(f'"{field.replace(chr(34), chr(34) * 2)}"' for field in row) for row in (names, *rows))
    objects = [dict(zip(names, row, strict=True)) for row in rows]
    expected = [
        InputFile(str(tmp_path / "a.wav"), id="1", language="zh", prompt="怎么说话的？"),
        InputFile("/b c.wav", id="2", language="en", prompt='with a "quote", and a comma'),
        InputFile(str(tmp_path / "d.wav"), id="3"),
    ]
    assert read(tmp_path / "list.csv", quoted) == expected
    assert read(tmp_path / "semi.csv", quoted.replace('","', '";"')) == expected
    assert read(tmp_path / "quoted.tsv", quoted.replace('","', '"\t"')) == expected
    assert read(tmp_path / "plain.tsv", "\n".join(map("\t".join, (names, *rows)))) == expected
    assert read(tmp_path / "list.jsonl", jsonl(*objects)) == expected
    assert read(tmp_path / "list.json", json.dumps(objects, indent=1)) == expected


def test_other_columns_and_a_byte_order_mark_do_no_harm(tmp_path):
    assert read(tmp_path / "l.tsv", "\ufeffmood\tpath\n1\ta.wav\n") == [InputFile(str(tmp_path / "a.wav"))]
    assert read(tmp_path / "l.jsonl", '{"audio": "a.wav", "id": 7, "x": [{"y": 1}]}\n\n') == [
        InputFile(str(tmp_path / "a.wav"), id="7")
    ]


def test_kaldi_without_and_with_segments(tmp_path):
    file = str(tmp_path / "a b.wav")
    whole = [InputFile(file, id="talk"), InputFile("/x/other.flac", id="other")]
    assert read(tmp_path / "wav.scp", "talk a b.wav\nother /x/other.flac\n") == whole
    (tmp_path / "segments").write_text("talk-1 talk 0.5 2.25\ntalk-2 talk 3 -1\ntalk-3 talk 4 5\n")
    (tmp_path / "text").write_text("talk-1 你好 你好\ntalk-2\n")
    (tmp_path / "utt2spk").write_text("talk-1 Ann\ntalk-2 Bo\ntalk-3\n")
    assert list(Manifest.read(tmp_path)) == [
        InputFile(file, id="talk-1", start_s=0.5, end_s=2.25, speaker="Ann", text="你好 你好"),
        InputFile(file, id="talk-2", start_s=3.0, end_s=None, speaker="Bo"),
        InputFile(file, id="talk-3", start_s=4.0, end_s=5.0),
    ]


def test_kaldi_s_channels_of_segments(tmp_path):
    (tmp_path / "segments").write_text("1 talk 0.5 2.25 A\n2 talk 3 -1 B\n3 talk 4 5 1\n4 talk 5 6\n5 talk 6 7 C\n")
    (tmp_path / "wav.scp").write_text("talk a.wav\n")
    manifest = Manifest.read(tmp_path)
    assert [(item.id, item.channel) for item in manifest] == [("1", 0), ("2", 1), ("3", 1), ("4", None), ("5", None)]
    assert "line 5 ('C' is no channel" in manifest.skips.sentences()[0]


@pytest.mark.parametrize("name", ["train.json", "train.jsonl"])
def test_nemo(tmp_path, name):
    rows = [
        {"audio_filepath": "a.wav", "duration": 2.0, "text": "你好", "speaker": "Ann"},
        {"audio_filepath": "/b.wav", "offset": 1.5, "duration": 2.0, "text": "x"},
        {"audio_filepath": "/b.wav", "offset": 4, "duration": 1, "id": "mine"},
    ]
    assert read(tmp_path / name, jsonl(*rows)) == [
        InputFile(str(tmp_path / "a.wav"), end_s=2.0, speaker="Ann", text="你好"),
        InputFile("/b.wav", id="b-0001500-0003500", start_s=1.5, end_s=3.5, text="x"),
        InputFile("/b.wav", id="mine", start_s=4.0, end_s=5.0),
    ]


@pytest.mark.parametrize("name", ["cuts.jsonl", "cuts.jsonl.gz"])
def test_lhotse(tmp_path, name):
    resampled = {**LHOTSE["recording"], "transforms": [{"name": "Resample", "kwargs": {}}]}
    whole = {**LHOTSE, "id": "cut-2", "start": 0, "duration": 10.0, "supervisions": None, "recording": resampled}
    file = str(tmp_path / "a.wav")
    assert read(tmp_path / name, jsonl(LHOTSE, whole)) == [
        InputFile(file, id="cut-1", start_s=1.0, end_s=3.5, speaker="Ann", text="你好 again"),
        InputFile(file, id="cut-2"),
    ]
