"""Lists with ids, prompts and languages, and everything that can be wrong with one."""

from __future__ import annotations

import json
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
    assert tsv == csv == jsonl
    assert tsv == [
        InputFile(str(tmp_path / "a.wav"), "1", "zh", "怎么说话的？"),
        InputFile("/b c.wav", "2", "en", 'with a "quote", and a comma'),
        InputFile(str(tmp_path / "d.wav"), "3", None, None),
    ]


def test_other_columns_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    assert read(tmp_path / "l.tsv", "\ufeffspeaker\tpath\n1\ta.wav\n") == [InputFile(str(tmp_path / "a.wav"))]
    assert read(tmp_path / "l.jsonl", '{"audio": "a.wav", "id": 7, "x": [1]}\n\n') == [
        InputFile(str(tmp_path / "a.wav"), "7")
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("l.tsv", "name\tid\na.wav\t1\n", "l.tsv:1: no column is named file or path or audio"),
        ("l.tsv", "", "l.tsv:1"),
        ("l.tsv", "file\n", "names no recordings"),
        ("l.tsv", "file\tlanguage\na.wav\tfr\n", "l.tsv:2: prompt.language must be"),
        ("l.tsv", "file\tprompt\na.wav\t<|AUDIO|>\n", "l.tsv:2: prompt.text"),
        ("l.tsv", "file\tid\n\t1\n", "l.tsv:2: no recording is named"),
        ("l.tsv", "file\tid\na.wav\t1\nb.wav\t1\n", "l.tsv:3: the id '1' is that of line 2 too"),
        ("l.tsv", "file\na.wav\n./a.wav\n", "l.tsv:3: "),
        ("l.csv", 'file\n"a.wav\n', "l.csv:"),
        ("l.jsonl", "{\n", "l.jsonl:1"),
        ("l.jsonl", "[]\n", "l.jsonl:1: this is no JSON object"),
        ("l.jsonl", '{"file": 1.5}\n', "l.jsonl:1: file must be text, not 1.5"),
        ("l.jsonl", '{"file": "\\ud800"}\n', "not valid Unicode"),
        ("l.txt", "a.wav\n", "ends in .txt"),
    ],
)
def test_a_wrong_manifest_is_refused_with_its_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path / name, text)
    assert said in raised.value.message
    assert raised.value.hint


def test_all_wrong_rows_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"l\.tsv:2: .*2 more problems") as raised:
        read(tmp_path / "l.tsv", "file\tlanguage\na.wav\tfr\nb.wav\tde\nc.wav\tzh\nd.wav\txx\n")
    assert "l.tsv:3: " in (raised.value.hint or "")


def test_a_manifest_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Manifest.read(tmp_path / "none.tsv")
