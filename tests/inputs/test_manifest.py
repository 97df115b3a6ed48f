"""Lists with ids, prompts and languages, and everything that can be wrong with one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from specdec_cli.errors import ConfigError
from specdec_cli.inputs.manifest import Manifest
from specdec_cli.inputs.recording import InputFile


def read(path: Path, text: str) -> list[InputFile]:
    path.write_text(text, "utf-8")
    return list(Manifest.read(path))


def test_a_table_and_json_lines_say_the_same(tmp_path: Path) -> None:
    rows = [
        ("a.wav", "1", "zh", "怎么说话的？"),
        ("/b c.wav", "2", "en", 'with a "quote", and a comma'),
        ("d.wav", "3", "", ""),
    ]
    names = ("file", "id", "language", "prompt")
    quoted = ["\t".join(f'"{field.replace(chr(34), chr(34) * 2)}"' for field in row) for row in (names, *rows)]
    tsv = read(tmp_path / "list.tsv", "\n".join(quoted) + "\n")
    csv = read(tmp_path / "list.csv", "\n".join(line.replace("\t", ",") for line in quoted))
    jsonl = read(tmp_path / "list.jsonl", "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows))
    semicolons = read(tmp_path / "semi.csv", "\n".join(line.replace("\t", ";") for line in quoted))
    objects = read(tmp_path / "list.json", json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
    assert tsv == csv == jsonl == semicolons == objects
    assert tsv == [
        InputFile(str(tmp_path / "a.wav"), id="1", language="zh", prompt="怎么说话的？"),
        InputFile("/b c.wav", id="2", language="en", prompt='with a "quote", and a comma'),
        InputFile(str(tmp_path / "d.wav"), id="3"),
    ]


def test_other_columns_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    assert read(tmp_path / "l.tsv", "\ufeffmood\tpath\n1\ta.wav\n") == [InputFile(str(tmp_path / "a.wav"))]
    assert read(tmp_path / "l.jsonl", '{"audio": "a.wav", "id": 7, "x": [1]}\n\n') == [
        InputFile(str(tmp_path / "a.wav"), id="7")
    ]


def test_a_manifest_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Manifest.read(tmp_path / "none.tsv")


def test_a_name_in_gbk_keeps_its_bytes_and_a_prompt_in_gbk_is_refused(tmp_path: Path) -> None:
    name = "说话人.wav".encode("gbk")
    (tmp_path / "l.tsv").write_bytes(b"file\tid\n" + name + b"\t1\n")
    (item,) = Manifest.read(tmp_path / "l.tsv")
    assert os.fsencode(item.path) == os.fsencode(tmp_path) + b"/" + name
    (tmp_path / "p.tsv").write_bytes(b"file\tprompt\na.wav\t" + "描述".encode("gbk") + b"\n")
    with pytest.raises(ConfigError, match=r"p\.tsv, line 2: not valid Unicode"):
        Manifest.read(tmp_path / "p.tsv")
