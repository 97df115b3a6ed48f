"""Captions as subtitles: SubRip (SRT) and WebVTT, which players show over the recording."""

from __future__ import annotations

from pathlib import Path

from specdec_cli.export.recordings import CaptionedRecording


def srt(recording: CaptionedRecording, _target: Path) -> str:
    """SubRip: the caption of each piece while it lasts, after the speaker's name. An arrow in a text becomes →."""
    cues = []
    for number, piece in enumerate(recording.pieces, 1):
        text = piece.caption if piece.speaker is None else f"{piece.speaker}: {piece.caption}"
        times = f"{_time(piece.start_ms, ',')} --> {_time(piece.end_ms, ',')}"
        cues.append(f"{number}\n{times}\n{text.replace('-->', '→')}\n")
    return "\n".join(cues)


def vtt(recording: CaptionedRecording, _target: Path) -> str:
    """WebVTT: the caption of each piece while it lasts, voiced by its speaker (https://www.w3.org/TR/webvtt1/)."""
    cues = ["WEBVTT\n"]
    for piece in recording.pieces:
        voice = "" if piece.speaker is None else f"<v {_escaped(piece.speaker)}>"
        cues.append(f"{_time(piece.start_ms, '.')} --> {_time(piece.end_ms, '.')}\n{voice}{_escaped(piece.caption)}\n")
    return "\n".join(cues)


def _time(time_ms: int, point: str) -> str:
    seconds, rest = divmod(time_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{rest:03}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
