"""Manifests: the recordings that they name, by paths of any system, with what is known of them."""

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.manifest import read_manifest
from specdec_cli.inputs.recording import InputFile


def read(path: Path, text: str) -> list[InputFile]:
    path.write_text(text, "utf-8")
    return list(read_manifest(path))


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
        InputFile(str(tmp_path / "a.wav"), id="1", language="zh", instruction="怎么说话的？"),
        InputFile("/b c.wav", id="2", language="en", instruction='with a "quote", and a comma'),
        InputFile(str(tmp_path / "d.wav"), id="3"),
    ]
    assert read(tmp_path / "list.csv", quoted) == expected
    assert read(tmp_path / "semi.csv", quoted.replace('","', '";"')) == expected
    assert read(tmp_path / "quoted.tsv", quoted.replace('","', '"\t"')) == expected
    assert read(tmp_path / "plain.tsv", "\n".join(map("\t".join, (names, *rows)))) == expected
    assert read(tmp_path / "list.jsonl", jsonl(*objects)) == expected
    assert read(tmp_path / "list.json", json.dumps(objects, indent=1)) == expected


@pytest.mark.parametrize(
    "header",
    ["file,start,end,speaker,text", "Path,begin,stop,Speaker ID,sentence", "audio,tmin,tmax,spk,transcript",
     "filename,Start Time,endTime,speaker,Transcription"],
)  # fmt: skip
def test_one_table_is_a_manifest_and_cuts(tmp_path, header):
    items = read(tmp_path / "t.csv", f"{header}\na.wav,0.5,1,ann,hi\na.wav,1,2,bob,ho\n")
    cuts = Cuts.read(tmp_path / "t.csv").of_recording("a.wav")
    assert [item.id for item in items] == ["a-0000500-0001000", "a-0001000-0002000"]
    for found in (items, cuts):
        said = [(each.start_s, each.end_s, each.speaker, each.text) for each in found]
        assert said == [(0.5, 1.0, "ann", "hi"), (1.0, 2.0, "bob", "ho")]


PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text("utf-8")
COLUMNS: dict[str, tuple[str, str, object]] = {
    "recording": ("", "a.wav", "a.wav"), "id": ("file", "u7", "u7"), "speaker": ("file", "ann", "ann"),
    "what is spoken": ("file", "hi", "hi"), "language of the caption": ("file", "Mandarin", "zh"),
    "start": ("file,end", "1", 1.0), "end": ("file,start", "2", 2.0), "length": ("file,start", "2", 2.5),
    "instruction": ("file", "How?", "How?"),
}  # fmt: skip
"""Row of the page -> other columns, a cell, and what is read of it."""


@pytest.mark.parametrize("what", COLUMNS)
def test_columns_are_read_by_every_name_that_the_page_lists(tmp_path, what):
    row = re.search(rf"^\| {what} \| ([^;:\n]*)", PAGE, re.MULTILINE)
    assert row is not None
    others, cell, expected = COLUMNS[what]
    cells = {"file": "a.wav", "start": "0.5", "end": "5"}
    for name in re.findall("`(.+?)`", row[1]):
        beside = [each for each in others.split(",") if each]
        header, line = [name, *beside], [cell, *(cells[each] for each in beside)]
        (item,) = read(tmp_path / "t.csv", f"{','.join(header)}\n{','.join(line)}\n")
        found = (Path(item.path).name, item.id, item.speaker, item.text, item.language, item.start_s, item.end_s,
                 item.instruction)  # fmt: skip
        assert expected in found, name


@pytest.mark.parametrize(
    "name",
    ["clips\\a b.wav", ".\\clips\\a b.wav", "~/clips/a b.wav", "file://{}/clips/a%20b.wav", "{}/clips/a b.wav",
     '"clips/a b.wav"'],
)  # fmt: skip
def test_paths_of_windows_homes_and_addresses(tmp_path, name, monkeypatch):
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "a b.wav").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    (item,) = read(tmp_path / "m.tsv", f"file\n{name.format(tmp_path)}\n")
    assert Path(item.path).samefile(tmp_path / "clips" / "a b.wav")


def test_a_name_with_a_backslash_is_itself_where_it_is_there(tmp_path):
    (tmp_path / "a\\b.wav").touch()
    items = read(tmp_path / "m.csv", "file\na\\b.wav\n~x.wav\n")
    assert [item.path for item in items] == [str(tmp_path / name) for name in ("a\\b.wav", "~x.wav")]


@pytest.mark.parametrize("there", ["NFC", "NFD"])
@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("name", ["Gespräch.wav", "Zoë/Gespräch.wav", "Zoë/a.wav", "가/나.wav", "plain/é\u0323.wav"])
def test_composed_and_decomposed_letters_are_alike(tmp_path, name, written, there):
    """Also where the folder is spelled in one way and the file in another."""
    *folders, last = unicodedata.normalize(there, name).split("/")
    path = tmp_path.joinpath(*(unicodedata.normalize("NFC", folder) for folder in folders))
    path.mkdir(exist_ok=True)
    (path / last).touch()
    (item,) = read(tmp_path / "m.csv", f"file\n{unicodedata.normalize(written, name)}\n")
    assert item.path == str(path / last)
