"""Any cuts in any spelling come back as they were written, whatever a wrong entry or damage beside them does."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from specdec_cli.errors import ConfigError
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.manifest import read_manifest
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from tests.laws.tolerance import numbers

LEXICON: Final = Lexicon.read()
ANY: Final = settings(
    max_examples=max(15, numbers().stop), derandomize=True, database=None, deadline=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


class Piece(NamedTuple):
    """A cut: times in ms, and what is known of it."""

    start: int
    end: int
    speaker: str
    text: str


WORDS: Final = st.sampled_from(
    ["a", "é", "你好。", '"q"', 'x"', "1,5", "b;", "c|d", "&", "it's", "5 -> 6", "N/A?", "=1"]
)
TEXTS: Final = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
PIECE: Final = st.tuples(st.integers(0, 90_000), st.integers(1, 9_000), st.sampled_from(["Ann", "小王", "S_0"]), TEXTS)


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    """One after the other, perhaps without a pause between them."""
    found, at = list[Piece](), 0
    for pause, length, speaker, text in draw(st.lists(PIECE, min_size=1, max_size=6)):
        found.append(Piece(at + pause, at + pause + length, speaker, text))
        at = found[-1].end
    return found


def rows(found: Sequence[Piece]) -> list[dict[str, Any]]:
    return [
        {"file": "talk.wav", "start": f"{p.start / 1000}", "end": f"{p.end / 1000}", "speaker": p.speaker}
        | {"text": p.text, "emotion": "sad"}
        for p in found
    ]


def as_csv(found: Sequence[Piece], **dialect: Any) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, rows(found)[0], **dialect)
    writer.writeheader()
    writer.writerows(rows(found))
    return file.getvalue()


def as_tsv(found: Sequence[Piece]) -> str:
    return "".join("\t".join(row) + "\n" for row in [[*rows(found)[0]], *([*row.values()] for row in rows(found))])


def clock(ms: int, mark: str) -> str:
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}{mark}{ms % 1000:03}"


def as_rttm(found: Sequence[Piece]) -> str:
    lines = (
        f"SPEAKER talk 1 {p.start / 1000} {(p.end - p.start) / 1000} <NA> <NA> {p.speaker} <NA> <NA>" for p in found
    )
    return "".join(f"{line}\n" for line in lines)


def as_textgrid(found: Sequence[Piece]) -> str:
    """A tier for each speaker; a pause is an interval without a text."""
    end, speakers = found[-1].end / 1000, sorted({p.speaker for p in found})
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", 0, end, "<exists>", len(speakers)]
    for speaker in speakers:
        intervals, at = list[tuple[float, float, str]](), 0.0
        for p in found:
            if p.speaker == speaker:
                intervals += [(at, p.start / 1000, "")] * (p.start / 1000 > at)
                intervals.append((p.start / 1000, p.end / 1000, p.text.replace('"', '""')))
                at = p.end / 1000
        intervals += [(at, end, "")] * (at < end)
        lines += ['"IntervalTier"', f'"{speaker}"', 0, end, len(intervals)]
        lines += [each for start, stop, text in intervals for each in (start, stop, f'"{text}"')]
    return "".join(f"{line}\n" for line in lines)


def as_srt(found: Sequence[Piece]) -> str:
    cues = (f"{clock(p.start, ',')} --> {clock(p.end, ',')}\n[{p.speaker}]: {p.text}\n" for p in found)
    return "\n".join(f"{number}\n{cue}" for number, cue in enumerate(cues, 1))


def as_vtt(found: Sequence[Piece]) -> str:
    cues = (f"{clock(p.start, '.')} --> {clock(p.end, '.')}\n<v {p.speaker}>{p.text}\n" for p in found)
    return "WEBVTT\n\n" + "\n".join(cues).replace("&", "&amp;").replace("->", "-&gt;").replace("--&gt;", "-->")


SPELLINGS: Final[dict[str, Callable[[Sequence[Piece]], str]]] = {
    "talk.csv": as_csv,
    "all.csv": lambda found: as_csv(found, quoting=csv.QUOTE_ALL, lineterminator="\n"),
    "semicolons.csv": lambda found: as_csv(found, delimiter=";"),
    "talk.tsv": as_tsv,
    "talk.json": lambda found: json.dumps(rows(found), indent=1),
    "talk.jsonl": lambda found: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(found)),
    "whisperx.json": lambda found: json.dumps({"segments": rows(found)}),
    "talk.rttm": as_rttm,
    "talk.TextGrid": as_textgrid,
    "talk.srt": as_srt,
    "talk.vtt": as_vtt,
}
TABLES: Final = tuple(name for name in SPELLINGS if name.endswith((".csv", ".tsv", ".jsonl")))


def of_cuts(path: Path) -> tuple[list[tuple[Any, ...]], Any]:
    read = Cuts.read(path)
    return sorted(map(_part, read.of_recording("/x/talk.wav"))), read.skips


def of_manifest(path: Path) -> tuple[list[tuple[Any, ...]], Any]:
    read = read_manifest(path)
    return [_part(item) for item in read], read.skips


def _part(found: Any) -> tuple[Any, ...]:
    start, end = (None if time is None else round(time * 1000) for time in (found.start_s, found.end_s))
    return start, end, found.speaker, found.text


def written(found: Sequence[Piece], name: str) -> list[tuple[Any, ...]]:
    """What a file in a spelling says."""
    return [(*piece[:3], None if name.endswith(".rttm") else piece.text) for piece in found]


@pytest.mark.parametrize("name", SPELLINGS)
def test_what_is_written_is_read(tmp_path, name):
    @ANY
    @given(pieces(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
    def read(found: list[Piece], encoding: str) -> None:
        path = tmp_path / name
        path.write_text(SPELLINGS[name](found), "utf-8" if name.endswith(".tsv") else encoding)
        for reader in (of_cuts, of_manifest) if name in TABLES else (of_cuts,):
            said, skips = reader(path)
            assert said == written(found, name)
            assert not skips.sentences()

    read()


WRONG: Final = {
    "talk.csv": ["x.wav,5,5,a,b,c", "x.wav,5,4,a,b,c", "x.wav,?,4,a,b,c", "x.wav,1", 'x"".wav,"1', "x.wav,,4,a,b,c"],
    "talk.tsv": ["x.wav\t5\t5\ta\tb\tsad", "x.wav\t1"],
    "talk.jsonl": ['{"file": ', '{"file": "x.wav", "start": "a", "end": 3, "emotion": "sad"}'],
    "talk.rttm": ["SPEAKER x 1 5", "SPEAKER x 1 a 1 <NA> <NA> a <NA> <NA>", "SPEAKER x 1 5 0 <NA> <NA> a <NA> <NA>"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "wrong"), [(name, line) for name, lines in WRONG.items() for line in lines])
def test_a_wrong_line_costs_itself_and_is_named(tmp_path, name, wrong):
    @ANY
    @given(pieces(), st.integers(0, 6))
    def read(found: list[Piece], place: int) -> None:
        lines, path = SPELLINGS[name](found).replace("\r\n", "\n").splitlines(), tmp_path / name
        head = int(name in ("talk.csv", "talk.tsv"))
        at = head + min(place, len(found))
        path.write_text("\n".join([*lines[:at], wrong, *lines[at:]]), "utf-8")
        for reader in (of_cuts, of_manifest) if name in TABLES else (of_cuts,):
            said, skips = reader(path)
            assert said == written(found, name)
            assert skips.left_out == 1
            assert f"line {at + 1}" in skips.sentences()[0]
        if name in TABLES:
            references = References.read(path, lexicon=LEXICON)
            assert (len(references.entries), references.skips.left_out) == (len(found), 1)

    read()


DAMAGE: Final = st.sampled_from(
    ["", '"', ",", "\t", "\n", "\r", "\0", "-->", "<v ", "NaN", "-1", "1e999", "9" * 400, "{", "]", "\ufeff", "\u2028",
     ";;", "<NA>", "\udcff"]
)  # fmt: skip
EDITS: Final = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), DAMAGE), min_size=1, max_size=4)


@pytest.mark.parametrize("name", SPELLINGS)
def test_damage_is_refused_with_a_hint_or_read(tmp_path, name):
    @ANY
    @given(pieces(), EDITS)
    def read(found: list[Piece], edits: list[tuple[float, int, str]]) -> None:
        text, path = SPELLINGS[name](found), tmp_path / name
        for share, length, instead in edits:
            at = int(share * len(text))
            text = text[:at] + instead + text[at + length :]
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        for reader in (Cuts.read, read_manifest, lambda path: References.read(path, lexicon=LEXICON)):
            try:
                reader(path)
            except ConfigError as error:
                assert error.hint, path.read_bytes()  # noqa: PT017

    read()


@pytest.mark.parametrize("name", ["talk.tsv", "talk.jsonl", "talk.rttm"])
def test_damage_within_a_line_costs_no_other(tmp_path, name):
    @ANY
    @given(pieces(), st.floats(0, 0.99), EDITS)
    def read(found: list[Piece], which: float, edits: list[tuple[float, int, str]]) -> None:
        lines, path, hurt = SPELLINGS[name](found).splitlines(), tmp_path / name, int(which * len(found))
        at = hurt + (name == "talk.tsv")
        for share, length, instead in edits:
            place = int(share * len(lines[at]))
            rest = "" if name == "talk.jsonl" else lines[at][place + length :]  # an object keeps the names of its keys
            lines[at] = lines[at][:place] + "".join(instead.strip("\0").splitlines()) + rest  # NULs tell UTF-16
        path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
        if others := [*found[:hurt], *found[hurt + 1 :]]:
            said, _ = (of_cuts if name == "talk.rttm" else of_manifest)(path)
            assert {*written(others, name)} <= {*said}

    read()
