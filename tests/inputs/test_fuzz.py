"""Tables and cuts that were damaged at random: no crash, and every row is used or reported."""

import random
from pathlib import Path
from typing import Final

import pytest

from specdec_cli.errors import ConfigError
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.manifest import read_manifest
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from tests.laws.tolerance import numbers

LEXICON: Final = Lexicon.read()
TABLE: Final = "file,start,end,speaker,emotion\n" + "".join(f"{n}.wav,{n},{n + 1},ann,sad\n" for n in range(8))
FILES: Final = Path(__file__).with_name("files")
HEALTHY: Final = {
    **{name: (FILES / name).read_text("utf-8") for name in (
        "turns.rttm", "plain.srt", "plain.vtt", "long.TextGrid", "short.TextGrid", "whisperx.json", "lines.jsonl",
    )},
    "c.csv": TABLE,
    "c.tsv": TABLE.replace(",", "\t"),
}  # fmt: skip
PIECES: Final = [
    "", '"', ",", "\t", "\n", "\r", "\0", "-->", "<v ", "NaN", "-1", "1e999", "9" * 400, "{", "]", "\ufeff", "\u2028",
    "é", ";;", "<NA>",
]  # fmt: skip


def damaged(text: str, draw: random.Random) -> bytes:
    """The text with a few pieces put in, taken out, doubled or cut off, and now and then a wrong byte."""
    for _ in range(draw.randint(1, 4)):
        at, to = sorted(draw.randrange(len(text) + 1) for _ in range(2))
        to = min(to, at + draw.randint(0, 12))
        text = draw.choice(
            [text[:at] + draw.choice(PIECES) + text[to:], text[:to] + text[at:], text[:at] + text[to:], text[: at + 1]]
        )
    data = text.encode("utf-8", "replace")
    return data.replace(b"a", b"\xff", 1) if draw.random() < 0.1 else data


@pytest.mark.parametrize("name", HEALTHY)
def test_damage_is_refused_or_reported(tmp_path, name):
    draw, path = random.Random(name), tmp_path / name
    for _ in range(max(6, numbers().stop // len(HEALTHY))):
        path.write_bytes(damaged(HEALTHY[name], draw))
        for read in (Cuts.read, read_manifest, lambda path: References.read(path, lexicon=LEXICON)):
            try:
                read(path)
            except ConfigError as error:
                assert error.hint, path.read_bytes()  # noqa: PT017


@pytest.mark.parametrize(
    "wrong", ["x.wav,5,5,ann,sad", "x.wav,5,4,ann,sad", "x.wav,?,4,ann,sad", "x.wav,1", 'x"".wav,"1', "x.wav,,4,a,b"]
)
def test_every_row_is_used_or_reported(tmp_path, wrong):
    rows = TABLE.splitlines()
    for at in range(1, len(rows) + 1):
        path = tmp_path / f"{at}.csv"
        path.write_text("\n".join([*rows[:at], wrong, *rows[at:]]) + "\n")
        manifest, cuts = read_manifest(path), Cuts.read(path)
        references = References.read(path, lexicon=LEXICON)
        assert len(manifest.rows) == len(references.entries) == len(rows) - 1
        assert sum(len(cuts.of(f"{n}.wav")) for n in range(8)) == len(rows) - 1
        for skips in (manifest.skips, cuts.skips, references.skips):
            assert skips.left_out == 1
            assert f"line {at + 1}" in skips.sentences()[0]
