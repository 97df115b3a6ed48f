"""What was exported comes back as cuts: same places and speakers, what is said, and never a caption as what is said."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from specdec_cli.audio.samples import Cut
from specdec_cli.export.formats import export, export_file
from specdec_cli.export.recordings import Stored, one_line
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.types import ExportFormat
from tests.export.lines import HOSTILE, piece, write

NAMES = (
    *("ann", "安娜 李", "R&D <x>", 'the "boss"', "a - caption", "caption", "text", "emotion", "x (2)", "ann: b", "a]b"),
    *("[x]: y", "שרה", "-->", "<v ann>", "NOTE", "&amp;", "words", "'q", "a_b", "=1+1", "speaker", "n" * 255),
)
TEXTS = (
    *(None, "你好", HOSTILE, "[x]: hello", "He said [laughs]: hello", "שלום", "a --> b", "<i>&lt;</i>", '"', '""'),
    *("1", "00:00:01.000 --> 00:00:02.000", "NOTE specdec", "x" * 3000, "item [1]:", "! no comment", "{\\i1}"),
)
CAPTIONS = ("A calm voice.", HOSTILE, "[x]: A voice.", "", "<v bob>", "NOTE said: x", '"', "-->", "! a", "1")
FORMATS: tuple[ExportFormat, ...] = ("textgrid", "eaf", "vtt", "srt")
FILE = "/data/talk.wav"


def recording(rng: random.Random) -> list[str]:
    """Lines of some pieces, one after the other and over each other."""
    lines, at = [], 0.0
    for number in range(rng.randint(1, 8)):
        start, length = round(at, 3), round(rng.uniform(0.2, 3), 3)
        more = {"speaker": rng.choice((None, *NAMES)), "text": rng.choice(TEXTS)}
        more |= {"labels": {"emotion": "happy"}} if rng.random() < 0.5 else {}
        more |= {"needs_review": True, "flags": ["no_speech"]} if rng.random() < 0.3 else {}
        known = {name: value for name, value in more.items() if value is not None}
        lines.append(piece(start, start + length, rng.choice(CAPTIONS), FILE, id=f"{number}", **known))
        at = start + length * rng.choice((0.5, 1.0, 1.5))
    return lines


def found(path: Path) -> list[tuple[int, int, str | None, str | None]]:
    def row(cut: Cut) -> tuple[int, int, str | None, str | None]:
        return round(1000 * cut.start_s), round(1000 * cut.end_s), cut.speaker, cut.text

    return sorted(map(row, Cuts.read(path).of(FILE)), key=str)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("cases", [range(60), pytest.param(range(60, 600), marks=pytest.mark.full)], ids=str)
def test_exports_come_back_as_cuts(tmp_path: Path, name: ExportFormat, cases: range) -> None:
    for case in cases:
        stored = Stored.read(write(tmp_path, *recording(random.Random(case))))
        out = tmp_path / "out"
        assert export(stored, [name], out, "--output", naming="speaker").problems == []
        (file,) = (path for path in out.iterdir() if path.name.startswith("talk."))
        (captioned,) = stored
        said = [
            (
                piece.start_ms,
                piece.end_ms,
                piece.speaker
                if name != "srt"
                else piece.speaker and piece.speaker.replace("[", "(").replace("]", ")").replace("-->", "→"),
                None if name == "srt" else one_line(piece.details.get("text") or "") or None,
            )
            for piece in captioned.pieces
        ]
        assert found(file) == sorted(said, key=str), f"case {case}"
        shutil.rmtree(out)


@pytest.mark.parametrize("file", ["a/talk.wav", "my talk.wav", "Gespräch.v2.flac"])
def test_rttm_comes_back_with_names_as_the_format_has_them(tmp_path: Path, file: str) -> None:
    lines = [
        piece(n, n + 1, file=f"/d/{file}", **({"speaker": who} if who else {})) for n, who in enumerate(("ann b", ""))
    ]
    stored = Stored.read(write(tmp_path, *lines))
    export_file(stored, "rttm", tmp_path / "o.rttm", naming="speaker")
    assert [fields.split()[7] for fields in (tmp_path / "o.rttm").read_text("utf-8").splitlines()] == [
        "ann_b",
        "unknown",
    ]
    named = (tmp_path / "o.rttm").read_text("utf-8").split()[1]
    assert [(cut.start_s, cut.speaker, cut.text) for cut in Cuts.read(tmp_path / "o.rttm").of(f"/d/{named}.wav")] == [
        (0, "ann_b", None),
        (1, None, None),
    ]


@pytest.mark.parametrize("edit", ["boundaries", "another tier", "words"])
def test_a_textgrid_that_was_corrected_in_praat_is_read_with_its_corrections(tmp_path: Path, edit: str) -> None:
    stored = Stored.read(
        write(tmp_path, piece(0, 1, "Calm.", FILE, speaker="ann", text="hi", labels={"emotion": "sad"}))
    )
    export_file(stored, "textgrid", tmp_path / "talk.TextGrid", naming="speaker")
    grid = (tmp_path / "talk.TextGrid").read_text("utf-8")
    (tmp_path / "talk.TextGrid").unlink()
    if edit == "boundaries":
        edited = grid.replace('xmax = 1\n            text = "Calm."', 'xmax = 0.9\n            text = "Calm."')
        expected = [(0, 900, "ann", None)]
    else:
        name = "bob" if edit == "another tier" else "bob - words"
        tier = (
            f'    item [9]:\n        class = "IntervalTier"\n        name = "{name}"\n        xmin = 0\n'
            "        xmax = 1\n"
            "        intervals: size = 1\n        intervals [1]:\n            xmin = 0\n            xmax = 1\n"
            '            text = "yes"\n'
        )
        edited = grid.replace("size = 3\nitem", "size = 4\nitem") + tier
        expected = [(0, 1000, "ann", "hi"), *([(0, 1000, "bob", "yes")] if edit == "another tier" else [])]
    assert edited != grid
    (tmp_path / "talk.TextGrid").write_text(edited, "utf-8")
    assert found(tmp_path / "talk.TextGrid") == sorted(expected, key=str)


def test_an_srt_that_was_moved_is_read_like_one_of_others(tmp_path: Path) -> None:
    """Nothing in it can say that its texts are captions; the folder's list of exports does."""
    stored = Stored.read(write(tmp_path, piece(0, 1, "Calm.", FILE, speaker="ann")))
    export_file(stored, "srt", tmp_path / "out" / "talk.srt", naming="speaker")
    assert found(tmp_path / "out" / "talk.srt") == [(0, 1000, "ann", None)]
    (tmp_path / "else").mkdir()
    shutil.copy(tmp_path / "out" / "talk.srt", tmp_path / "else")
    assert found(tmp_path / "else" / "talk.srt") == [(0, 1000, "ann", "Calm.")]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("He said [laughs]: hello", "He said [laughs]: hello"),
        ("[b]: [c]: d", "[c]: d"),
        ("[b]: x [d]: y", "x [d]: y"),
    ],
)
def test_only_what_begins_a_cue_is_its_speaker(tmp_path: Path, said: str, text: str) -> None:
    (tmp_path / "a.srt").write_text(f"1\n00:00:00,000 --> 00:00:01,000\n{said}\n")
    assert [cut.text for cut in Cuts.read(tmp_path / "a.srt").of(FILE)] == [text]
