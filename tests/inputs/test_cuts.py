"""Cuts as other tools write them, and what is wrong with some."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdec_cli.errors import AudioContentError, ReferencesError
from specdec_cli.inputs.cuts import Cuts

Said = list[tuple[float, float, str | None, str | None]]

RTTM = """;; a comment
SPEAKER talk 1 0.700 0.800 <NA> <NA> Ann <NA> <NA>
SPKR-INFO talk 1 <NA> <NA> <NA> unknown Ann <NA> <NA>
SPEAKER other 1 0.1 0.5 <NA> <NA> Bo <NA> <NA>
SPEAKER talk 1 2.2 0.8 <NA> <NA> 小王 <NA> <NA>
"""
SRT = """1
00:00:00,700 --> 00:00:01,500
[Ann]: 你好。

2
00:00:02,200 --> 00:00:03,000
<i>Good</i>
morning.
"""
VTT = """WEBVTT - a title

NOTE nothing

intro
00:00.700 --> 00:01.500 align:start
<v Ann>你好。</v>

00:00:02.200 --> 00:00:03.000
Good <b>morning</b>.
"""
TEXTGRID = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 4
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "IntervalTier"
        name = "Ann"
        xmin = 0
        xmax = 4
        intervals: size = 3
        intervals [1]:
            xmin = 0
            xmax = 0.7
            text = ""
        intervals [2]:
            xmin = 0.7
            xmax = 1.5
            text = "你好。"
        intervals [3]:
            xmin = 1.5
            xmax = 4
            text = "sil"
    item [2]:
        class = "IntervalTier"
        name = "Ann - words"
        xmin = 0
        xmax = 4
        intervals: size = 1
        intervals [1]:
            xmin = 0.7
            xmax = 1.1
            text = "你"
"""
BOTH: Said = [(0.7, 1.5, "Ann", "你好。"), (2.2, 3.0, None, "Good morning.")]
SHORT_TEXTGRID = """File type = "ooTextFile"
Object class = "TextGrid"

0
4
<exists>
2
"IntervalTier"
"Ann"
0
4
3
0
0.7
""
0.7
1.5
"你""好"
1.5
4
""
"TextTier"
"clicks"
0
4
1
2.5
"x"
"""
WHISPERX = json.dumps(
    {
        "segments": [
            {"start": 0.7, "end": 1.5, "text": " 你好。", "speaker": "Ann", "words": []},
            {"start": 2.2, "end": 3, "text": "Good"},
        ],
        "language": "zh",
    }
)


def read(folder: Path, name: str, text: str | bytes, recording: str = "/somewhere/talk.wav") -> Said:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return [(cut.start_s, cut.end_s, cut.speaker, cut.text) for cut in Cuts.read(path).of(recording)]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("c.rttm", RTTM, [(0.7, 1.5, "Ann", None), (2.2, 3.0, "小王", None)]),
        ("c.srt", SRT, BOTH),
        ("c.srt", "\ufeff" + SRT.replace("\n", "\r\n"), BOTH),
        ("c.vtt", VTT, BOTH),
        ("c.TextGrid", TEXTGRID, [(0.7, 1.5, "Ann", "你好。")]),
        ("c.TextGrid", TEXTGRID.encode("utf-16"), [(0.7, 1.5, "Ann", "你好。")]),
        ("c.TextGrid", SHORT_TEXTGRID, [(0.7, 1.5, "Ann", '你"好')]),
        ("c.json", WHISPERX, [(0.7, 1.5, "Ann", "你好。"), (2.2, 3.0, None, "Good")]),
        ("c.csv", "start,end,text\n0.7,1.5,a\n0:02.2,00:00:03,\n", [(0.7, 1.5, None, "a"), (2.2, 3.0, None, None)]),
        ("c.tsv", "file\tonset\tduration\ntalk.wav\t0.7\t0.8\nx.wav\t1\t1\n", [(0.7, 1.5, None, None)]),
    ],
)  # fmt: skip
def test_formats(tmp_path: Path, name: str, text: str | bytes, found: Said) -> None:
    read_ = read(tmp_path, name, text)
    assert [(pytest.approx(s), pytest.approx(e), *rest) for s, e, *rest in found] == read_


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("c.rttm", RTTM + "SPEAKER talk 1 x 0.8 <NA> <NA> A <NA> <NA>\n", "c.rttm, line 6: x is no time"),
        ("c.rttm", "SPEAKER talk 1 0.7\n", "c.rttm, line 1: this is no line of RTTM"),
        ("c.rttm", "\n", "c.rttm has no cuts"),
        ("c.rttm", "SPEAKER talk 1 -1 0.8 <NA> <NA> A <NA> <NA>\n", "line 1: '-1' is no time"),
        ("c.rttm", "SPEAKER talk 1 1 0 <NA> <NA> A <NA> <NA>\n", "line 1: it begins at 1 s and ends at 1 s"),
        ("c.srt", SRT.replace("00:00:02,200", "00:00:xx"), "c.srt, line 6: no times"),
        ("c.srt", SRT.replace("00:00:02,200", "00:00:05,200"), "c.srt, line 6: it begins at 5.2 s and ends at 3 s"),
        ("c.vtt", "WEBVTT\n", "c.vtt has no cuts"),
        ("c.TextGrid", "nonsense", "line 1: this is no TextGrid that can be read: a text in quotes was expected"),
        ("c.TextGrid", TEXTGRID[:400], "line 22: this is no TextGrid that can be read: a text in quotes was expected"),
        ("c.TextGrid", TEXTGRID.replace("xmax = 0.7", "xmax = soon"), "line 18"),
        ("c.TextGrid", TEXTGRID.replace("size = 3", "size = 99"), "a number was expected"),
        ("c.TextGrid", TEXTGRID.replace("xmax = 1.5", "xmax = 0.5"), "line 20: it begins at 0.7 s and ends at 0.5 s"),
        ("c.json", '{"segments": [{"start": 1}]}', "c.json, segment 1: start and end"),
        ("c.json", '{"segments":\n [}', "c.json, line 2, column 3"),
        ("c.json", '{"words": []}', "c.json has no list of segments"),
        ("c.json", '{"segments": [{"start": true, "end": 2}]}', "c.json, segment 1: true is no time"),
        ("c.json", "[" * 100_000, "c.json, line 1: nested too deep"),
        ("c.csv", "begin,text\n1,a\n", "c.csv has no columns start and end"),
        ("c.csv", "start,end\n1\n", "c.csv, line 2: 1 cells"),
        ("c.csv", "start,end\n1,nan\n", "c.csv, line 2"),
        ("c.txt", "1 2\n", "its ending is .txt"),
        ("c.rttm", "SPEAKER \xff".encode("latin-1"), "line 1: not UTF-8"),
    ],
)
def test_wrong_files_are_refused_with_their_lines(tmp_path: Path, name: str, text: str | bytes, said: str) -> None:
    with pytest.raises(ReferencesError) as raised:
        read(tmp_path, name, text)
    assert said.replace("'", "") in raised.value.message.replace("'", "")
    assert raised.value.hint


def test_a_folder_has_a_file_for_each_recording(tmp_path: Path) -> None:
    (tmp_path / "talk.srt").write_text(SRT)
    (tmp_path / "two.srt").write_text(SRT)
    (tmp_path / "two.vtt").write_text(VTT)
    cuts = Cuts.read(tmp_path)
    assert [cut.start_s for cut in cuts.of(str(tmp_path / "talk.wav"))] == [0.7, 2.2]
    for name, said in (("one.wav", "no file of cuts for one.wav"), ("two.wav", "2 files of cuts for two.wav")):
        with pytest.raises(AudioContentError, match=said):
            cuts.of(str(tmp_path / name))
