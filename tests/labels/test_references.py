"""Tables of references: every layout gives the same entries, and what is wrong with one is said with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdec_cli.errors import ReferencesError
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference, References

LEXICON = Lexicon.load()
ROWS = [
    {"file": "x/a.wav", "caption": 'He said "go", slowly.', "emotion": "anger", "speaker": "s1"},
    {"file": "x/b.wav", "caption": "语速较快，情绪高兴。", "emotion": "高兴", "speaker": "s2"},
    {"file": "y/a.wav", "caption": "", "emotion": "boredom", "speaker": ""},
]
ENTRIES = (
    Reference("x/a.wav", ('He said "go", slowly.',), {"emotion": "angry"}, "s1"),
    Reference("x/b.wav", ("语速较快，情绪高兴。",), {"emotion": "happy"}, "s2"),
    Reference("y/a.wav", (), {}),
)


LAYOUTS = {
    "plain.tsv": "\n".join(["\t".join(ROWS[0]), *("\t".join(row.values()) for row in ROWS)]) + "\n",
    "list.json": json.dumps(ROWS),
    "lines.jsonl": "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS),
}


def read(path: Path, content: str | bytes, **options: object) -> References:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return References.read(path, lexicon=LEXICON, **options)


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_every_layout_gives_the_same_entries(tmp_path: Path, name: str) -> None:
    references = read(tmp_path / name, LAYOUTS[name])
    assert references.entries == ENTRIES


GOOD = "file\tcaption\temotion\na.wav\tA voice.\thappy\n"
REFUSED = [
    ("nofile.tsv", "who\tcaption\nme\tA\n", {}, ("names the clip", "--file-column", "who, caption")),
    ("nothing.tsv", "file\tduration\na.wav\t3\n", {}, ("neither", "--text-column", "--label")),
    ("noname.tsv", "file\tcaption\n\tA\n", {}, ("line 2", "file", "empty")),
    ("nokey.json", '[{"file": null, "caption": "A"}]', {}, ("item 1", "file", "empty")),
    ("double.tsv", "file\tcaption\na.wav\tA\na.wav\tB\n", {}, ("line 3", "a.wav")),
    ("same.csv", "file,caption\nx/a.wav,A\n./x/a.wav,B\n", {}, ("line 3",)),
    ("words.tsv", "file\tc_emotion\na.wav\thapy\nb.wav\tsad\n", {}, ("line 2", "c_emotion", "hapy", "ignored")),
    ("number.tsv", "file\tc_rate\na.wav\t5.2\nb.wav\t6.1\n", {}, ("line 2", "5.2")),
    ("col1.tsv", GOOD, {"file_column": "fil"}, ("fil", "file, caption, emotion")),
    ("col2.tsv", GOOD, {"text_columns": ["captoin"]}, ("captoin", "file, caption, emotion")),
    ("named.tsv", GOOD, {"label_columns": {"rate": "caption"}}, ("A voice.", "rate")),
    ("empty.tsv", "", {}, ()),
    ("table.xlsx", GOOD, {}, ()),
    ("short.csv", "file,caption,emotion\na.wav,A\n", {}, ("line 2",)),
    ("files.json", '[{"file": ["a.wav", "b.wav"], "caption": "A"}]', {}, ("item 1", "file")),
]


@pytest.mark.parametrize(("name", "content", "options", "names"), REFUSED)
def test_a_malformed_table_is_refused_with_its_place(
    tmp_path: Path, name: str, content: str, options: dict[str, object], names: tuple[str, ...]
) -> None:
    with pytest.raises(ReferencesError) as caught:
        read(tmp_path / name, content, **options)
    said = f"{caught.value.message}\n{caught.value.hint}"
    assert all(part in said for part in names), said
    assert caught.value.hint


def test_columns_are_found_by_what_they_are_called(tmp_path: Path) -> None:
    header = ["Path", "text", "Caption_1", "caption_2", "rate", "c_rate", "label_emotion", "volume", "pitch", "spk"]
    row = ["a.wav", "what was said", "One.", "Two.", "5.4", "quick", "calm", "-20.1", "low", "me"]
    references = read(tmp_path / "t.tsv", "\t".join(header) + "\n" + "\t".join(row) + "\n")
    # a column of numbers that is called like an attribute is no label column
    labels = {"rate": "c_rate", "pitch": "pitch", "emotion": "label_emotion"}
    assert references.columns == {**labels, "text": "Caption_1, caption_2"}
    labels = {"rate": "fast", "pitch": "low", "emotion": "neutral"}
    assert references.entries == (Reference("a.wav", ("One.", "Two."), labels, "me"),)


def test_named_columns_come_first(tmp_path: Path) -> None:
    content = "file,other,caption,human,emotion,felt\na.wav,b.wav,C,H,sad,joy\n"
    options = {"file_column": "other", "text_columns": ["human"], "label_columns": {"emotion": "felt"}}
    assert read(tmp_path / "t.csv", content, **options).entries == (Reference("b.wav", ("H",), {"emotion": "happy"}),)


def test_texts_may_be_lists_and_numbers_are_text(tmp_path: Path) -> None:
    content = json.dumps([{"id": 7, "captions": ["One.", None, " Two. "]}])
    assert read(tmp_path / "t.json", content).entries == (Reference("7", ("One.", "Two."), {}),)


@pytest.mark.parametrize("word", ["", "-", "N/A", "nan", "unknown", "Boredom", "OTHER"])
def test_rows_without_a_class_have_none(tmp_path: Path, word: str) -> None:
    assert read(tmp_path / "t.tsv", f"file\tc_emotion\na.wav\t{word}\nb.wav\tsad\n").entries[0].labels == {}


def test_finding_a_clip(tmp_path: Path) -> None:
    keys = ["x/a.wav", "y/a.wav", "x/b.wav", "deep/er/c.wav", "utt_4", "d.flac", "名/é.wav", "utt.5"]
    references = read(tmp_path / "t.tsv", "file\tcaption\n" + "".join(f"{key}\tA\n" for key in keys))
    found = {
        **dict.fromkeys(("x/a.wav", "./x/a.wav", "/data/x/a.wav"), "x/a.wav"),
        "C:\\data\\y\\a.wav": "y/a.wav",
        **dict.fromkeys(("a.wav", "z/a.wav"), None),  # two of them
        **dict.fromkeys(("b.wav", "elsewhere/b.wav"), "x/b.wav"),
        "er/c.wav": "deep/er/c.wav",
        "recordings/utt_4.wav": "utt_4",
        "utt.5.wav": "utt.5",
        "d.wav": "d.flac",
        "名/e\u0301.wav": "名/é.wav",
        **dict.fromkeys(("a.flac", "", "unknown.wav"), None),
    }
    assert {file: (entry := references.find(file)) and entry.key for file in found} == found


@pytest.mark.data
def test_the_corpora_table(data: Path) -> None:
    references = References.read(data / "labels.tsv", lexicon=LEXICON)
    attributes = {"voice", "rate", "pitch", "range", "volume", "pauses", "emotion"}
    assert set(references.columns) == attributes | {"text"}
    assert references.columns["text"] == "caption"
    assert len(references.entries) > 10_000
    for entry in references.entries[::500]:
        assert references.find(str(data / entry.key)) == entry


def of_pieces(tmp_path: Path, *rows: dict[str, object]) -> References:
    table = tmp_path / "pieces.jsonl"
    table.write_text("\n".join(map(json.dumps, rows)))
    return References.read(table, lexicon=LEXICON)


def test_pieces_of_a_recording_have_rows_of_their_own(tmp_path: Path) -> None:
    found = of_pieces(
        tmp_path,
        {"file": "x/long.wav", "start_s": 0, "end_s": 2.5, "emotion": "sad"},
        {"file": "x/long.wav", "start_s": 2.5, "end_s": 6.0, "emotion": "happy"},
        {"file": "x/other.wav", "emotion": "angry"},
    )

    def emotion(file: str, *span: float) -> str | None:
        reference = found.find(file, *span)
        return reference and reference.labels["emotion"]

    assert emotion("x/long.wav", 0.0, 2.5) == "sad"
    assert emotion("/data/x/long.wav", 0.1, 2.4) == "sad", "cuts may differ a little"
    assert emotion("long.wav", 2.2, 6.1) == "happy"
    assert emotion("x/long.wav", 0.0, 6.0) is None
    assert emotion("x/long.wav", 5.0, 9.0) is None
    assert emotion("x/long.wav") is None, "no row is about the whole"
    assert emotion("x/other.wav", 1.0, 2.0) == "angry", "a row about the whole is about each piece"


@pytest.mark.parametrize(
    "span", [{"start_s": 1}, {"start_s": 2, "end_s": 1}, {"start_s": "a", "end_s": 3}, {"end_s": 3}]
)
def test_what_is_no_piece_is_refused(tmp_path: Path, span: dict[str, object]) -> None:
    whole = {"file": "b.wav", "start_s": 0, "end_s": 1, "emotion": "sad"}
    with pytest.raises(ReferencesError, match=r"line 2: .*(is no time|begins at)"):
        of_pieces(tmp_path, whole, {"file": "a.wav", "emotion": "sad", **span})


def test_references_of_other_recordings_are_refused_with_a_name_of_each_side(tmp_path: Path) -> None:
    found = of_pieces(tmp_path, {"file": "a.wav", "emotion": "sad"})
    found.require_some(["x/b.wav", "y/a.wav"])
    with pytest.raises(ReferencesError, match=r"0 of 2 recordings were found in .*pieces\.jsonl") as refused:
        found.require_some(["x/b.wav", "y/c.wav"])
    assert "x/b.wav" in str(refused.value.hint)
    assert "a.wav" in str(refused.value.hint)
