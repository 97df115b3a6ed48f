"""The cuts of recordings, found by their names; the files that hold cuts are read by `cut_files`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from specdec_cli.audio.samples import Cut
from specdec_cli.config.schema import AudioConfig
from specdec_cli.errors import CutsError, ReferencesError
from specdec_cli.inputs.names import CUT_ENDINGS, ByRecording, ending
from specdec_cli.inputs.skipped import Skips
from specdec_cli.text import plain
from specdec_cli.written import digest

_NAMED: Final = 3  # recordings of a file of cuts that a message lists


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
                if file.suffix.lower() in CUT_ENDINGS and not any(part.startswith(".") for part in name.parts):
                    files.add(str(name.with_suffix("")), file)
            return cls(path, skips, named, _files=files)
        for recording, cut in _cuts_in(path, skips):
            if recording is None:
                unnamed.append(cut)
            else:
                named.add(recording, cut)
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

    def of_recording(self, recording: str) -> tuple[Cut, ...]:
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
            return tuple(cut for _, cut in _cuts_in(file, self.skips))
        if not found:
            message = f"{plain(str(self.path))} has no cuts of {plain(recording)}."
            names = self._named.names
            listed = ", ".join(map(plain, names[:_NAMED])) + (", ..." if len(names) > _NAMED else "")
            raise CutsError(message, hint=f"It has cuts of {listed}: call the recording so, or change the name there.")
        return found

    def digest(self, recording: str) -> str | None:
        """Hex digest of a folder's file for a recording; None for a single file, and if there is not just one."""
        try:
            files = [] if self._files is None else self._files.of(recording)
            return digest(files[0].read_bytes()) if len(files) == 1 else None
        except (OSError, ReferencesError):  # found by `of_recording`
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
            raise CutsError(message, hint=f"Name one {plain(name.stem)}{' or '.join(CUT_ENDINGS)}.")
        return files[0]


def _cuts_in(path: Path, skips: Skips) -> Iterator[tuple[str | None, Cut]]:
    """Every cut of a file, with the recording that it names. The readers of tables are imported when one is met."""
    from specdec_cli.inputs.cut_files import read_cuts

    return read_cuts(path, skips)
