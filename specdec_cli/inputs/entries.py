"""Rows of any table as entries: which recording or part of it, who speaks, what is said, under every usual name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, Final, NamedTuple

from specdec_cli.inputs.moments import NONE, Moment, moment, span
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import Row, Table
from specdec_cli.inputs.text_files import cell_text
from specdec_cli.prompts import Language
from specdec_cli.text import show, show_name

# Names of columns without case, blanks and punctuation.
FILES: Final = (
    *("file", "path", "filename", "filepath", "audio", "audiopath", "audiofile", "audiofilename"),
    *("audiofilepath", "wav", "wavpath", "wavfile", "wavname", "sound", "soundfile", "recording"),
    *("recordingpath", "mediafile", "relativeaudiopath", "文件", "文件名"),
)
CLIPS: Final = (
    *("recordingid", "clip", "clipid", "key", "itemname", "id", "utt", "uttid", "utteranceid", "name", "uri"),
    *("utterance",),
)
"""Columns that name a recording where none has its path."""
_OF_MELD: Final = ("dialogueid", "utteranceid")
"""Columns of MELD: its clips are called after both, and its times count in the episode."""
_OF_IEMOCAP: Final = re.compile(r"Ses\d\d[FM]_\w+_[FM]X?\d{3}")
"""Names of clips of IEMOCAP. Its published times count in the dialogue that a clip was cut from."""
_LOOKED_AT: Final = 100  # rows in which names of IEMOCAP are looked for
IDS: Final = ("id", "uttid", "utteranceid", "segmentid")
SPEAKERS: Final = (
    *("speaker", "speakerid", "speakername", "spk", "spkid", "spkr", "spkrid", "speakerlabel", "clientid"),
    *("actor", "actorid", "说话人", "tier"),
)
TEXTS: Final = ("text", "sentence", "transcript", "transcription", "utterance", "txt", "wrd", "文本")
LANGUAGES: Final = ("language", "lang", "locale", "语言")
PROMPTS: Final = ("prompt",)
CHANNELS: Final = ("channel", "channelid", "chan", "chn")
_STARTS: Final = (
    *("start", "starttime", "begin", "begintime", "onset", "tmin", "xmin", "from", "timestampsfrom", "开始"),
    *("开始时间",),
)
_OFFSET: Final = "offset"  # the start beside a duration, the end beside an onset
_ENDS: Final = (*("end", "endtime", "stop", "stoptime", "tmax", "xmax", "to", "timestampsto", "结束", "结束时间"),)
_LENGTHS: Final = ("duration", "dur", "length", "时长")
_UNITS: Final = dict.fromkeys(("", "s", "sec", "secs", "seconds", "inseconds", "秒", "ssmsec", "hhmmssms"), 1.0)
_UNITS_MS: Final = ("ms", "msec", "msecs", "milliseconds", "inmilliseconds", "millis", "毫秒")
_WHOLE: Final = re.compile(r"\d+")
_WHOLE_TIME: Final = re.compile(r"(\d{1,15})(?:\.0+)?")  # also as pandas writes a column with gaps
_UNREAD: Final = re.compile(
    r"(?:seg|segment|clip|utt|utterance|timestamp|time|speech|audio|wav|cut|turn|t)?(?:start|begin|onset)(?:in|time)?"
    r"(?:samples?|frames?|index|offset|pos|position|min|minutes?|sec|secs|seconds|s|ms)?|t0|stime"
)
"""Names of columns that may be starts and are not read."""
_RATES: Final = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)  # of recordings, Hz
_LONG: Final = 400.0
"""Median length from which whole numbers without a unit are milliseconds: no model takes so many seconds."""
_NOBODY: Final = NONE | {"unknown"}
_NAMED_CHANNELS: Final = {"left": 0, "l": 0, "a": 0, "right": 1, "r": 1, "b": 1}


class Entry(NamedTuple):
    """One row of a table; None is what the table does not say."""

    place: str  # "clips.tsv, line 7"
    file: str | None = None  # path or name, as it is written
    id: str | None = None
    speaker: str | None = None
    text: str | None = None
    language: Language | None = None
    prompt: str | None = None
    start_s: float | None = None  # the part that is meant, seconds; None: all of the recording
    end_s: float | None = None  # or up to its end
    channel: int | None = None  # 0-based
    row: Row | None = None  # all of its cells


@dataclass(frozen=True, slots=True)
class _Time:
    column: str
    scale: float  # seconds per unit


def plain_name(column: str) -> str:
    """The name of a column without case, blanks and punctuation."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", column).casefold()))


class Columns:
    """The columns of a table by what they hold."""

    def __init__(self, table: Table, *, file: str | None = None, clips: Sequence[str] = ()) -> None:
        """`file`: the column that names the recording; None: looked for, also under the plain names in `clips`."""
        self.table = table
        self._by_name = {plain_name(column): column for column in reversed(table.columns)}
        self.file = file or self.first((*FILES, *clips))
        self.id, self.speaker, self.text = (self.first(names) for names in (IDS, SPEAKERS, TEXTS))
        self.language, self.prompt, self.channel = (self.first(names) for names in (LANGUAGES, PROMPTS, CHANNELS))
        start, end = self._time(_STARTS), self._time(_ENDS)
        if start is None:
            start = self._time((_OFFSET,))
        elif end is None:
            end = self._time((_OFFSET,))
        self.start, self.end, self.length = start, end, self._time(_LENGTHS)
        if "promptid" in self._by_name:  # the question that a speaker of Common Voice answered
            self.prompt = None
        self._parts = [self._by_name[name] for name in _OF_MELD if name in self._by_name]
        if len(self._parts) < len(_OF_MELD) or self.first(FILES) or file:
            self._parts = []
        else:
            self.file, self.id, self.start, self.end, self.length = " and ".join(self._parts), None, None, None, None
        files = (cell for row in table.rows[:_LOOKED_AT] for cell in row.cell(self.file))
        self.of_dialogues = start is not None and any(map(_OF_IEMOCAP.search, files))

    def first(self, wanted: Sequence[str]) -> str | None:
        """The first of the plain names that is a column."""
        return next((self._by_name[name] for name in wanted if name in self._by_name), None)

    def entries(self, skips: Skips) -> Iterator[Entry]:
        """The rows that can be read, each with its part."""
        if self.of_dialogues:
            skips.note(
                f"{self.table.path}: its clips are of IEMOCAP, whose times count in the dialogue: clips are taken whole"
            )
            self.start = self.end = self.length = None
        elif self.start is None and (unread := next((name for name in self._by_name if _UNREAD.fullmatch(name)), None)):
            column = show_name(self._by_name[unread])
            skips.note(
                f"{self.table.path}: column {column} is not read, so rows are about whole recordings: give seconds"
                " in a column start"
            )
        elif self.start and not (self.end or self.length):
            skips.note(
                f"{self.table.path}: no column is known to hold ends, so every part lasts to that of its recording"
            )
        scale = self._scale(skips)
        named = self.file, self.id, self.speaker, self.text, self.language, self.prompt, self.channel
        times = [
            (time.column, time.scale * scale) if time else (None, 1.0) for time in (self.start, self.end, self.length)
        ]
        for row in self.table.rows:
            place = row.place
            try:
                file, id_, speaker, text, language, prompt, channel = map(row.single, named)
                start, end, length = [moment(row.single(column), unit_s) for column, unit_s in times]
            except ValueError as error:
                skips.leave_out(place, str(error))
                continue
            if self._parts:
                file = "dia{}_utt{}.mp4".format(*map(row.single, self._parts))
            if (part := span(place, skips, start, end, length)) is not None:
                spoken_in = language_named(place, language, skips)
                from_channel = self._channel_of(place, channel, skips)
                who, said = cell_text(speaker), cell_text(text)
                if who and who.casefold() in _NOBODY:
                    who = None
                if said == "-":  # as NeMo writes it
                    said = None
                yield Entry(place, file, id_, who, said, spoken_in, prompt, *part, from_channel, row)

    def length_s(self, entry: Entry) -> float | None:
        """The length in a row of the table, seconds; None if there is none."""
        if self.length is None or entry.row is None:
            return None
        length = moment(entry.row.single(self.length.column), self.length.scale)
        return length if isinstance(length, float) and length > 0 else None

    def _time(self, names: Sequence[str]) -> _Time | None:
        for unit, scale in (*_UNITS.items(), *dict.fromkeys(_UNITS_MS, 0.001).items()):
            if column := self.first([name + unit for name in names]):
                return _Time(column, scale)
        return None

    def _scale(self, skips: Skips) -> float:
        """Seconds a unit: 0.001 if starts and ends are milliseconds without a unit, as in Whisper's TSV; else 1."""
        if self.start is None or (end := self.end or self.length) is None or {self.start.scale, end.scale} != {1.0}:
            return 1.0
        lengths = list[int]()
        for row in self.table.rows:
            begin, until = row.cell(self.start.column), row.cell(end.column)
            if begin and until:
                first, last = _WHOLE_TIME.fullmatch(begin[0]), _WHOLE_TIME.fullmatch(until[0])
                if first is None or last is None:
                    return 1.0
                lengths.append(int(last[1]) - (int(first[1]) if self.end else 0))
        if not lengths or median(lengths) < _LONG:
            return 1.0
        if self.end and self.length and (rate := self._rate(median(lengths))) is not None:
            skips.note(f"{self.table.path}: its times are read as samples, {rate:,} a second, by its durations")
            return 1 / rate
        skips.note(f"{self.table.path}: its times are long whole numbers, so they are read as milliseconds")
        return 0.001

    def _rate(self, samples: float) -> int | None:
        """The rate, Hz, at which this many samples last as long as the rows of the table; None if they never do."""
        cells = (row.cell(self.length.column) for row in self.table.rows if self.length)
        durations = [moment(cell[0], self.length.scale) for cell in cells if cell and self.length]
        known = [length for length in durations if isinstance(length, float) and length > 0]
        found = samples / median(known) if known else 0.0
        return next((rate for rate in _RATES if abs(found / rate - 1) < 0.02), None)

    @cached_property
    def _from_zero(self) -> bool:
        return any(row.cell(self.channel) in (("0",), ("0.0",)) for row in self.table.rows)

    def _channel_of(self, place: str, value: str | None, skips: Skips) -> int | None:
        """The channel, 0-based. If no row of the table names a channel 0, its channels count from 1, as in RTTM."""
        if value is None or value.casefold() in NONE:
            return None
        if value.casefold() in _NAMED_CHANNELS:
            return _NAMED_CHANNELS[value.casefold()]
        value = value.removesuffix(".0")  # as pandas writes a column with gaps
        if not _WHOLE.fullmatch(value) or len(value) > 3:
            skips.change(place, f"{show(value)} is no channel: the mix of all is taken")
            return None
        return int(value) - (0 if self._from_zero else 1)


def channel_from_1(value: str | None) -> int | None:
    """The channel, 0-based, of a number from 1, as in RTTM; None for all else."""
    return int(value) - 1 if value and value.strip().isdecimal() and 0 < int(value[:5]) < 1000 else None


def language_named(place: str, value: object, skips: Skips) -> Language | None:
    """zh or en for "zh-CN", "cmn", "Mandarin", "English"; None for no language, and for others, which are counted."""
    if value is None or (folded := str(value).strip().casefold()) in NONE:
        return None
    main = re.split(r"[-_ ]", folded)[0]
    if main in ("zh", "zho", "chi", "cmn", "yue", "chinese", "mandarin", "cantonese", "中文", "汉语", "普通话"):
        return "zh"
    if main in ("en", "eng", "english", "英语", "英文"):
        return "en"
    skips.change(place, f"captions are in zh or en, not in {show(value)}: the language of the run is taken")
    return None


def pieces(
    place: str, skips: Skips, start: Moment, end: Moment = None, length: Moment = None, **known: Any
) -> Iterator[Entry]:
    """The entry of a part, with the fields in `known`; no entry if it is no part: see `span`."""
    if (part := span(place, skips, start, end, length)) is not None:
        yield Entry(place, start_s=part[0], end_s=part[1], **known)
