"""Transcripts without a model, and files of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specdec_cli.errors import AudioDecodeError
from specdec_cli.journal import Journal, StoredLine, read_lines
from specdec_cli.targets import TRANSCRIPTS, FileKind
from specdec_cli.transcript import Transcript, error_transcript
from specdec_cli.transcript.records import ModelInfo, Models

SETTINGS: dict[str, object] = {"k": 5, "gate": "entropy", "threshold": 1.1, "stop_strings": [], "style": "default"}
MODELS = Models(edge=ModelInfo(name="edge", dtype="float32", device="cpu"), cloud=None)
HOSTILE = '她说："高兴"：\n快 --> 慢 <b>&amp; {\\i1} \x07\x85'
"""Quotes, a colon, a newline, an arrow, markup of several formats, control characters, and Chinese."""
ONE_LINE = '她说："高兴"： 快 --> 慢 <b>&amp; {\\i1} \\x07'
"""The same as a file of text may hold it."""


def failed_line(file: str | Path, *, sha256: str | None = None, start_s: float | None = None) -> Transcript:
    """The line of a recording without a caption."""
    return error_transcript(
        str(file), AudioDecodeError("broken."), language="en", prompt="Describe.", mode="edge", models=MODELS,
        settings=SETTINGS, sha256=sha256, start_s=start_s, end_s=None if start_s is None else start_s + 1,
    )  # fmt: skip


def good_line(file: str | Path, caption: str = "A calm voice.", **more: object) -> Transcript:
    """The line of a recording with a caption; `more` are fields of it."""
    changed = {"error": None, "caption": caption, "finish_reason": "eos", **more}
    return failed_line(file, sha256="0" * 64).model_copy(update=changed)


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


def write(path: Path, *lines: str | Transcript) -> Path:
    """A file with these lines; of a folder `captions.jsonl`."""
    path = path / "captions.jsonl" if path.is_dir() else path
    texts = (line if isinstance(line, str) else line.to_json() for line in lines)
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8", "backslashreplace")
    return path


class Raw(Journal[StoredLine]):
    """Lines of which nothing is asked."""

    def __init__(self, path: Path, kind: FileKind = TRANSCRIPTS, *, overwrite: bool = False) -> None:
        super().__init__(path, kind, lambda _: (), overwrite=overwrite)

    def parsed(self, line: StoredLine) -> StoredLine:
        return line

    def take(self, entry: StoredLine) -> None:
        pass


def append_transcript(path: Path, transcript: Transcript) -> None:
    """Appends a transcript as it is."""
    with Raw(path) as journal:
        journal.append(transcript.to_json())


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """The transcripts in a file."""
    for line in read_lines(path):
        yield Transcript.from_json(line.raw, f"{path}:{line.number}")
