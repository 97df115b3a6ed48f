"""Text files in the recordings' own folders' likeness."""

from __future__ import annotations

from specdec_cli.batch.lines import Line
from specdec_cli.export.folder import fitted, safe
from specdec_cli.inputs.find import relative_name
from specdec_cli.inputs.recording import Key
from specdec_cli.transcript.schema import readable


def text_name(key: Key, base: str) -> str:
    """The path of a clip's text file below a folder: `speaker/clip.wav` becomes `speaker/clip.wav.txt`.

    A clip with an id of its own becomes `ID.txt`. No two clips have the same.
    """
    return fitted(relative_name(key.path, base) if key.id is None else safe(key.id), ".txt")


def as_text(lines: list[Line]) -> str:
    """The captions of a clip, one a line; nothing if there is none."""
    captions = (str(line.values["caption"]) for line in lines if line.good)
    return readable("".join(f"{' '.join(caption.split())}\n" for caption in captions))
