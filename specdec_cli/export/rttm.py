"""Who spoke when: RTTM, as diarization tools read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from specdec_cli.errors import ConfigError
from specdec_cli.export.recordings import CaptionedRecording, Piece, one_line
from specdec_cli.types import Flag

SPEAKER: Final = "speaker"
NO_SPEECH: Final[Flag] = "no_speech"
NOBODY: Final = "unknown"
"""The name of a turn where it is not known. Not <NA>, which pandas, and tools built on it, read as no text."""


def rttm(recordings: Iterable[CaptionedRecording], naming: str = SPEAKER) -> Iterator[str]:
    """One line per piece: `SPEAKER recording 1 start duration <NA> <NA> name <NA> <NA>`, times in s.

    Fields are separated by white space, which becomes `_` inside one; `"`, a quote to readers of tables, becomes `'`.
    Format: NIST, The 2009 (RT-09) Rich Transcription Meeting Recognition Evaluation Plan, appendix A.

    Args:
        recordings: their pieces become turns; iterated several times.
        naming: `speaker`, or the attribute whose class names a turn; `unknown` where it is not known, and `no_speech`
            where no speech was found.

    Raises:
        ConfigError: no piece names a class of the attribute.
    """
    name = _names(naming)
    if naming != SPEAKER and not any(map(name, _pieces(recordings))):
        raise ConfigError(
            f"RTTM names turns, and the transcripts have no {naming} to name them by.",
            hint="Classes come with --labels; without --rttm-name turns are named after their speakers.",
        )
    for recording in recordings:
        for piece in recording.pieces:
            turn = _field(name(piece) or "")
            if NO_SPEECH in piece.details.get("flags", "").split():
                turn = NO_SPEECH
            times = f"{piece.start_ms / 1000:.3f} {(piece.end_ms - piece.start_ms) / 1000:.3f}"
            yield f"SPEAKER {_field(recording.name)} 1 {times} <NA> <NA> {turn} <NA> <NA>\n"


def _pieces(recordings: Iterable[CaptionedRecording]) -> Iterator[Piece]:
    return (piece for recording in recordings for piece in recording.pieces)


def _names(naming: str) -> Callable[[Piece], str | None]:
    column = SPEAKER if naming == SPEAKER else f"label_{naming}"
    return lambda piece: piece.details.get(column)


def _field(text: str) -> str:
    return "_".join(one_line(text).replace('"', "'").split()) or NOBODY
