"""Cuts of recordings from files of other tools: turns, tiers, subtitles, segments and tables."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from specdec_cli.audio.samples import Cut
from specdec_cli.config.schema import AudioConfig
from specdec_cli.errors import CutsError, ReferencesError
from specdec_cli.inputs.entries import Columns, Entry, channel_from_1
from specdec_cli.inputs.moments import moment, required_moment, span
from specdec_cli.inputs.names import ByRecording
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import JSON, read_table
from specdec_cli.inputs.text_files import decoded, ending, read_text
from specdec_cli.text import plain, show
from specdec_cli.times import MOST_S
from specdec_cli.written import digest

_NOT_GIVEN: Final = ["<NA>", "<NA>"]
_NO_NAMES: Final = frozenset({"<NA>", "unknown"})
_READ: Final = (".rttm", ".textgrid", ".srt", ".vtt", *JSON, ".csv", ".tsv")
"""Endings of files of cuts."""
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


@dataclass(frozen=True)
class Cuts:
    """The cuts of a file, or of a folder with a file for each recording.

    Attributes:
        skips: what was left out or changed; of a folder, in the files that were read so far.
    """

    path: Path
    skips: Skips
    _named: ByRecording[Cut] = field(repr=False)
    _unnamed: list[Cut] = field(default_factory=list, repr=False)  # of a file that names no recording: they are of one
    _files: ByRecording[Path] | None = field(default=None, repr=False)  # of a folder
    _asked: set[str] = field(default_factory=set, repr=False)  # recordings whose unnamed cuts were requested

    @classmethod
    def of_config(cls, audio: AudioConfig) -> Cuts | None:
        """The cuts of the file or folder that the settings name, if they name one; errors as in `read`."""
        return None if audio.cuts_path is None else cls.read(audio.cuts_path, strict=audio.strict)

    @classmethod
    def read(cls, path: Path, *, strict: bool = False) -> Cuts:
        """Reads a file; the files of a folder, at any depth, are read when their recordings are.

        Raises:
            ReferencesError: it cannot be read, or has no cut; `strict`: one of them would be left out or changed.
        """
        skips = Skips(strict)
        if path.is_relative_to(Path.cwd()):  # transcripts name it in warnings and errors
            path = path.relative_to(Path.cwd())
        named, unnamed = ByRecording[Cut](path), list[Cut]()
        if path.is_dir():
            files = ByRecording[Path](path)
            for file in sorted(path.rglob("*")):
                name = file.relative_to(path)
                if file.suffix.lower() in _READ and not any(part.startswith(".") for part in name.parts):
                    files.add(str(name.with_suffix("")), file)
            return cls(path, skips, named, _files=files)
        for entry, cut in _closed(_read(path, skips), skips):
            if entry.file is None:
                unnamed.append(cut)
            else:
                named.add(entry.file, cut)
        return cls(path, skips, named, unnamed)

    def expect(self, recordings: Iterable[str]) -> None:
        """Takes the paths of all recordings; see `ByRecording.expect`.

        Cuts that name no recording are those of the only one, or of the one that their file is called after.

        Raises:
            ReferencesError: cuts name no recording, and of several none, or more than one, has the name of their file.
        """
        given = {os.path.abspath(recording): recording for recording in recordings}.values()
        if self._unnamed and len(given) > 1:
            for cut in self._unnamed:
                self._named.add(self._own_name, cut)
            self._unnamed.clear()
            self._named.expect(given)
            if not any(self._named.of(recording) for recording in given):
                message = f"{plain(str(self.path))} does not say which of the {len(given)} recordings its cuts are of."
                hint = (
                    "Call it like its recording, or name a folder with a file for each, or a table with a column file."
                )
                raise ReferencesError(message, hint=hint)
        else:
            (self._files or self._named).expect(given)

    def of(self, recording: str) -> tuple[Cut, ...]:
        """The cuts of a recording, found by its path or name.

        Raises:
            CutsError: there are none, or they may be of several recordings, or a folder has several files of them.
            ReferencesError: the folder's file for it cannot be read.
        """
        try:
            if self._unnamed:
                self._asked.add(os.path.abspath(recording))
                self.expect(self._asked)
            files = None if self._files is None else self._files.of(recording)
            found = (*self._unnamed, *self._named.of(recording))
        except ReferencesError as error:
            raise CutsError(error.message, hint=error.hint) from error
        if files is not None:
            file = self._only(files, recording)
            return tuple(cut for _, cut in _closed(_read(file, self.skips), self.skips))
        if not found:
            message = f"{plain(str(self.path))} has no cuts of {plain(recording)}."
            raise CutsError(message, hint="Recordings are found by their paths, as far as the file gives them.")
        return found

    def digest(self, recording: str) -> str | None:
        """Hex digest of a folder's file for a recording; None for a single file, and if there is not just one."""
        try:
            files = [] if self._files is None else self._files.of(recording)
            return digest(files[0].read_bytes()) if len(files) == 1 else None
        except (OSError, ReferencesError):  # found by `of`
            return None

    @property
    def _own_name(self) -> str:
        """The name of the file without its ending."""
        return self.path.name[: self.path.name.lower().rindex(ending(self.path))]

    def _only(self, files: Sequence[Path], recording: str) -> Path:
        """The one file of a folder that is called like a recording."""
        if len(files) != 1:
            name = Path(recording)
            message = f"{plain(str(self.path))} has {len(files)} files of cuts for {plain(name.name)}."
            raise CutsError(message, hint=f"Name one {plain(name.stem)}{' or '.join(_READ)}.")
        return files[0]


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
    elif kind in _READ:
        found = list(_table(path, skips))
    else:
        other = next((f"{way} " for endings, way in _CONVERTED.items() if kind in endings), "")
        message = f"{path} cannot be read as cuts: its ending is {show(path.suffix)}."
        hint = f"{other}specdec reads {', '.join(_READ)}, and folders of such files; a length is in seconds."
        raise ReferencesError(message, hint=hint)
    skips.require_some(found, f"{path} has no cuts.", "It needs a start and an end for each piece.")
    return found


def _closed(entries: Sequence[Entry], skips: Skips) -> Iterator[tuple[Entry, Cut]]:
    """Every entry with its cut; one without an end lasts until the next one of its recording begins.

    Texts and speakers that are not UTF-8 are left out, since their encoding is unknown.
    """
    starts: defaultdict[str | None, list[float]] = defaultdict(list)
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
        yield entry, Cut(start_s, end_s, speaker, text, entry.place, entry.channel)


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
