"""Cuts and tables in every spelling that the tools of a format write, and what each table calls its columns."""

import gzip
import json
import sys
from pathlib import Path

import pytest

from specdec_cli.errors import AudioContentError, CutsError, ReferencesError
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.manifest import Manifest
from tests.inputs.formats import LHOTSE, NAMED, RTTM, SHORT_TEXTGRID, SRT, TEXTGRID, VTT, WHISPERX

Said = list[tuple[float, float, str | None, str | None]]

BOTH: Said = [(0.7, 1.5, "Ann", "你好。"), (2.2, 3.0, None, "Good morning.")]
ANN: Said = [(0.7, 1.5, "Ann", '你"好')]
TWO_SPEAKERS = TEXTGRID.replace("Ann - words", "Bo").replace("1.1", "1.5").replace('"你"', '"hi"')
CHRONOLOGICAL = """"Praat chronological TextGrid text file"
0 4   ! Time domain.
1   ! Number of tiers.
"IntervalTier" "Ann" 0 4
1 0 0.7
""
1 0.7 1.5
"hi"
"""
EAF = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT><TIME_ORDER>
<TIME_SLOT TIME_SLOT_ID="a" TIME_VALUE="700"/><TIME_SLOT TIME_SLOT_ID="b" TIME_VALUE="1500"/>
</TIME_ORDER><TIER TIER_ID="T" PARTICIPANT="R&amp;D"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="x"
TIME_SLOT_REF1="a" TIME_SLOT_REF2="b"><ANNOTATION_VALUE>hi</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
</ANNOTATION_DOCUMENT>"""
ATTACHED = """<TIER TIER_ID="T - text" PARENT_REF="T"><ANNOTATION>
<REF_ANNOTATION ANNOTATION_ID="z" ANNOTATION_REF="y"><ANNOTATION_VALUE>hi</ANNOTATION_VALUE></REF_ANNOTATION>
</ANNOTATION></TIER><TIER TIER_ID="T - gloss" PARENT_REF="T"><ANNOTATION>
<REF_ANNOTATION ANNOTATION_ID="y" ANNOTATION_REF="x"></REF_ANNOTATION></ANNOTATION></TIER>"""
HI: Said = [(0.7, 1.5, "Ann", "hi")]


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(folder: Path, name: str, text: str | bytes) -> Said:
    cuts = Cuts.read(written(folder, name, text)).of("/somewhere/talk.wav")
    return [(cut.start_s, cut.end_s, cut.speaker, cut.text) for cut in cuts]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("c.rttm", RTTM, [(0.7, 1.5, "Ann", None), (2.2, 3.0, "小王", None)]),
        ("c.rttm.gz", gzip.compress(RTTM.encode()), [(0.7, 1.5, "Ann", None), (2.2, 3.0, "小王", None)]),
        ("c.srt", SRT, BOTH),
        ("c.srt", "\ufeff" + SRT.replace("\n", "\r\n"), BOTH),
        ("c.srt", "00:01.0 --> 00:02.0\nleft -->\nright\n", [(1.0, 2.0, None, "left --> right")]),
        ("c.vtt", VTT, BOTH),
        ("c.TextGrid", TEXTGRID, [(0.7, 1.5, "Ann", "你好。")]),
        ("c.TextGrid", TEXTGRID.encode("utf-16"), [(0.7, 1.5, "Ann", "你好。")]),
        ("c.TextGrid", NAMED, [(0.7, 1.5, "Bo", "你好。")]),
        ("c.TextGrid", SHORT_TEXTGRID, [(0.7, 1.5, "Ann", '你"好')]),
        ("c.json", WHISPERX, [(0.7, 1.5, "Ann", "你好。"), (2.2, 3.0, None, "Good")]),
        ("c.csv", "start,end,text\n0.7,1.5,a\n0:02.2,00:00:03,\n", [(0.7, 1.5, None, "a"), (2.2, 3.0, None, None)]),
        ("c.tsv", "file\tonset\tduration\ntalk.wav\t0.7\t0.8\nx.wav\t1\t1\n", [(0.7, 1.5, None, None)]),
        ("c.TextGrid", SHORT_TEXTGRID.replace('"ooTextFile"', '"ooTextFile short"'), ANN),
        ("c.TextGrid", SHORT_TEXTGRID.replace('"ooTextFile"\nObject class = ', '"ooTextFile short"\n'), ANN),
        ("c.TextGrid", TEXTGRID.replace("intervals: size = 3", "intervals: size = 7"), [(0.7, 1.5, "Ann", "你好。")]),
        ("c.TextGrid", TWO_SPEAKERS, [(0.7, 1.5, "Ann", "你好。"), (0.7, 1.5, "Bo", "hi")]),
        ("c.TextGrid", CHRONOLOGICAL, HI),
        ("c.eaf", EAF, [(0.7, 1.5, "R&D", "hi")]),
        ("c.vtt", "WEBVTT\n\n00:00.700 --> 00:01.500\n<v R&amp;D>a &lt; b\n", [(0.7, 1.5, "R&D", "a < b")]),
        ("c.vtt", "WEBVTT\n\n00:00.700 --> 00:01.500\n<v Ann>hi\n\nthere\n\nNOTE no\n\n1\n00:02.000 --> 00:03.000\nx\n", [(0.7, 1.5, "Ann", "hi there"), (2.0, 3.0, None, "x")]),  # noqa: E501
        ("c.srt", "00:00:00.700 --> 00:00:01.500\n[Ann]: hi\n2\n00:02 --> 00:03\nHe said [laughs]: hello\n", [*HI, (2.0, 3.0, None, "He said [laughs]: hello")]),  # noqa: E501
        ("c.srt", "1\n00:00:00, 700 --> 00:00:01, 500\nhi\n\n2\n00:00:02:000 -> 00:00:03:000\n5 -> 6\n", [(0.7, 1.5, None, "hi"), (2.0, 3.0, None, "5 -> 6")]),  # noqa: E501
        ("c.srt", "1\n00:00:00,700.0999999999999 --> 00:00:01.50000000000001\nhi\n", [(0.7, 1.5, None, "hi")]),
        ("c.rttm", 'SPEAKER "talk" 1 0.7 0.8 nan nan "Ann Lee" nan nan\n', [(0.7, 1.5, "Ann Lee", None)]),
        ("c.TextGrid", TEXTGRID.replace("0.7", "0,7").replace("1.5", "1,5"), [(0.7, 1.5, "Ann", "你好。")]),
        ("c.tsv", "Tier\tBegin Time - hh:mm:ss.ms\tEnd Time - hh:mm:ss.ms\nAnn\t00:00:00.700\t00:00:01.500\n", [(0.7, 1.5, "Ann", None)]),  # noqa: E501
        ("c.tsv", "Begin Time - ss.msec\tEnd Time - ss.msec\tTier\n0.7\t1.5\tAnn\n", [(0.7, 1.5, "Ann", None)]),
        ("c.csv", 'start, end, text\n0.7, 1.5, "hi, you"\n', [(0.7, 1.5, None, "hi, you")]),
        ("c.eaf", EAF.replace(">hi<", "><").replace("<TIER ", ATTACHED + "<TIER "), [(0.7, 1.5, "R&D", "hi")]),
        ("c.srt", "1\n0:0:0,7 ==> 0:0:1,5\nSPEAKER_00: hi\n\n2\n00:02.000 – > 00:03.000\n说话人 1：你好\n", [(0.7, 1.5, "SPEAKER_00", "hi"), (2.0, 3.0, "说话人 1", "你好")]),  # noqa: E501
        ("c.srt", "1\n00:00:00,700 --> 00:00:01,500\n[SPEAKER_07] hi\n\n2\n00:00:02,000 --> 00:00:03,000\nNote: hi\n", [(0.7, 1.5, "SPEAKER_07", "hi"), (2.0, 3.0, None, "Note: hi")]),  # noqa: E501
        ("c.eaf", EAF.replace(">hi<", "><"), [(0.7, 1.5, "R&D", None)]),
        ("c.csv", "file,start,end\ntalk.wav,0 days 00:00:00.700,0 days 00:00:01.500000000\n", [(0.7, 1.5, None, None)]),
        ("c.rttm", "SPEAKER talk 1 0.7 0.8 <NA> <NA> Ann Lee <NA> <NA>\n", [(0.7, 1.5, "Ann Lee", None)]),
        ("c.txt", "0.7\t1.5\thi\n\\\t100\t200\n", [(0.7, 1.5, None, "hi")]),
        ("c.tsv", "start\tend\ttext\n700\t1500\thi\n2200\t3000\tyou\n", [(0.7, 1.5, None, "hi"), (2.2, 3.0, None, "you")]),  # noqa: E501
        ("c.csv", "start,end,text\n700.0,1500.0,hi\n2200.0,3000.0,you\n", [(0.7, 1.5, None, "hi"), (2.2, 3.0, None, "you")]),  # noqa: E501
        ("c.csv", "start,end,speaker\n０．７,０：０１．５,Ann\n", [(0.7, 1.5, "Ann", None)]),
        ("c.csv", "sep=;\r\n;Start;Ende;End;Speaker;\r\n0;0,7;;1,5;Ann;\r\n;;;;;\r\n", [(0.7, 1.5, "Ann", None)]),
        ("c.csv", "start_ms,duration_ms,spk,Sentence\n700,800,Ann,hi\n", HI),
        ("praat.tsv", "tmin\ttier\ttext\ttmax\n0.7\tAnn\thi\t1.5\n", HI),
        ("edit.csv", "Number;Start time in milliseconds;End time in milliseconds;Text\n1;700;1500;hi\n", [(0.7, 1.5, None, "hi")]),  # noqa: E501
        ("c.json", json.dumps({"chunks": [{"timestamp": [0.7, 1.5], "text": " hi"}]}), [(0.7, 1.5, None, "hi")]),
        ("c.json", json.dumps({"jobId": "x", "output": {"diarization": [{"speaker": "Ann", "start": 0.7, "end": 1.5}]}}), [(0.7, 1.5, "Ann", None)]),  # noqa: E501
        ("c.jsonl", json.dumps({"recording_id": "talk", "start": 0.7, "duration": 0.8, "speaker": "Ann", "text": "hi"}), HI),  # noqa: E501
    ],
)  # fmt: skip
def test_spellings_of_cuts(tmp_path, name, text, found):
    got = read(tmp_path, name, text)
    assert [(s, e, *rest) for s, e, *rest in got] == [
        (pytest.approx(s), pytest.approx(e), *rest) for s, e, *rest in found
    ]


@pytest.mark.parametrize("tier", ["words", "Ann - phones"])
def test_a_grid_of_words_says_which_tiers_it_has(tmp_path, tier):
    grid = TEXTGRID.replace('"Ann"', f'"{tier}"')
    with pytest.raises(ReferencesError, match=f"its tiers are '{tier}'"):
        read(tmp_path, "c.TextGrid", grid.replace("Ann - words", "syllables"))
    assert read(tmp_path, "c.TextGrid", grid.replace("Ann - words", "caption"))  # those of captions are enough


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.TextGrid", SHORT_TEXTGRID),
        ("c.srt", '1\n00:00:00,700 --> 00:00:01,500\n[Ann]: 你"好\n'),
        ("c.eaf", EAF.replace("UTF-8", "UTF-16").replace("R&amp;D", "Ann").replace(">hi<", '>你"好<')),
    ],
)
def test_utf_16_with_and_without_a_mark(tmp_path, name, text, coding):
    assert read(tmp_path, name, text.encode(coding)) == ANN


def test_unicode_text_of_excel_has_quotes(tmp_path):
    table = 'start\tend\ttext\n0.7\t1.5\t"Hello, ""you"""\n'
    assert read(tmp_path, "c.tsv", table.encode("utf-16")) == [(0.7, 1.5, None, 'Hello, "you"')]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.srt", "1\n00:00:00,700 --> 00:00:01,500\nGespräch\n"),
        ("c.vtt", "WEBVTT\n\n00:00.700 --> 00:01.500\n<v Jürgen>hi\n"),
        ("c.rttm", "SPEAKER talk 1 0.7 0.8 <NA> <NA> Jürgen <NA> <NA>\n"),
        ("c.TextGrid", SHORT_TEXTGRID.replace('你""好', "Gespräch")),
        ("c.txt", "0.7\t1.5\tGespräch\n"),
    ],
)
def test_what_is_no_utf_8_costs_the_words_and_not_the_times(tmp_path, name, text):
    cuts = Cuts.read(written(tmp_path, name, text.encode("latin-1")))
    (cut,) = cuts.of("talk.wav")
    assert (cut.start_s, cut.end_s) == (0.7, 1.5)
    assert f"{cut.speaker}{cut.text}".isascii()
    assert "only its times count" in cuts.skips.sentences()[-1]


@pytest.mark.parametrize(("start", "length"), [("nan", "0.8"), ("<NA>", "0.8"), ("0.7", "nan"), ("0.7", "<NA>")])
def test_a_turn_without_a_time_is_not_all_of_the_recording(tmp_path, start, length):
    line = "SPEAKER talk 1 {} {} <NA> <NA> Ann <NA> <NA>\n"
    cuts = Cuts.read(written(tmp_path, "c.rttm", line.format(start, length) + line.format("0.7", "0.8")))
    assert [(cut.start_s, cut.end_s) for cut in cuts.of("talk.wav")] == [(0.7, 1.5)]
    assert cuts.skips.left_out == 1


@pytest.mark.parametrize(
    ("origins", "shift"), [(["3000"], 3.0), (["3000", "3000"], 3.0), (["0"], 0.0), (["0", "500"], 0.0)]
)
def test_times_of_elan_count_from_its_time_origin(tmp_path, origins, shift):
    media = "".join(f'<MEDIA_DESCRIPTOR MEDIA_URL="x" TIME_ORIGIN="{origin}"/>' for origin in origins)
    document = EAF.replace("<TIME_ORDER>", f"<HEADER>{media}</HEADER><TIME_ORDER>")
    cuts = Cuts.read(written(tmp_path, "c.eaf", document))
    assert [(cut.start_s, cut.end_s) for cut in cuts.of("talk.wav")] == [(0.7 + shift, 1.5 + shift)]
    assert ("TIME_ORIGIN" in " ".join(cuts.skips.sentences())) == (origins != ["0"])


@pytest.mark.parametrize("channels", ["1.0 2.0", "0.0 1.0", "0 1"])
def test_channels_that_pandas_made_decimal(tmp_path, channels):
    table = "file,channel\n" + "".join(f"a.wav,{channel}\n" for channel in channels.split())
    assert [item.channel for item in Manifest.read(written(tmp_path, "m.csv", table))] == [0, 1]


@pytest.mark.parametrize(
    "name", ["clips\\a b.wav", ".\\clips\\a b.wav", "~/clips/a b.wav", "file://{}/clips/a%20b.wav", "{}/clips/a b.wav"]
)
def test_paths_of_windows_homes_and_addresses(tmp_path, name, monkeypatch):
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "a b.wav").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    (item,) = Manifest.read(written(tmp_path, "m.csv", f"file\n{name.format(tmp_path)}\n"))
    assert Path(item.path).samefile(tmp_path / "clips" / "a b.wav")


def test_a_name_with_a_backslash_is_itself_where_it_is_there(tmp_path):
    (tmp_path / "a\\b.wav").touch()
    items = Manifest.read(written(tmp_path, "m.csv", "file\na\\b.wav\n~x.wav\n"))
    assert [item.path for item in items] == [str(tmp_path / name) for name in ("a\\b.wav", "~x.wav")]


@pytest.mark.parametrize(
    "header", ["file,start,end,speaker,text", "Path,begin,stop,client_id,sentence", "audio,onset,offset,spk,transcript", "filename,tmin,tmax,Speaker ID,Transcription"]  # noqa: E501
)  # fmt: skip
def test_one_table_is_a_manifest_and_cuts(tmp_path, header):
    path = written(tmp_path, "t.csv", f"{header}\na.wav,0.5,1,ann,hi\na.wav,1,2,bob,ho\n")
    items, cuts = list(Manifest.read(path)), Cuts.read(path).of("a.wav")
    assert len({item.key for item in items}) == 2
    for found in (items, cuts):
        said = [(each.start_s, each.end_s, each.speaker, each.text) for each in found]
        assert said == [(0.5, 1.0, "ann", "hi"), (1.0, 2.0, "bob", "ho")]


@pytest.mark.parametrize(
    ("table", "part", "note"),
    [
        ("file,segment_start,segment_end\na.wav,0.5,1\n", (None, None), "column segment_start is not read"),
        ("file,t0,t1\na.wav,0.5,1\n", (None, None), "column t0 is not read"),
        ("file,start_min,end_min\na.wav,0.5,1\n", (None, None), "column start_min is not read"),
        ("file,start_date,end_date\na.wav,2020,2021\n", (None, None), None),
        ("file,start,finish\na.wav,0.5,1\n", (0.5, None), "no column is known to hold ends"),
        ("wav,duration,start,stop\na.wav,2.0,8000,40000\n", (0.5, 2.5), "read as samples, 16,000 a second"),
        ("wav,duration,start,stop\na.wav,2.0,500,2500\n", (0.5, 2.5), "read as milliseconds"),
        ('file,start_ms,end_ms\na.wav,500,"1,000"\n', (0.5, 1.0), None),
        ('file,start_ms,end_ms\na.wav,"500,5","1000,5"\n', (0.5005, 1.0005), None),
    ],
)
def test_times_that_are_read_otherwise_than_they_may_be_meant_are_told(tmp_path, table, part, note):
    manifest = Manifest.read(written(tmp_path, "t.csv", table))
    ((start_s, end_s),) = [(item.start_s, item.end_s) for item in manifest]
    assert (start_s, end_s) == (part if part[0] is None else pytest.approx(part))
    sentences = manifest.skips.sentences()
    assert sentences == [] if note is None else note in sentences[0]


def test_nemo_without_a_duration_is_all_of_it(tmp_path):
    line = '{{"audio_filepath": "a.wav", "offset": {}, "duration": null}}\n'
    items = Manifest.read(written(tmp_path, "m.json", line.format(0) + line.format(3)))
    assert [(item.start_s, item.end_s) for item in items] == [(None, None), (3.0, None)]


def test_channels(tmp_path):
    stereo = {**LHOTSE["recording"], "channel_ids": [0, 1]}
    (tmp_path / "cuts.jsonl").write_text(
        "".join(json.dumps({**LHOTSE, "id": f"c{n}", "channel": n, "recording": stereo}) + "\n" for n in (0, 1))
    )
    assert [item.channel for item in Manifest.read(tmp_path / "cuts.jsonl")] == [0, 1]
    (tmp_path / "c.rttm").write_text(
        "".join(f"SPEAKER {name} {n} 0 1 <NA> <NA> a <NA> <NA>\n" for name, n in (("x", 1), ("x", 2), ("y", 1)))
    )
    cuts = Cuts.read(tmp_path / "c.rttm")
    assert [cut.channel for cut in cuts.of("x.wav")] == [0, 1]
    assert [cut.channel for cut in cuts.of("y.wav")] == [None]
    for rows, channels in (("0\n1", [0, 1]), ("1\n2", [0, 1]), ("left\nright", [0, 1])):
        lines = "".join(f"{n},{n + 1},{row}\n" for n, row in enumerate(rows.split("\n")))
        (tmp_path / "c.csv").write_text(f"start,end,channel\n{lines}")
        assert [cut.channel for cut in Cuts.read(tmp_path / "c.csv").of("z.wav")] == channels


def test_cuts_are_found_by_path_and_then_by_name(tmp_path):
    table = "file,start,end\nann/1.flac,0,1\nbob/1,2,3\nmy_talk,4,5\nGespräch,6,7\ntalk.v2,8,9\n"
    cuts = Cuts.read(written(tmp_path, "c.csv", table))
    names = ("/x/ann/1.flac", "/x/bob/1.flac", "my talk.flac", "Gespra\u0308ch.flac", "talk.v2.wav")
    for recording, start in zip(names, (0, 2, 4, 6, 8), strict=True):
        assert [cut.start_s for cut in cuts.of(recording)] == [start], recording
    with pytest.raises(CutsError, match=r"may be (ann/1\.flac or bob/1|bob/1 or ann/1\.flac)"):
        cuts.of("/x/eve/1.flac")
    with pytest.raises(CutsError, match="has no cuts"):
        cuts.of("talk.wav")


def test_a_bad_cut_costs_itself(tmp_path):
    segments = [(-0.02, 1), (1, 1), (2, None), (3, 4), (5, None)]
    document = {"segments": [{"start": s, "end": e, "text": "x"} for s, e in segments]}
    cuts = Cuts.read(path := written(tmp_path, "c.json", json.dumps(document)))
    assert [(cut.start_s, cut.end_s) for cut in cuts.of("a.wav")] == [(0.0, 1.0), (2.0, 3.0), (3.0, 4.0), (5.0, 1e8)]
    assert (cuts.skips.left_out, cuts.skips.changed) == (1, 3)
    assert "item 2 (it has no length: 1 s to 1 s)" in cuts.skips.sentences()[0]
    with pytest.raises(ReferencesError, match="item 1"):
        Cuts.read(path, strict=True)


def test_lines_that_roll_are_shown_once(tmp_path):
    rolling = "WEBVTT\n\n00:00.000 --> 00:02.000\n \nhello<00:00:01.000><c> you</c>\n\n00:02.000 --> 00:02.010\nhello you\n\n00:02.010 --> 00:04.000\nhello you\nand<00:00:03.000><c> me</c>\n"  # noqa: E501
    assert [text for *_, text in read(tmp_path, "c.vtt", rolling)] == ["hello you", "and me"]
    assert len(read(tmp_path, "c.vtt", VTT)) == 2


@pytest.mark.parametrize("bad", ["first", "last"])
def test_bytes_that_are_no_utf_8_cost_a_row_of_several_lines(tmp_path, bad):
    said = {"first": ("Gespr\xe4ch\nx", "x"), "last": ("x\nGespr\xe4ch", "y")}[bad]
    rows = f'start,end,text\n0,1,"{said[0]}"\n1,2,"a\nb"\n'
    cuts = Cuts.read(written(tmp_path, "c.csv", rows.encode("latin-1")))
    assert [(cut.start_s, cut.text) for cut in cuts.of("a.wav")] == [(1.0, "a b")]
    left_out = f"{tmp_path / 'c.csv'}, line 2 (not UTF-8 text: save it as UTF-8)"
    assert cuts.skips.sentences() == [f"1 entry was left out: {left_out}"]


@pytest.mark.parametrize(
    ("name", "text", "most"),
    [
        ("c.rttm", "".join(f"SPEAKER talk 1 {n}.5 0.8 <NA> <NA> ann <NA> <NA>\n" for n in range(1000)), 45),
        ("c.csv", "file,start,end,text\n" + "".join(f"a.wav,{n},{n}.5,x\n" for n in range(1000)), 90),
        ("c.json", json.dumps({"segments": [{"id": n, "seek": 0, "start": n, "end": n + 0.5, "text": " hello", "tokens": [*range(20)], "temperature": 0.0} for n in range(1000)]}), 130),  # noqa: E501
    ],
)  # fmt: skip
def test_a_row_takes_a_bounded_number_of_calls(tmp_path, name, text, most):
    """So that a million lines take seconds: cells that nobody asks for are not converted, JSON is parsed once."""
    path, calls = written(tmp_path, name, text), 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        Cuts.read(path)
    finally:
        sys.setprofile(None)
    assert 1000 < calls < most * 1000


ZOOM = "WEBVTT\n\n1\n00:00:00.700 --> 00:00:01.500\nAnn Lee: hello\n\n2\n00:00:02.000 --> 00:00:03.000\n{}\n\n3\n00:00:03.000 --> 00:00:04.000\n小王: 你好\n"  # noqa: E501


@pytest.mark.parametrize(
    ("second", "speakers"),
    [
        ("Ann Lee: so: what?", ["Ann Lee", "Ann Lee", "小王"]),
        ("小王：so: what?", ["Ann Lee", "小王", "小王"]),
        ("Bo: and you?", [None, None, None]),  # nobody comes again
        ("and so on", [None, None, None]),
    ],
)
def test_names_before_colons_are_speakers_where_every_cue_has_one(tmp_path, second, speakers):
    cuts = Cuts.read(written(tmp_path, "z.vtt", ZOOM.format(second)))
    found = cuts.of("talk.wav")
    assert [cut.speaker for cut in found] == speakers
    assert found[1].text == ("so: what?" if speakers[0] else second)
    assert bool(cuts.skips.sentences()) == bool(speakers[0])


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"results": {"transcripts": [{"transcript": "hi"}], "audio_segments": [{"id": 0, "transcript": "hi", "start_time": "0.7", "end_time": "1.5", "speaker_label": "spk_0", "items": [0]}]}}, ("spk_0", "hi", None)),  # noqa: E501
        ({"metadata": {}, "results": {"channels": [], "utterances": [{"start": 0.7, "end": 1.5, "channel": 1, "transcript": "hi", "words": [{"word": "hi"}], "speaker": 0}]}}, ("0", "hi", 0)),  # noqa: E501
        ([{"key": "talk", "text": "hi", "sentence_info": [{"text": "hi", "start": 700, "end": 1500, "spk": 0}]}], ("0", "hi", None)),  # noqa: E501
    ],
    ids=["amazon", "deepgram", "funasr"],
)  # fmt: skip
def test_documents_of_services(tmp_path, document, found):
    (cut,) = Cuts.read(written(tmp_path, "d.json", json.dumps(document))).of("talk.wav")
    assert (cut.start_s, cut.end_s) == (pytest.approx(0.7), pytest.approx(1.5))
    assert (cut.speaker, cut.text, cut.channel) == found


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("c.ass", "[Events]\n", "SRT"),
        ("c.trs", "<Trans/>", ".eaf"),
        ("c.ctm", "talk 1 0.7 0.8 hi\n", "columns file, start, end"),
        ("segments.txt", "utt talk 0.7 1.5\n", "--manifest FOLDER"),
        ("c.TextGrid", '"Praat collection"\n0 4\n', "Save it again as a text file"),
        ("rev.json", '{"monologues": []}', "SRT or VTT"),
        ("bare.csv", "0.7,0.8,hi\n1,2,x\n", "The first line"),
    ],
)
def test_what_is_not_read_says_what_is(tmp_path, name, text, hint):
    with pytest.raises(ReferencesError) as caught:
        read(tmp_path, name, text)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(("name", "hint"), [("l.txt", "specdec batch - <"), ("l.xlsx", "as CSV"), ("l.m3u", "- <")])
def test_lists_that_are_no_tables_say_what_to_do(tmp_path, name, hint):
    with pytest.raises(ReferencesError) as caught:
        Manifest.read(written(tmp_path, name, "a.wav\n"))
    assert hint in str(caught.value.hint)


def test_further_names_of_columns(tmp_path):
    lines = '{"wav": "a.wav", "txt": "hi"}\n{"wav": "b.wav", "txt": "-"}\n'
    assert [item.text for item in Manifest.read(written(tmp_path, "m.jsonl", lines))] == ["hi", None]


def test_times_of_iemocap_count_in_the_dialogue_and_not_in_its_clips(tmp_path):
    row = "6.2901,8.2357,Ses01F_impro01_F000,neu\n"
    path = written(tmp_path, "iemocap.csv", f"start_time,end_time,wav_file,emotion\n{row}")
    manifest = Manifest.read(path)
    assert [(item.path, item.start_s) for item in manifest] == [(str(tmp_path / "Ses01F_impro01_F000"), None)]
    assert "whose times count in the dialogue" in manifest.skips.sentences()[0]
    with pytest.raises(ReferencesError, match="its times count in the dialogues"):
        Cuts.read(path)
    path.write_text("start_time,end_time,wav_file,id\n6.2901,8.2357,Ses01F_impro01.wav,Ses01F_impro01_F000\n")
    assert [(cut.start_s, cut.end_s) for cut in Cuts.read(path).of("Ses01F_impro01.wav")] == [(6.2901, 8.2357)]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("c.vtt", "WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:900000\n\n00:00.700 --> 00:01.500\nhi\n", "MPEGTS:900000 may move them"),  # noqa: E501
        ("c.vtt", "WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0\n\n00:00.700 --> 00:01.500\nhi\n", None),
        ("c.TextGrid", TEXTGRID.replace("xmin = 0\nxmax = 4\ntiers", "xmin = 0.5\nxmax = 4\ntiers"), "its times begin at 0.5 s"),  # noqa: E501
        ("c.srt", "1\n00:00:00,700 --> 00:00:01,500\nhi\n\n2\n00:00:02:12 --> 00:00:03:12\nframes\n", "'00:00:02:12' is no time"),  # noqa: E501
    ],
)  # fmt: skip
def test_times_that_may_mean_something_else_are_told(tmp_path, name, text, told):
    cuts = Cuts.read(written(tmp_path, name, text))
    assert [cut.start_s for cut in cuts.of("talk.wav")] == [0.7]
    assert (told or "") in "".join(cuts.skips.sentences())
    assert bool(cuts.skips.sentences()) == bool(told)


def test_parts_in_samples_are_not_taken_for_whole_recordings_in_silence(tmp_path):
    path = written(tmp_path, "m.csv", "file,start_sample,end_sample\na.wav,16000,32000\n")
    assert "column start_sample is not read" in Manifest.read(path).skips.sentences()[0]


@pytest.mark.parametrize(("index", "left_out"), [("1", 0), ("x.wav", 2)])
def test_a_cell_too_many_is_an_index_only_if_it_is_a_number(tmp_path, index, left_out):
    others = "c.wav,x\n" if left_out else ""
    table = f"file,text\n{index},a.wav,hi\n{index},b.wav,you\n{others}"
    manifest = Manifest.read(written(tmp_path, "m.csv", table))
    assert [Path(item.path).name for item in manifest] == (["c.wav"] if left_out else ["a.wav", "b.wav"])
    assert manifest.skips.left_out == left_out


@pytest.mark.parametrize("name", ['"talk.wav"', "talk"])
def test_a_path_in_quotes_or_without_its_ending_is_found(tmp_path, name):
    (tmp_path / "talk.wav").touch()
    (item,) = Manifest.read(written(tmp_path, "m.tsv", f"file\n{name}\n"))
    assert Path(item.path).name == "talk.wav"


def test_a_folder_has_a_file_for_each_recording(tmp_path):
    (tmp_path / "talk.srt").write_text(SRT)
    (tmp_path / "two.srt").write_text(SRT)
    (tmp_path / "two.vtt").write_text(VTT)
    cuts = Cuts.read(tmp_path)
    assert [cut.start_s for cut in cuts.of(str(tmp_path / "talk.wav"))] == [0.7, 2.2]
    for name, said in (("one.wav", "0 files of cuts for one.wav"), ("two.wav", "2 files of cuts for two.wav")):
        with pytest.raises(AudioContentError, match=said):
            cuts.of(str(tmp_path / name))


def test_a_folder_has_a_file_for_each_recording_where_the_recordings_stand(tmp_path):
    for number, speaker in enumerate(("ann", "bob")):
        (tmp_path / "cuts" / speaker).mkdir(parents=True)
        (tmp_path / "cuts" / speaker / "1.SRT").write_text(SRT.replace("00:00:00,700", f"00:00:00,{number}00"))
    cuts = Cuts.read(tmp_path / "cuts")
    recordings = ["in/ann/1.wav", "in/bob/1.wav"]
    cuts.expect(recordings)
    assert [cuts.of(recording)[0].start_s for recording in recordings] == [0.0, 0.1]


def test_what_transcripts_say_of_cuts_has_no_folder_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cuts").mkdir()
    (tmp_path / "cuts" / "talk.srt").write_text("00:00:01,000 --> 00:00:02,000\nhi\n")
    for given in (tmp_path / "cuts", tmp_path / "cuts" / "talk.srt"):
        assert [cut.place for cut in Cuts.read(given).of("talk.wav")] == ["cuts/talk.srt, line 1"]
    with pytest.raises(AudioContentError, match=r"^cuts has 0 files of cuts for other\.wav"):
        Cuts.read(tmp_path / "cuts").of("other.wav")


@pytest.mark.parametrize("name", ["1.srt", "1.rttm"])
def test_cuts_that_may_be_of_two_recordings_are_of_none(tmp_path, name):
    (tmp_path / name).write_text(SRT if name.endswith("srt") else "SPEAKER 1 1 0.5 1 <NA> <NA> ann <NA> <NA>\n")
    cuts = Cuts.read(tmp_path if name.endswith("srt") else tmp_path / name)
    cuts.expect(["in/ann/1.wav", "in/bob/1.wav", "in/bob/2.wav"])
    with pytest.raises(AudioContentError, match=r"^1 of .* may be in/ann/1\.wav or in/bob/1\.wav"):
        cuts.of("in/bob/1.wav")
