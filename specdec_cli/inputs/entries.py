"""Rows of any table as entries: which recording or part of it, who speaks, what is said, by the names of columns."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.moments import Moment, moment, span
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import Row, Table
from specdec_cli.inputs.text_files import NONE
from specdec_cli.prompts import Language
from specdec_cli.text import show, show_name
from specdec_cli.times import EITHER

# Names of columns without case, blanks and punctuation. docs/tables.md lists them.
FILES: Final = (
    *("file", "path", "filename", "filepath", "audio", "audiopath", "audiofile", "audiofilepath", "wav", "recording"),
)
IDS: Final = ("id", "uttid", "utteranceid")
CLIPS: Final = ("recordingid", "name", *IDS)
"""Columns that name a recording in references without its path."""
SPEAKERS: Final = ("speaker", "speakerid", "speakerlabel", "spk")
TEXTS: Final = ("text", "sentence", "transcript", "transcription")
LANGUAGES: Final = ("language", "lang")
PROMPTS: Final = ("prompt",)
CHANNELS: Final = ("channel",)
CHANNELS_FROM_0: Final = ("channelindex",)
_STARTS: Final = ("start", "starttime", "begin", "onset", "tmin")
_OFFSET: Final = "offset"  # the start beside a duration, the end beside an onset
_ENDS: Final = ("end", "endtime", "stop", "tmax")
_LENGTHS: Final = ("duration",)
_UNITS: Final = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 0.001, "msec": 0.001, "milliseconds": 0.001}
"""Ending of a column's name -> seconds per unit."""
_LIKE_START: Final = re.compile(
    r"(?:start|begin|onset|offset)(?!date)|^t0$|^xmin"
)  # in names of columns that may be starts
_LIKE_CHANNEL: Final = re.compile(r"(?:audio)?(?:ch|chan|channel)(?:id|idx|no|nr|num|number)?|(?:audio)?track")
_NOBODY: Final = NONE | {"unknown"}
_NAMED_CHANNELS: Final = {"left": 0, "right": 1}


class Entry(NamedTuple):
    """One row of a table; a field is None if the table has no value for it."""

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


class _Time(NamedTuple):
    column: str | None
    scale: float  # seconds per unit


def plain_name(column: str) -> str:
    """The name of a column without case, blanks and punctuation."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", column).casefold()))


class Columns:
    """The columns of a table by what they hold."""

    def __init__(self, table: Table, *, file: str | None = None, clips: Sequence[str] = ()) -> None:
        """`file`: the column that names the recording; None: looked for, also under the plain names in `clips`.

        Raises:
            ReferencesError: a column that is read has the name of another one, apart from case and punctuation.
        """
        self.table = table
        self._by_name = defaultdict[str, list[str]](list)
        for column in table.columns:
            self._by_name[plain_name(column)].append(column)
        self.file = file or self.first((*FILES, *clips))
        self.id, self.speaker, self.text = (self.first(names) for names in (IDS, SPEAKERS, TEXTS))
        self.language, self.prompt = self.first(LANGUAGES), self.first(PROMPTS)
        self.channel = self.first((*CHANNELS_FROM_0, *CHANNELS))
        self._first_channel = 0 if self.first(CHANNELS_FROM_0) else table.first_channel
        self.start, self.end, self.length = map(self._time, (_STARTS, _ENDS, _LENGTHS))
        if self.start.column is None:
            self.start = self._time((_OFFSET,))
        elif self.end.column is None:
            self.end = self._time((_OFFSET,))

    def first(self, wanted: Sequence[str]) -> str | None:
        """The first of the plain names that is a column."""
        found = next((self._by_name[name] for name in wanted if name in self._by_name), [None])
        if len(found) > 1:
            message = (
                f"{self.table.path}: columns {' and '.join(show_name(str(each)) for each in found)} have one name."
            )
            raise ReferencesError(message, hint="Case, blanks and punctuation are ignored: rename one of them.")
        return found[0]

    @property
    def timed(self) -> bool:
        """Whether rows are about parts of recordings: there are starts, and ends or lengths."""
        return self.start.column is not None and (self.end.column or self.length.column) is not None

    def entries(self, skips: Skips) -> Iterator[Entry]:
        """The rows that can be read, each with its part."""
        self._tell_of_times(skips)
        self._tell_of_channels(skips)
        self._tell_of_files(skips)
        named = self.file, self.id, self.speaker, self.text, self.language, self.prompt, self.channel
        times = self.start, self.end, self.length
        for row in self.table.rows:
            try:
                file, id_, speaker, text, language, prompt, channel = map(row.single, named)
                start, end, length = [self._moment(row, time, skips) for time in times]
                from_channel = self._channel(channel)
            except ValueError as error:
                skips.leave_out(row.place, str(error))
                continue
            if (part := span(row.place, skips, start, end, length)) is not None:
                spoken_in = language_named(row.place, language, skips)
                who = None if speaker is None or speaker.casefold() in _NOBODY else " ".join(speaker.split())
                said = None if text is None else " ".join(text.split())
                yield Entry(row.place, file, id_, who, said, spoken_in, prompt, *part, from_channel, row)

    def _time(self, names: Sequence[str]) -> _Time:
        """The column of a time; one whose name has a unit comes first."""
        for unit, scale in _UNITS.items():
            if column := self.first([name + unit for name in names]):
                return _Time(column, scale)
        return _Time(self.first(names), self.table.unit_s)

    def _moment(self, row: Row, time: _Time, skips: Skips) -> Moment:
        cell = row.single(time.column)
        if cell and "," in cell and EITHER.fullmatch(cell):
            column, read = show_name(str(time.column)), moment("1,500", time.scale)
            skips.note(f"{self.table.path}: a time like 1,500 in column {column} is read as {read:g} s")
        return moment(cell, time.scale)

    def _tell_of_times(self, skips: Skips) -> None:
        """Warns of columns that look like times and are not read, so that rows are about longer parts."""
        like = next((columns[0] for name, columns in self._by_name.items() if _LIKE_START.search(name)), None)
        if self.start.column is None and like is not None:
            skips.note(
                f"{self.table.path}: column {show_name(like)} is not read, so rows are about whole recordings: "
                "give seconds in a column start"
            )
        elif self.start.column is not None and not self.timed:
            skips.note(f"{self.table.path} has no column end or duration, so every part lasts to that of its recording")

    def _tell_of_channels(self, skips: Skips) -> None:
        """Warns of a column that looks like channels and is not read, so that all channels are mixed."""
        like = next((columns[0] for name, columns in self._by_name.items() if _LIKE_CHANNEL.fullmatch(name)), None)
        if self.channel is None and like is not None and any(row.cell(like) for row in self.table.rows):
            skips.note(
                f"{self.table.path}: column {show_name(like)} is not read, so rows are about all channels: call it "
                "channel if it counts from 1, or channel_index if it counts from 0"
            )

    def _tell_of_files(self, skips: Skips) -> None:
        """Warns if two columns name different recordings; the first column is used."""
        others = [self._by_name[name][0] for name in FILES if name in self._by_name and self.file is not None]
        for other in others:
            if other != self.file and any(_names_others(row, self.file, other) for row in self.table.rows):
                skips.note(
                    f"{self.table.path}: recordings are named by column {show_name(str(self.file))}; column "
                    f"{show_name(other)}, which names others, is not read"
                )

    def _channel(self, value: str | None) -> int | None:
        """The channel, 0-based. Raises ValueError if it is not a channel."""
        if value is None or value.casefold() in _NAMED_CHANNELS:
            return None if value is None else _NAMED_CHANNELS[value.casefold()]
        number = value.removesuffix(".0")  # as pandas writes a column with gaps
        if not number.isascii() or not number.isdecimal() or len(number) > 3:
            raise ValueError(f"{show(value)} is not a channel")
        if int(number) < self._first_channel:
            message = (
                f"{self.table.path}: column {show_name(str(self.channel))} has a channel 0, and channels count from 1."
            )
            raise ReferencesError(message, hint="If they count from 0, name the column channel_index.")
        return int(number) - self._first_channel


def _names_others(row: Row, column: str | None, other: str) -> bool:
    """Whether two cells name recordings that are called differently."""
    names = [PurePath(cell[0].replace("\\", "/")).stem for cell in (row.cell(column), row.cell(other)) if cell]
    return len({*names}) > 1


def channel_from_1(value: str | None) -> int | None:
    """The channel, 0-based, of a number from 1, as in RTTM; None if it is not such a number."""
    return int(value) - 1 if value and value.strip().isdecimal() and 0 < int(value[:5]) < 1000 else None


def language_named(place: str, value: str | None, skips: Skips) -> Language | None:
    """zh or en for "zh-CN", "cmn", "Mandarin", "English"; None if empty or another language, which is counted."""
    if value is None:
        return None
    main = re.split(r"[-_ ]", value.casefold())[0]
    if main in ("zh", "zho", "chi", "cmn", "yue", "chinese", "mandarin", "cantonese", "中文", "汉语", "普通话"):
        return "zh"
    if main in ("en", "eng", "english", "英语", "英文"):
        return "en"
    skips.change(place, f"captions are in zh or en, not in {show(value)}: the language of the run is taken")
    return None
