"""Healthy files of every format that parts of recordings come in."""

import json
from typing import Any

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
NAMED = TEXTGRID.replace("Ann - words", "speaker").replace("1.1", "1.5").replace('"你"', '"Bo"')
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
LHOTSE: dict[str, Any] = {
    "id": "cut-1",
    "start": 1.0,
    "duration": 2.5,
    "channel": 0,
    "supervisions": [
        {"id": "s", "recording_id": "r", "start": 0, "duration": 1, "text": "你好", "speaker": "Ann"},
        {"id": "t", "recording_id": "r", "start": 1, "duration": 1, "text": "again", "speaker": "Ann"},
    ],
    "recording": {
        "id": "r",
        "sources": [{"type": "file", "channels": [0], "source": "a.wav"}],
        "sampling_rate": 16000,
        "num_samples": 160000,
        "duration": 10.0,
    },
    "type": "MonoCut",
}
