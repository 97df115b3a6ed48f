"""Captions as subtitles: SubRip (SRT) and WebVTT."""

from __future__ import annotations

import re
from html import escape
from typing import Final

from specdec_cli.export.recordings import CaptionedPiece, CaptionedRecording
from specdec_cli.format import marked
from specdec_cli.text import one_line
from specdec_cli.times import clock

VTT_NOTE: Final = "NOTE specdec: each cue says how somebody speaks, not what they say"
"""Comment that marks cues as captions for the reader of cuts."""
_VTT_SAID: Final = "NOTE said: "
_VTT_CHANNEL: Final = "NOTE channel: "
_SRT_SPEAKER: Final = "[{}]: "  # as WhisperX writes it; square brackets in a name become round ones
_SRT_NOTHING: Final = "…"  # an empty caption above what is said
_ROUND: Final = str.maketrans("[]", "()")
_NO_SPEAKER: Final = re.compile(r"^\[([^\]]*)\]: ")


def srt(recording: CaptionedRecording) -> str:
    """SubRip: the caption of each piece while it lasts, after the speaker as `[ann]: `. An arrow in a text becomes →.

    Flags follow the caption in brackets, as in VTT; the words that are spoken are a line below it.
    """
    cues = []
    for number, piece in enumerate(_spoken(recording), 1):
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
    for piece in _spoken(recording):
        if said := piece.details.get("text"):
            cues.append(f"{_VTT_SAID}{escape(one_line(said), quote=False)}\n")
        if channel := piece.details.get("channel"):
            cues.append(f"{_VTT_CHANNEL}{channel}\n")
        voice = "" if piece.speaker is None else f"<v {escape(piece.speaker, quote=False)}>"
        cues.append(f"{_times(piece, '.')}\n{voice}{escape(_marked(piece), quote=False)}\n")
    return "\n".join(cues)


def _spoken(recording: CaptionedRecording) -> list[CaptionedPiece]:
    """The pieces with speech, unless `audio.no_speech` is keep."""
    return [piece for piece in recording.pieces if piece.line.head.has_speech]


def _marked(piece: CaptionedPiece) -> str:
    """The caption with its flags, and a mark if it is degraded."""
    flags = [piece.details.get("flags", ""), "degraded" if piece.line.head.degraded else ""]
    return marked(piece.caption, " ".join(filter(None, flags)))


def _times(piece: CaptionedPiece, point: str) -> str:
    return f"{clock(piece.start_ms, point)} --> {clock(piece.end_ms, point)}"
