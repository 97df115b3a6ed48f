"""Files of cuts, as other tools write them: turns, tiers, subtitles, segments and tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specdec_cli.audio.samples import Cut
from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.entries import Columns, Entry, channel_from_1
from specdec_cli.inputs.moments import moment, required_moment, span
from specdec_cli.inputs.names import CUT_ENDINGS, ending
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import read_table
from specdec_cli.inputs.text_files import decoded, read_text
from specdec_cli.text import show
from specdec_cli.times import MOST_S

_NOT_GIVEN: Final = ["<NA>", "<NA>"]
_NO_NAMES: Final = frozenset({"<NA>", "unknown"})
_CONVERTED: Final = {
    (".ass", ".ssa", ".sbv", ".ttml", ".dfxp", ".lrc", ".sub"): "ffmpeg -i FILE out.srt makes an SRT of most of these.",
    (
        ".eaf",
        ".trs",
        ".cha",
        ".antx",
        ".exb",
        ".flextext",
    ): "ELAN opens it: export it there as a Praat TextGrid.",
    (".ctm", ".stm", ".lab", ".mlf"): "Write it as a table with the columns file, start, end, speaker, text.",
    (".txt",): "Labels of Audacity are a table once their first line has the names: start, end and text, with tabs.",
}
_NO_TIMES: Final = (
    "The first line, or every object, has to name them; columns file, speaker and text are read too. Services that "
    "transcribe also write SRT or VTT, which are read."
)


def _read(path: Path, skips: Skips) -> list[Entry]:
    """The cuts of a file. Readers that use libraries are imported when a file needs them."""
    kind = ending(path)
    if kind == ".rttm":
        found = list(_rttm(path, skips))
    elif kind == ".textgrid":
        from specdec_cli.inputs.tiers import textgrid

        found = list(textgrid(path, skips))
    elif kind in (".srt", ".vtt"):
        from specdec_cli.inputs.subtitles import subtitles

        found = list(subtitles(path, skips))
    elif kind in CUT_ENDINGS:
        found = list(_table(path, skips))
    else:
        other = next((f"{way} " for endings, way in _CONVERTED.items() if kind in endings), "")
        message = f"{path} cannot be read as cuts: its ending is {show(path.suffix)}."
        hint = f"{other}specdec reads {', '.join(CUT_ENDINGS)}, and folders of such files; a length is in seconds."
        raise ReferencesError(message, hint=hint)
    skips.require_some(found, f"{path} has no cuts.", "It needs a start and an end for each piece.")
    return found


def read_cuts(path: Path, skips: Skips) -> Iterator[tuple[str | None, Cut]]:
    """Every cut of a file, with the recording that it names, if it names one.

    A cut without an end lasts until the next one of its recording begins. Texts and speakers
    that are not UTF-8 are left out, since their encoding is unknown. Raises ReferencesError if the file cannot be read,
    or has no cut.
    """
    entries, starts = _read(path, skips), defaultdict[str | None, list[float]](list)
    if any(entry.end_s is None for entry in entries):
        for entry in entries:
            starts[entry.file].append(entry.start_s or 0.0)
    after = {
        file: dict(zip(sorted({*found}), [*sorted({*found})[1:], MOST_S], strict=True))
        for file, found in starts.items()
    }
    for entry in entries:
        start_s = entry.start_s or 0.0
        end_s = after[entry.file][start_s] if entry.end_s is None else entry.end_s
        speaker, text = entry.speaker, entry.text
        if not (decoded(speaker or "") and decoded(text or "")):
            skips.change(entry.place, "its text is not UTF-8, so only its times count: save it as UTF-8")
            speaker, text = (said if decoded(said or "") else None for said in (speaker, text))
        yield entry.file, Cut(start_s, end_s, speaker, text, entry.place, entry.channel)


def _rttm(path: Path, skips: Skips) -> Iterator[Entry]:
    """The cuts of SPEAKER lines. Names may hold blanks: the format forbids them, and tools write them.

    Most tools write channel 1 for every recording, so channels are used only in files that name others, too.
    """
    found, where = list[Entry](), f"{path}, line "
    for number, line in enumerate(read_text(path, lenient=True).split("\n"), 1):
        fields = line.split()
        place = f"{where}{number}"
        if fields[:1] != ["SPEAKER"] and (not fields or fields[0].upper() != "SPEAKER"):
            continue
        gap = 5
        if fields[5:7] != _NOT_GIVEN:
            gap = next((at for at in range(6, len(fields) - 2) if fields[at : at + 2] == _NOT_GIVEN), 5)
        if len(fields) < 8 or len(fields) < gap + 3:
            skips.leave_out(place, "this is not a line of RTTM: SPEAKER name channel start duration <NA> <NA> speaker")
            continue
        channel, start, length = fields[gap - 3 : gap]
        names = fields[gap + 2 :]
        for _ in range(2):  # confidence and lookahead
            if len(names) > 1 and (names[-1] == "<NA>" or not isinstance(moment(names[-1]), str)):
                names.pop()
        speaker = " ".join(names).strip('"')
        if (part := span(place, skips, required_moment(start), length=required_moment(length))) is not None:
            name, known = " ".join(fields[1 : gap - 3]).strip('"'), None if speaker in _NO_NAMES else speaker
            start_s, end_s = part
            found.append(
                Entry(place, name, speaker=known, start_s=start_s, end_s=end_s, channel=channel_from_1(channel))
            )
    apart = {entry.file for entry in found if entry.channel}
    for entry in found:
        yield entry if entry.file in apart or entry.channel is None else entry._replace(channel=None)


def _table(path: Path, skips: Skips) -> Iterator[Entry]:
    """The cuts of a table, such as the segments of Whisper and WhisperX."""
    table = read_table(path, skips)
    columns = Columns(table, clips=("recordingid",))
    if not columns.timed:
        message = f"{path} has no columns start and end; there are {show(', '.join(table.columns))}."
        raise ReferencesError(message, hint=_NO_TIMES)
    for entry in columns.entries(skips):
        if entry.start_s is None:
            skips.leave_out(entry.place, "it has no start")
        elif entry.file is None and columns.file is not None:
            skips.leave_out(entry.place, "no recording is named")
        else:
            if entry.end_s is None:
                skips.change(entry.place, "it has no end: up to the next one, or to the end of the recording")
            yield entry
