"""Tables of references: every layout gives the same entries, and what is wrong with one is said with its place."""

import json
from pathlib import Path

import pytest

from specdec_cli.errors import ReferencesError
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference, References

LEXICON = Lexicon.read()
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


NOTHING = ("", "nan", "NaN", "None", "NULL", "null", "N/A", "#N/A", "<NA>", "-")
LIST = [{"id": 7, "captions": ["One.", None, " Two. "]}]
READ: list[tuple[str, str, dict[str, object], tuple[Reference, ...]]] = [
    *((name, content, {}, ENTRIES) for name, content in LAYOUTS.items()),
    ("list.json", json.dumps(LIST), {}, (Reference("7", ("One.", "Two."), {}),)),
    (
        "named.csv", "file,other,caption,human,emotion,felt\na.wav,b.wav,C,H,sad,joy\n",
        {"file_column": "other", "text_columns": ["human"], "label_columns": {"emotion": "felt"}},
        (Reference("b.wav", ("H",), {"emotion": "happy"}),),
    ),
    *(
        ("t.tsv", f"file\tcaption\tpauses\tspeaker\tc_emotion\na\t{cell}\tnone\t{cell}\t{label}\nb\tB.\tfew\t\tsad",
         {}, (Reference("a", (), {"pauses": "few"}), Reference("b", ("B.",), {"pauses": "few", "emotion": "sad"})))
        for cell, label in zip(NOTHING, (*NOTHING[:7], "unknown", "Boredom", "OTHER"), strict=True)
    ),
    *(  # further names of columns of labels, which hold words alone
        ("names.tsv", f"file\t{header}\na\t{cells}\n", {}, (Reference("a", (), labels),))
        for header, cells, labels in (
            ("gender\tspeaking_rate\tenergy", "F\tslow\thigh", {"voice": "female", "rate": "slow", "volume": "loud"}),
            ("sex\tspeed\tloudness", "male_masculine\t5.2\t-20.1", {"voice": "male"}),
            ("label_voice\tc_rate\trate", "m\tfast\t7.1", {"voice": "male", "rate": "fast"}),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "options", "entries"), READ)
def test_what_a_table_says(tmp_path, name, content, options, entries):
    assert read(tmp_path / name, content, **options).entries == entries


GOOD = "file\tcaption\temotion\na.wav\tA voice.\thappy\n"
REFUSED = [
    ("nofile.tsv", "who\tcaption\nme\tA\n", {}, ("names the clip", "--column file=", "who, caption")),
    ("nothing.tsv", "file\tduration\na.wav\t3\n", {}, ("neither", "--column text=", "--column emotion=")),
    ("noname.tsv", "file\tcaption\n\tA\n", {}, ("line 2", "file", "empty")),
    ("nokey.json", '[{"file": null, "caption": "A"}]', {}, ("item 1", "file", "empty")),
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
def test_a_malformed_table_is_refused_with_its_place(tmp_path, name, content, options, names):
    with pytest.raises(ReferencesError) as caught:
        read(tmp_path / name, content, strict=True, **options)
    said = f"{caught.value.message}\n{caught.value.hint}"
    assert all(part in said for part in names), said
    assert caught.value.hint


def test_columns_are_found_by_what_they_are_called(tmp_path):
    header = ["Path", "text", "Caption_1", "caption_2", "rate", "c_rate", "label_emotion", "volume", "pitch", "spk"]
    row = ["a.wav", "what was said", "One.", "Two.", "5.4", "quick", "calm", "-20.1", "low", "me"]
    references = read(tmp_path / "t.tsv", "\t".join(header) + "\n" + "\t".join(row) + "\n")
    # a column of numbers that is called like an attribute is no label column
    labels = {"rate": "c_rate", "pitch": "pitch", "emotion": "label_emotion"}
    assert references.columns == {**labels, "text": "Caption_1, caption_2"}
    labels = {"rate": "fast", "pitch": "low", "emotion": "neutral"}
    assert references.entries == (Reference("a.wav", ("One.", "Two."), labels, "me"),)


def test_finding_a_clip(tmp_path):
    keys = ["x/a.wav", "y/a.wav", "x/b.wav", "deep/er/c.wav", "utt_4", "d.flac", "名/é.wav", "utt.5"]
    references = read(tmp_path / "t.tsv", "file\tcaption\n" + "".join(f"{key}\tA\n" for key in keys))
    found = {
        **dict.fromkeys(("x/a.wav", "./x/a.wav", "/data/x/a.wav"), "x/a.wav"),
        "C:\\data\\y\\a.wav": "y/a.wav",
        **dict.fromkeys(("b.wav", "elsewhere/b.wav"), "x/b.wav"),
        "er/c.wav": "deep/er/c.wav",
        "recordings/utt_4.wav": "utt_4",
        "utt.5.wav": "utt.5",
        "d.wav": "d.flac",
        "名/e\u0301.wav": "名/é.wav",
        **dict.fromkeys(("", "unknown.wav"), None),
    }
    assert {file: (entry := references.find(file)) and entry.key for file in found} == found
    for file in ("a.wav", "z/a.wav", "a.flac"):
        with pytest.raises(ReferencesError, match=r"may be (x/a\.wav or y/a\.wav|y/a\.wav or x/a\.wav)"):
            references.find(file)


def test_a_name_that_two_recordings_share_finds_neither_by_name_alone(tmp_path):
    references = read(tmp_path / "t.csv", "file,caption\nann/1.flac,A\n")
    references.require_some(["in/ann/1.flac", "./in/ann/1.flac"])  # one recording
    assert references.find("elsewhere/1.flac") is not None
    references.require_some(["in/ann/1.flac", "in/bob/1.flac"])
    assert references.find("in/ann/1.flac") is not None
    assert references.find("in/bob/1.flac") is None
    bare = read(tmp_path / "t.csv", "file,caption\n1,A\nann/1,B\n")
    bare.require_some(["in/ann/1.flac", "in/bob/1.flac"])
    assert [entry and entry.key for entry in map(bare.find, ("in/ann/1.flac", "in/bob/1.flac"))] == ["ann/1", "1"]
    bare = read(tmp_path / "t.csv", "file,caption\n1,A\n2,B\n")
    with pytest.raises(ReferencesError, match=r"^1 of .* may be in/ann/1\.flac or in/bob/1\.flac"):
        bare.require_some(["in/ann/1.flac", "in/bob/1.flac"])


def test_an_unknown_label_costs_itself(tmp_path):
    table = "file,emotion\na.wav,sad\nb.wav,grmpf\nc.wav,happy\n"
    references = read(tmp_path / "t.csv", table)
    assert [dict(entry.labels) for entry in references.entries] == [{"emotion": "sad"}, {}, {"emotion": "happy"}]
    (sentence,) = references.skips.sentences()
    assert "t.csv, line 3" in sentence
    assert "'grmpf'" in sentence
    with pytest.raises(ReferencesError, match=r"line 3.*grmpf"):
        read(tmp_path / "t.csv", table, strict=True)


def test_letters_of_several_corpora_are_asked_for(tmp_path):
    table = "file\temotion\na.wav\tA\nb.wav\tF\n"
    with pytest.raises(ReferencesError, match="codes of CREMA-D and of MSP-Podcast and of EMO-DB") as caught:
        read(tmp_path / "t.tsv", table)
    assert "judging.label_codes" in str(caught.value.hint)
    found = read(tmp_path / "t.tsv", table, label_codes="EMO-DB").entries
    assert [entry.labels["emotion"] for entry in found] == ["fearful", "happy"]


def test_texts_are_those_in_the_language(tmp_path):
    content = json.dumps(
        [{"file": "a.wav", "caption_en": "A calm female voice speaks.", "caption_zh": "一位女性平静地说话。"}]
    )
    (entry,) = read(tmp_path / "t.json", content).entries
    assert entry.texts_in("en") == ("A calm female voice speaks.",)
    assert entry.texts_in("zh") == ("一位女性平静地说话。",)


def of_pieces(tmp_path: Path, *rows: dict[str, object]) -> References:
    table = tmp_path / "pieces.jsonl"
    table.write_text("\n".join(map(json.dumps, rows)))
    return References.read(table, lexicon=LEXICON)


def test_pieces_of_a_recording_have_rows_of_their_own(tmp_path):
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


@pytest.mark.parametrize("span", [{"start_s": 2, "end_s": 1}, {"start_s": "a", "end_s": 3}, {"end_s": 3}])
def test_what_is_no_piece_is_left_out(tmp_path, span):
    whole = {"file": "b.wav", "start_s": 0, "end_s": 1, "emotion": "sad"}
    found = of_pieces(tmp_path, whole, {"file": "a.wav", "emotion": "sad", **span})
    assert [entry.key for entry in found.entries] == ["b.wav"]
    assert found.skips.left_out == 1


@pytest.mark.parametrize("names", ["start,end", "start_time,end_time", "Begin,Stop", "onset,offset", "tmin_ms,tmax_ms"])
def test_pieces_under_every_usual_name(tmp_path, names):
    times = "0,1000" if "ms" in names else "0,1"
    found = read(tmp_path / "t.csv", f"file,{names},emotion\na.wav,{times},sad\nb.wav,{times},happy\n")
    assert [entry.span for entry in found.entries] == [(0.0, 1.0)] * 2
    assert found.find("a.wav", 3.0, 4.0) is None


def test_references_of_other_recordings_are_refused_with_a_name_of_each_side(tmp_path):
    found = of_pieces(tmp_path, {"file": "a.wav", "emotion": "sad"})
    found.require_some(["x/b.wav", "y/a.wav"])
    with pytest.raises(ReferencesError, match=r"0 of 2 recordings were found in .*pieces\.jsonl") as refused:
        found.require_some(["x/b.wav", "y/c.wav"])
    assert "x/b.wav" in str(refused.value.hint)
    assert "a.wav" in str(refused.value.hint)


def test_the_language_of_a_recording_says_nothing_of_its_texts(tmp_path):
    table = "file,language,emotion,text\na.wav,de,anger,She sounds angry.\n"
    found = read(tmp_path / "t.csv", table, strict=True)
    assert found.entries[0].texts_in("en") == ("She sounds angry.",)
    assert not found.skips.sentences()
