"""Captions as subtitles, SubRip (SRT) and WebVTT, which players show over the recording; and as plain text."""

from __future__ import annotations

from specdec_cli.export.recordings import CaptionedRecording, Piece
from specdec_cli.format import marked


def srt(recording: CaptionedRecording) -> str:
    """SubRip: the caption of each piece while it lasts, after the speaker's name. An arrow in a text becomes →.

    What makes it no description stands after it in brackets, as in VTT.
    """
    cues = []
    for number, piece in enumerate(recording.pieces, 1):
        text = _marked(piece) if piece.speaker is None else f"{piece.speaker}: {_marked(piece)}"
        times = f"{clock(piece.start_ms, ',')} --> {clock(piece.end_ms, ',')}"
        cues.append(f"{number}\n{times}\n{text.replace('-->', '→')}\n")
    return "\n".join(cues)


def vtt(recording: CaptionedRecording) -> str:
    """WebVTT: the caption of each piece while it lasts, voiced by its speaker (https://www.w3.org/TR/webvtt1/)."""
    cues = ["WEBVTT\n"]
    for piece in recording.pieces:
        voice = "" if piece.speaker is None else f"<v {_escaped(piece.speaker)}>"
        cues.append(f"{clock(piece.start_ms, '.')} --> {clock(piece.end_ms, '.')}\n{voice}{_escaped(_marked(piece))}\n")
    return "\n".join(cues)


def txt(recording: CaptionedRecording) -> str:
    """The caption of each piece on a line of its own."""
    return "".join(f"{_marked(piece)}\n" for piece in recording.pieces)


def _marked(piece: Piece) -> str:
    return marked(piece.caption, piece.details.get("flags", ""))


def clock(time_ms: int, point: str) -> str:
    """HH:MM:SS and milliseconds, which stand behind `point`."""
    seconds, rest = divmod(time_ms, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{rest:03}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
