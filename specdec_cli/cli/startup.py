"""What a command does before it loads models: refuse early what cannot succeed, and start fast."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_cli.errors import AudioError, ConfigError, TranscriptError

if TYPE_CHECKING:
    from specdec_cli.lexicon import Lexicon
    from specdec_cli.types import Update


@contextmanager
def still_collector() -> Iterator[None]:
    """Keeps the garbage collector still while libraries and weights are loaded.

    PyTorch and transformers make several hundred thousand objects that live until the process ends. Collecting among
    them, again and again while they come and once more at exit, is a quarter of the CPU time of a short run. Behind
    the block they are taken out of the collector's sight and it works as before.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def without_scipy() -> Iterator[None]:
    """Lets transformers find no scipy while it is imported.

    Where scipy is installed, as it is with the extra `tune`, transformers imports its optimizers for training detectors
    of objects in pictures: a quarter of a second of CPU time that no caption needs. Behind the block scipy can be
    imported as always.
    """
    if "scipy" in sys.modules:
        yield
        return
    sys.modules["scipy"] = None  # type: ignore[assignment] # what the import system takes for "there is none"
    try:
        yield
    finally:
        del sys.modules["scipy"]


def lexicon_for(labels: bool, path: Path | None, *, shown: bool = True) -> Lexicon | None:
    """The lexicon that --labels and --lexicon ask for, None if neither is given.

    Args:
        labels: --labels.
        path: --lexicon.
        shown: whether anything that is written holds labels.

    Raises:
        LexiconError: the file cannot be used.
        ConfigError: labels would be shown nowhere.
    """
    if not labels and path is None:
        return None
    if not shown:
        raise ConfigError(
            "--labels has no effect with --quiet: captions are all that is printed.",
            hint="Add --json or --output, or leave --quiet out.",
        )
    from specdec_cli.lexicon import Lexicon

    return Lexicon.load(path)


def refuse_output(output: Path, recordings: Sequence[str], *, flag: str = "--output") -> None:
    """Refuses a file of transcripts that would fail later, or that would damage a file of another kind.

    Raises:
        ConfigError: it is "-", or one of the recordings.
        TranscriptError: it cannot be appended to, or it holds something else than transcripts.
    """
    from specdec_cli.transcript.writer import require_appendable

    if str(output) == "-":
        raise ConfigError(f"{flag} takes a file, not -.", hint="Transcripts go to stdout with: --json")
    _refuse_recording(flag, output, recordings)
    require_appendable(output)


def refuse_picture(svg: Path, recordings: Sequence[str]) -> None:
    """Refuses an --svg that would overwrite something else than a picture.

    Raises:
        ConfigError: it is one of the recordings, does not end in .svg, or its folder does not exist.
    """
    refuse_target("--svg", svg, ".svg", recordings)


def refuse_report(html: Path, recordings: Sequence[str]) -> None:
    """Refuses an --html that would overwrite something else than a page; errors as in `refuse_picture`."""
    refuse_target("--html", html, ".html", recordings)


def refuse_target(flag: str, target: Path, suffix: str, recordings: Sequence[str]) -> None:
    """Refuses a file to be written that would overwrite something of another kind; errors as in `refuse_picture`."""
    _refuse_recording(flag, target, recordings)
    if target.suffix.lower() != suffix:
        raise ConfigError(
            f"{flag} {target} does not end in {suffix}.", hint=f"Name it {target.stem}{suffix}, for example."
        )
    if not target.parent.is_dir():
        raise ConfigError(f"The folder of {flag} {target} does not exist.", hint=f"Create it: mkdir -p {target.parent}")


def refuse_table(csv: Path, output: Path, recordings: Sequence[str]) -> None:
    """Refuses a --csv that could not be written, or that would take the place of something else.

    Raises:
        ConfigError: it is the output or one of the recordings, a folder, or in a folder that does not exist.
    """
    _refuse_recording("--csv", csv, recordings)
    if csv == output or _same_file(csv, output):
        raise ConfigError(f"--csv and --output are both {csv}.", hint="Name two files.")
    if csv.is_dir() or not csv.parent.is_dir():
        raise ConfigError(f"--csv {csv} cannot be a file there.", hint="Name a file in a folder that exists.")


def draw(updates: Sequence[Update], svg: Path) -> None:
    """Draws the finished view of a run.

    Raises:
        TranscriptError: the file cannot be written.
    """
    from specdec_cli.console import record_svg

    try:
        record_svg(updates, svg)
    except OSError as error:
        raise TranscriptError(f"{svg} cannot be written: {error.strerror or error}") from error


def _refuse_recording(flag: str, target: Path, recordings: Sequence[str]) -> None:
    for recording in recordings:
        if _same_file(target, Path(recording)):
            raise ConfigError(f"{flag} {target} is one of the recordings.", hint="Name another file.")


def refusals(recordings: Sequence[str]) -> dict[str, AudioError]:
    """File -> why it cannot be opened, for those that cannot; their content is not looked at."""
    from specdec_cli.audio.files import opened

    refused: dict[str, AudioError] = {}
    for recording in recordings:
        try:
            with opened(recording):
                pass
        except AudioError as error:
            refused[recording] = error
    return refused


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them does not exist
        return False
