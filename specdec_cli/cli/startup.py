"""What a command does before it loads models: refuse early what cannot succeed, and start fast."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_cli.errors import AudioError, ConfigError

if TYPE_CHECKING:
    from specdec_cli.lexicon import Lexicon


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
