"""Recordings as commands take them: files, folders, patterns and lists, or the rows of a manifest."""

from __future__ import annotations

import codecs
import glob
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Final

from specdec_cli import interrupts
from specdec_cli.audio.decode import require_decodable
from specdec_cli.audio.paths import STDIN, is_url, opened, sha256
from specdec_cli.errors import AudioError, ConfigError, SpecdecError, as_specdec_error
from specdec_cli.inputs.names import SOUND_ENDINGS
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.inputs.skipped import Skips
from specdec_cli.regular_files import POSIX, open_regular
from specdec_cli.text import show

_SOUND: Final = re.compile(rf"[^.].*\.({SOUND_ENDINGS})", re.IGNORECASE | re.DOTALL)
"""Names of recordings in a folder; a file that is named or matches a pattern may have any other."""
_OTHERS: Final = {
    (".csv", ".tsv", ".json", ".jsonl", ".ndjson"): ("a table", "To caption what it lists: --manifest {}"),
    (".rttm", ".srt", ".vtt", ".textgrid"): ("a file of cuts", "Name the recording, and --segment {}"),
}
_TRANSCRIPT: Final = b'{"schema":1,"file":'
_NO_TEXT: Final = re.compile(rb"[\x01-\x08\x0e-\x1a]")  # recordings have such bytes; a list of names has none


@dataclass(frozen=True)
class Paths:
    """Recordings by path, searched while they are iterated: in the given order, those of a folder by name."""

    paths: Sequence[str]  # files, folders and patterns (`*`, `?`, `[...]`, `**`), as given
    recursive: bool = False  # whether folders are searched at every depth
    without: frozenset[str] = frozenset()  # absolute paths that are never recordings, as the run's own output

    @property
    def base(self) -> str:
        """The deepest folder that holds everything that was named."""
        return common_folder([_root(path) for path in self.paths])

    def __iter__(self) -> Iterator[InputFile]:
        """The recordings; one that is named twice, or found again in a folder, comes once.

        A path that leads nowhere is a recording, too; it fails when it is opened.
        """
        seen: set[Key] = set()
        for path in self.paths:
            for file in self._expand(path):
                found = InputFile(file)
                if found.key not in seen:
                    seen.add(found.key)
                    yield found

    def require_recordings(self) -> None:
        """Raises ConfigError for a folder that holds no recording; looks no further than the first one of each."""
        for path in self.paths:
            if next(self._expand(path), None) is None:
                hint = "Search deeper with --recursive, or choose by name with a pattern, e.g. 'clips/*.dat'."
                raise ConfigError(f"There are no recordings in {os.path.abspath(path)}.", hint=hint)

    def _expand(self, path: str) -> Iterator[str]:
        if os.path.isdir(path):
            yield from self._search(path)
        elif os.path.lexists(path) or not glob.has_magic(path):
            yield path
        else:
            found = self._others("", _matching(path))
            yield from [file for file in found if not os.path.isdir(file)] or [path]

    def _search(self, folder: str) -> Iterator[str]:
        """The recordings in a folder, then those in its folders if they are searched.

        A folder that cannot be listed is one of them, so that it fails when it is opened.
        """
        unlisted: list[OSError] = []
        for at, inner, names in os.walk(folder, onerror=unlisted.append):
            inner[:] = self._others(at, inner) if self.recursive else []
            yield from (os.path.join(at, name) for name in self._others(at, names) if self._wanted(name))
        yield from (error.filename for error in unlisted)

    def _others(self, folder: str, names: Iterable[str]) -> list[str]:
        """Sorted names in a folder that are not the run's own."""
        return sorted(name for name in names if os.path.abspath(os.path.join(folder, name)) not in self.without)

    def _wanted(self, name: str) -> bool:
        return _SOUND.fullmatch(name) is not None


@dataclass(frozen=True)
class Manifest:
    """The recordings of a manifest; `skips`: what was left out or changed."""

    rows: Mapping[Key, InputFile]  # by key, in order
    skips: Skips = field(default_factory=Skips)

    @property
    def base(self) -> str:
        """The deepest folder that holds all of its recordings."""
        return common_folder([os.path.dirname(key.path) for key in self.rows])

    def __iter__(self) -> Iterator[InputFile]:
        return iter(self.rows.values())


Inputs = Paths | Manifest
"""Recordings, each once. `base` is the absolute folder to which names in exports are relative."""


def _matching(pattern: str) -> Iterator[str]:
    """The paths that match a pattern. `**` follows no link, since a link to its own folder would never end."""
    parts = [part if part == "**" else part.replace("**", "*") for part in pattern.rstrip(os.sep).split(os.sep)]
    if "**" not in parts:
        yield from glob.iglob(pattern)
        return
    at = parts.index("**")
    before, within = os.sep.join([*parts[:at], ""]), [*parts[at:], *(["*"] if parts[-1] == "**" else [])]
    for top in glob.glob(before) if glob.has_magic(before) else [before]:
        for path in Path(top).glob(os.sep.join(within)):
            if not any(part.startswith(".") for part in path.relative_to(top).parts):
                yield str(path)


def with_list(paths: Sequence[str], *, may_be_sound: bool = False) -> list[str]:
    """The paths, with the list on stdin in the place of the first "-", which stays if a recording is on stdin.

    A list has a path on each line, or a NUL after each, as from `find -print0`. `may_be_sound`: whether a recording is
    taken.

    Raises:
        ConfigError: there is nothing, an address, or a recording that is not taken, or cannot be kept.
    """
    given = list(paths)
    if STDIN in given:
        head = interrupts.wait_for(lambda: sys.stdin.buffer.read(4096))
        if _NO_TEXT.search(head) is None:
            text = (head + interrupts.wait_for(sys.stdin.buffer.read)).removeprefix(codecs.BOM_UTF8)
            at = given.index(STDIN)
            names = text.split(b"\0") if b"\0" in text else text.splitlines()
            given[at : at + 1] = [os.fsdecode(name) for name in names if name.strip()]
        elif may_be_sound and POSIX:
            interrupts.wait_for(lambda: _keep(head, sys.stdin.buffer))
        else:
            hint = "Save it to a file, and name that file."
            raise ConfigError("There is a recording on stdin, and only a list of paths is taken here.", hint=hint)
        if not given:
            raise ConfigError("Stdin is empty: it names no recording, and is none.", hint="Pipe a list or one in.")
    if address := next(filter(is_url, given), None):
        hint = "Download it first, with curl -O for example, and name the file."
        raise ConfigError(f"{show(address)} is an address, not a file.", hint=hint)
    return given


def _keep(head: bytes, rest: IO[bytes]) -> None:
    """Copies a recording from a pipe to a file that becomes stdin, because it is read more than once."""
    try:
        with tempfile.TemporaryFile(prefix="specdec-") as file:
            file.write(head)
            shutil.copyfileobj(rest, file)
            file.flush()
            os.dup2(file.fileno(), 0)
    except OSError as error:
        hint = "Save it to a file, and name that file; or set TMPDIR to a folder with more room."
        raise ConfigError(f"The recording on stdin cannot be kept: {error.strerror}.", hint=hint) from error


def require_not_all_text(paths: Sequence[str]) -> None:
    """Raises ConfigError if every path is a table, a file of cuts or of transcripts, and says how those are given."""
    ways = [way for path in paths if (way := _other_way(path))]
    if paths and len(ways) == len(paths):
        raise ConfigError(f"{show(paths[0])} is not a recording but {ways[0][0]}.", hint=ways[0][1])


def _other_way(path: str) -> tuple[str, str] | None:
    """What a text file is, and the option that takes it, by its first bytes and its ending; None for other files."""
    kind = os.path.splitext(path.lower().removesuffix(".gz"))[1]
    what, way = next((other for endings, other in _OTHERS.items() if kind in endings), ("", ""))
    head = b""
    with suppress(OSError, ValueError), open_regular(path) as file:  # reading a FIFO would never end
        head = file.read(4096)
    if head.startswith(_TRANSCRIPT):
        hint = f"To go on with it, name the recordings and --output {path}; specdec export {path} reads it."
        return "a file of transcripts", hint
    is_text = head and (_NO_TEXT.search(head) is None or path.lower().endswith(".gz"))
    return (what, way.format(path)) if what and is_text else None


def find_recordings(paths: Sequence[str], *, recursive: bool = False, limit: int | None = None) -> list[str]:
    """Paths of the recordings that a command line names; arguments and errors as in `Paths` and `with_list`.

    `limit`: most of them; None: all.
    """
    found = Paths(with_list(paths), recursive)
    found.require_recordings()
    return [recording.path for recording in islice(found, limit)]


def identify(paths: Iterable[str]) -> tuple[list[InputFile], dict[str, str]]:
    """Every recording with its hash, and the copies that are left out.

    Returns:
        The recordings in order, unreadable ones with their error; and path -> path of its equal before it.
    """
    recordings, copies, first = list[InputFile](), dict[str, str](), dict[str, str]()
    for path in paths:
        interrupts.check()
        try:
            with opened(path) as file:
                digest = sha256(file)
        except AudioError as error:
            recordings.append(InputFile(path, error=error))
            continue
        if first.setdefault(digest, path) != path:
            copies[path] = first[digest]
        else:
            recordings.append(InputFile(path, digest))
    return recordings, copies


def all_unreadable(recordings: Iterable[InputFile]) -> dict[str, SpecdecError]:
    """Path -> why it cannot be opened as audio, if no recording can be opened; else nothing.

    It decodes nothing, and stops at the first recording that can be opened.
    """
    refused: dict[str, SpecdecError] = {}
    for recording in recordings:
        try:
            with opened(recording.path) as file:
                require_decodable(recording.path, file)
            return {}
        except Exception as error:  # also a library's error about a wrong header
            refused[recording.path] = as_specdec_error(error)
    return refused


def relative_name(path: str, base: str) -> str:
    """The name of an absolute path in exports: its place below `base`, or the whole path below `outside`."""
    name = os.path.relpath(path, base)
    return os.path.join("outside", path.lstrip(os.sep)) if name.startswith(os.pardir) else name


def common_folder(paths: Sequence[str]) -> str:
    """The deepest folder that holds all of `paths`, which are absolute; the root if there is none."""
    return os.path.commonpath(paths) if paths else os.sep


def _root(path: str) -> str:
    while glob.has_magic(path) and not os.path.lexists(path):
        path = os.path.dirname(path)
    return os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path))
