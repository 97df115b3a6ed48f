"""Cuts of recordings from files of other tools: turns, tiers, subtitles, segments, labels, and tables."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specdec_cli.audio.samples import Cut
from specdec_cli.errors import CutsError, ReferencesError
from specdec_cli.inputs.corpora import table_or_cuts
from specdec_cli.inputs.entries import Columns, Entry, channel_from_1, pieces
from specdec_cli.inputs.moments import moment, required_moment, span
from specdec_cli.inputs.names import ByRecording
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.subtitles import subtitles
from specdec_cli.inputs.table_files import JSON, Table
from specdec_cli.inputs.text_files import cell_text, decoded, ending, read_text
from specdec_cli.inputs.tiers import eaf, textgrid
from specdec_cli.text import plain, show
from specdec_cli.times import MOST_S
from specdec_cli.written import digest

if TYPE_CHECKING:
    from specdec_cli.config.schema import AudioConfig

_NOT_GIVEN: Final = ["<NA>", "<NA>"]
_NO_NAMES: Final = frozenset({"<NA>", "unknown", "no_speech"})  # the last two are of our own RTTM


@dataclass(frozen=True)
class Cuts:
    """The cuts of a file, or of a folder with a file for each recording.

    Attributes:
        skips: what was left out or changed; of a folder, in the files that were read so far.
    """

    path: Path
    skips: Skips
    _named: ByRecording[Cut] = field(repr=False)
    _of_all: Sequence[Cut] = field(default=(), repr=False)  # where the file names no recording
    _files: ByRecording[Path] | None = field(default=None, repr=False)  # of a folder

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
        named, of_all = ByRecording[Cut](path), list[Cut]()
        if path.is_dir():
            files = ByRecording[Path](path)
            for file in sorted(path.rglob("*")):
                name = file.relative_to(path)
                if file.suffix.lower() in _READERS and not any(part.startswith(".") for part in name.parts):
                    files.add(str(name.with_suffix("")), file)
            return cls(path, skips, named, _files=files)
        with _uncollected():
            for entry, cut in _closed(_read(path, skips), skips):
                if entry.file is None:
                    of_all.append(cut)
                else:
                    named.add(entry.file, cut)
        return cls(path, skips, named, of_all)

    def expect(self, recordings: Iterable[str]) -> None:
        """Takes the paths of all recordings; see `ByRecording.expect`."""
        (self._files or self._named).expect(recordings)

    def of(self, recording: str) -> tuple[Cut, ...]:
        """The cuts of a recording, found by its path or name. Cuts that name no recording belong to every one.

        Raises:
            CutsError: there are none, or they may be of several recordings, or a folder has several files of them.
            ReferencesError: the folder's file for it cannot be read.
        """
        try:
            files = None if self._files is None else self._files.of(recording)
            found = (*self._of_all, *self._named.of(recording))
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
        except (OSError, ReferencesError):  # `of` tells
            return None

    def _only(self, files: Sequence[Path], recording: str) -> Path:
        """The one file of a folder that is called like a recording."""
        if len(files) != 1:
            name = Path(recording)
            message = f"{plain(str(self.path))} has {len(files)} files of cuts for {plain(name.name)}."
            raise CutsError(message, hint=f"Name one {plain(name.stem)}{' or '.join(_READERS)}.")
        return files[0]


def _read(path: Path, skips: Skips) -> list[Entry]:
    read = _READERS.get(ending(path))
    if read is None:
        other = next((f"{way} " for endings, way in _CONVERTED.items() if ending(path) in endings), "")
        message = f"{path} is no file of cuts that can be read: its ending is {show(path.suffix)}."
        raise ReferencesError(message, hint=f"{other}Read are {', '.join(_READERS)}, and folders of such files.")
    found = list(read(path, skips))
    labels = "A .txt is a label track of Audacity; name a table .tsv, and of Kaldi give the folder: --manifest FOLDER."
    hint = labels if read is _labels else "It needs a start and an end for each piece."
    skips.require_some(found, f"{path} has no cuts.", hint)
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


@contextmanager
def _uncollected() -> Iterator[None]:
    """Switches the garbage collector off: rows by the million make no cycles, and it takes a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _rttm(path: Path, skips: Skips) -> Iterator[Entry]:
    """The cuts of SPEAKER lines. Names may hold blanks: the format forbids them, and tools write them.

    Most tools write channel 1 for any recording, so channels count only in files that name others.
    """
    found, where = list[Entry](), f"{path}, line "
    for number, line in enumerate(read_text(path, lenient=True).split("\n"), 1):
        fields = line.split()
        place = f"{where}{number}"
        if fields[:1] != ["SPEAKER"]:
            if fields and fields[0].upper() == "SPEAKER":
                skips.leave_out(place, "SPEAKER is written in capitals")
            continue
        gap = 5
        if fields[5:7] != _NOT_GIVEN:
            gap = next((at for at in range(6, len(fields) - 2) if fields[at : at + 2] == _NOT_GIVEN), 5)
        if len(fields) < 8 or len(fields) < gap + 3:
            skips.leave_out(place, "this is no line of RTTM: SPEAKER name channel start duration <NA> <NA> speaker")
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


def _labels(path: Path, skips: Skips) -> Iterator[Entry]:
    """The cuts of a label track of Audacity: start, end and label between tabs. Lines of frequencies do not count."""
    for number, line in enumerate(read_text(path, lenient=True).replace("\r", "\n").split("\n"), 1):
        cells, place = line.strip("\n").split("\t"), f"{path}, line {number}"
        if not line.strip() or cells[0] == "\\":
            continue
        if len(cells) < 2:
            skips.leave_out(place, "this is no label: start, end and label, separated by tabs")
        else:
            yield from pieces(
                place, skips, required_moment(cells[0]), required_moment(cells[1]), text=cell_text(" ".join(cells[2:]))
            )


def _table(path: Path, skips: Skips) -> Iterator[Entry]:
    """The cuts of a table, such as the segments of Whisper and WhisperX, or of a Lhotse manifest."""
    table = table_or_cuts(path, skips)
    if not isinstance(table, Table):
        yield from table
        return
    columns = Columns(table, clips=_RECORDINGS)
    if columns.start is None or (columns.end is None and columns.length is None):
        message = f"{path} has no columns start and end; there are {show(', '.join(table.columns))}."
        raise ReferencesError(message, hint=_NO_TIMES)
    if columns.of_dialogues:
        message = f"{path} names clips of IEMOCAP, and its times count in the dialogues that they were cut from."
        raise ReferencesError(message, hint="Name the dialogues in its column of files: Ses01F_impro01.wav.")
    for entry in columns.entries(skips):
        if entry.start_s is None and not table.own:
            skips.leave_out(entry.place, "it has no start")
            continue
        if entry.end_s is None and entry.start_s is not None:
            skips.change(entry.place, "it has no end: up to the next one, or to the end of the recording")
        yield entry


_NO_TIMES: Final = (
    "The first line, or every object, has to name them; columns file, speaker and text are read too. Services that "
    "transcribe also write SRT or VTT, which are read."
)
_CONVERTED: Final = {
    (".ass", ".ssa", ".sbv", ".ttml", ".dfxp", ".lrc", ".sub"): "ffmpeg -i FILE out.srt makes an SRT of most of these.",
    (".trs", ".cha", ".antx", ".exb", ".flextext"): "ELAN imports it: save it there as .eaf.",
    (".ctm", ".stm", ".lab", ".mlf"): "Write it as a table with the columns file, start, end, speaker, text.",
}
_RECORDINGS: Final = ("recordingid", "clip", "clipid", "uri")
_READERS: Final[dict[str, Callable[[Path, Skips], Iterator[Entry]]]] = {
    ".rttm": _rttm,
    ".textgrid": textgrid,
    ".eaf": eaf,
    ".srt": subtitles,
    ".vtt": subtitles,
    ".txt": _labels,
    **dict.fromkeys((*JSON, ".csv", ".tsv"), _table),
}
"""Ending of a file of cuts -> what reads it."""
