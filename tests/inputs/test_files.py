"""Small files in every spelling that the tools of a format write: what each says, what is told, what is refused.

`files.tsv` has a row for each file: parts as `recording start-end #channel language SPEAKER: text`, or `refused`; and
what is told, in which `*` stands for anything.
"""

import csv
import re
from pathlib import Path
from typing import Any, Final

import pytest

from specdec_cli.errors import ConfigError
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.manifest import read_manifest

FILES: Final = Path(__file__).with_name("files")
with FILES.with_suffix(".tsv").open(encoding="utf-8", newline="") as table:
    ROWS: Final = list(csv.reader(table, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


def read(name: str, kind: str, *, strict: bool = False) -> tuple[str, list[str]]:
    """What a file says, and the sentences about it."""
    if kind == "cuts":
        cuts = Cuts.read(FILES / name, strict=strict)
        return " | ".join(part(cut) for cut in cuts.of_recording("/somewhere/talk.wav")), cuts.skips.sentences()
    manifest = read_manifest(FILES / name, strict=strict)
    parts = (f"{Path(item.path).relative_to(FILES)} {part(item)}".strip() for item in manifest)
    return " | ".join(parts), manifest.skips.sentences()


def part(found: Any) -> str:
    """A cut or an item, as the table has it."""
    language = getattr(found, "language", None)
    end = "end" if found.end_s is None else f"{round(found.end_s, 6):.10g}"
    times = "" if found.start_s is None else f"{round(found.start_s, 6):g}-{end}"
    channel = "" if found.channel is None else f"#{found.channel + 1}"
    speaker = f"{found.speaker}:" if found.speaker else ""
    return " ".join(filter(None, (times, channel, language, speaker, found.text)))


def test_every_file_has_a_row():
    assert sorted(name for name, *_ in ROWS) == sorted(file.name for file in FILES.iterdir())


@pytest.mark.parametrize(("name", "kind", "says", "told"), ROWS, ids=[row[0] for row in ROWS])
def test_a_file_says(name, kind, says, told):
    pattern = ".*".join(map(re.escape, told.split("*")))
    if says == "refused":
        with pytest.raises(ConfigError) as raised:
            read(name, kind)
        assert raised.value.hint
        assert re.search(pattern, f"{raised.value.message} {raised.value.hint}")
        return
    said, sentences = read(name, kind)
    assert said == says
    if told == "-":
        assert not sentences
        return
    assert re.search(pattern, " / ".join(sentences)), sentences
    if any("left out" in sentence or "changed" in sentence for sentence in sentences):
        with pytest.raises(ConfigError, match=r", (line|item) \d|' of '"):
            read(name, kind, strict=True)
    else:
        assert read(name, kind, strict=True) == (said, sentences)
