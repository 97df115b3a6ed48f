"""Captions as subtitles, SubRip (SRT) and WebVTT, as plain text, and as speaker turns (RTTM)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final

from specdec_cli.errors import ConfigError
from specdec_cli.export.recordings import CaptionedPiece, CaptionedRecording
from specdec_cli.format import marked
from specdec_cli.text import one_line
from specdec_cli.times import clock

VTT_NOTE: Final = "NOTE specdec: each cue says how somebody speaks, not what they say"
"""Comment by which a reader of cuts knows that cues hold captions."""
_VTT_SAID: Final = "NOTE said: "
_VTT_CHANNEL: Final = "NOTE channel: "
_SRT_SPEAKER: Final = "[{}]: "  # as WhisperX writes it; square brackets in a name become round ones
_SRT_NOTHING: Final = "…"  # an empty caption above what is said
_ROUND: Final = str.maketrans("[]", "()")
_NO_SPEAKER: Final = re.compile(r"^\[([^\]]*)\]: ")


def srt(recording: CaptionedRecording) -> str:
    """SubRip: the caption of each piece while it lasts, after the speaker as `[ann]: `. An arrow in a text becomes →.

    Flags stand after the caption in brackets, as in VTT; the words that are spoken are a line below it.
    """
    cues = []
    for number, piece in enumerate(recording.pieces, 1):
        speaker = (piece.speaker or "").translate(_ROUND)
        text = (
            f"{_SRT_SPEAKER.format(speaker)}{_marked(piece)}" if speaker else _NO_SPEAKER.sub(r"(\1): ", _marked(piece))
        )
        if said := one_line(piece.details.get("text") or ""):
            text = f"{text or _SRT_NOTHING}\n{said}"
        cues.append(f"{number}\n{_times(piece, ',')}\n{text.replace('-->', '→')}\n")
    return "\n".join(cues)


def vtt(recording: CaptionedRecording) -> str:
    """WebVTT: the caption of each piece while it lasts, voiced by its speaker, below comments.

    The comments have the words that are spoken, and the channel.

    Format: https://www.w3.org/TR/webvtt1/
    """
    cues = [f"WEBVTT\n\n{VTT_NOTE}\n"]
    for piece in recording.pieces:
        if said := piece.details.get("text"):
            cues.append(f"{_VTT_SAID}{escape(one_line(said), quote=False)}\n")
        if channel := piece.details.get("channel"):
            cues.append(f"{_VTT_CHANNEL}{channel}\n")
        voice = "" if piece.speaker is None else f"<v {escape(piece.speaker, quote=False)}>"
        cues.append(f"{_times(piece, '.')}\n{voice}{escape(_marked(piece), quote=False)}\n")
    return "\n".join(cues)


def txt(recording: CaptionedRecording) -> str:
    """The caption of each piece on a line of its own."""
    return "".join(f"{_marked(piece)}\n" for piece in recording.pieces)


def rttm(recordings: Iterable[CaptionedRecording], naming: str) -> str:
    """One line per piece: `SPEAKER recording channel start duration <NA> <NA> name <NA> <NA>`, times in s.

    The channel is 1 where all are mixed.

    Fields are separated by white space, which becomes `_` inside one; `"`, a quote to readers of tables, becomes `'`.
    Format: NIST, The 2009 (RT-09) Rich Transcription Meeting Recognition Evaluation Plan, appendix A.

    `naming`: `speaker`, or the attribute whose class names a turn; `unknown` where it is not known, and `no_speech`
    where no speech was found.

    Raises:
        ConfigError: no piece names a class of the attribute.
    """
    column = "speaker" if naming == "speaker" else f"label_{naming}"
    lines, named = [], naming == "speaker"
    for recording in recordings:
        for piece in recording.pieces:
            name = piece.details.get(column)
            named = named or bool(name)
            turn = "no_speech" if "no_speech" in piece.details.get("flags", "").split() else _field(name or "")
            times = f"{piece.start_ms / 1000:.3f} {(piece.end_ms - piece.start_ms) / 1000:.3f}"
            channel = piece.details.get("channel", 1)
            lines.append(f"SPEAKER {_field(recording.name)} {channel} {times} <NA> <NA> {turn} <NA> <NA>\n")
    if not named:
        raise ConfigError(
            f"RTTM names turns, and the transcripts have no {naming} to name them by.",
            hint="Classes come with --labels; without --attribute turns are named after their speakers.",
        )
    return "".join(lines)


def _marked(piece: CaptionedPiece) -> str:
    """The caption with its flags, and a mark where the edge wrote on without the cloud."""
    flags = [piece.details.get("flags", ""), "degraded" if piece.line.head.degraded else ""]
    return marked(piece.caption, " ".join(filter(None, flags)))


def _times(piece: CaptionedPiece, point: str) -> str:
    return f"{clock(piece.start_ms, point)} --> {clock(piece.end_ms, point)}"


def _field(text: str) -> str:
    """A field without blanks. An empty one becomes `unknown`, not <NA>, which pandas reads as no text."""
    return "_".join(one_line(text).replace('"', "'").split()) or "unknown"
