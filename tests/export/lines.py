"""Transcript files of recordings in pieces, with the fields that other options add, made without a model."""

import json
from pathlib import Path
from typing import Any

from tests.captioning.lines import good_line

HOSTILE = '她说："高兴"：\n快 --> 慢 <b>&amp; {\\i1} \x07\x85'
"""Quotes, a colon, a newline, an arrow, markup of several formats, control characters, and Chinese."""
ONE_LINE = '她说："高兴"： 快 --> 慢 <b>&amp; {\\i1} \\x07'
"""The same as a file of text may hold it."""


def piece(
    start_s: float | None,
    end_s: float | None,
    caption: str = "A calm voice.",
    file: str = "/data/会议 1.wav",
    **more: Any,
) -> str:
    """A line for a piece of a recording, or for all 3 s of it; `more` are fields that the schema may not have."""
    length = 3.0 if start_s is None or end_s is None else end_s - start_s
    known = {name: more.pop(name) for name in ("id", "mode", "labels", "language", "error") if name in more}
    line = good_line(file, caption, start_s=start_s, end_s=end_s, duration_s=length, **known)
    values = json.loads(line.to_json())
    names = list(values)
    head = {name: values.pop(name) for name in names[: names.index("rounds")]}
    return json.dumps({**head, **more, "rounds": [], **values}, ensure_ascii=False, separators=(",", ":"))


def write(folder: Path, *lines: str) -> Path:
    """A transcript file."""
    path = folder / "captions.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8", "backslashreplace")
    return path
