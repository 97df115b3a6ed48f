"""What was exported comes back as cuts: places, speakers, texts, channels; never a caption as what is said."""

import csv
import random
import shutil
from pathlib import Path

import pytest

from specdec_cli.audio.samples import Cut
from specdec_cli.export.formats import export, export_file
from specdec_cli.export.recordings import CaptionedPiece, Stored
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.targets import Targets
from specdec_cli.text import one_line
from specdec_cli.types import ExportFormat
from tests.export.lines import HOSTILE, piece, write

NAMES = (
    *("ann", "安娜 李", "R&D <x>", 'the "boss"', "a - caption", "caption", "text", "emotion", "x (2)", "ann: b", "a]b"),
    *(
        "channel", "- x", "@a;=b", "[x]: y", "שרה", "-->", "<v ann>", "NOTE", "&amp;", "words", "'q", "a_b", "=1+1",
        "speaker", "n" * 255,
    ),
)  # fmt: skip
TEXTS = (
    *(None, "你好", HOSTILE, "[x]: hello", "He said [laughs]: hello", "שלום", "a --> b", "<i>&lt;</i>", '"', '""'),
    *(
        "=1+1", "'=x", "-1", "5:01 -> 6:02", "1", "00:00:01.000 --> 00:00:02.000", "NOTE specdec", "x" * 3000,
        "item [1]:", "! no comment", "{\\i1}",
    ),
)  # fmt: skip
CAPTIONS = ("A calm voice.", HOSTILE, "[x]: A voice.", "", "<v bob>", "NOTE said: x", '"', "-->", "! a", "1")
FORMATS: tuple[ExportFormat, ...] = ("textgrid", "eaf", "vtt", "csv", "rttm")
FILE = "/data/talk.wav"
Row = tuple[int, int, str | None, str | None, int | None]
"""Start and end in ms, speaker, text, channel from 1."""


def kept(name: ExportFormat, piece: CaptionedPiece, *, channels: bool) -> Row:
    """What a format can hold of a piece; `channels`: whether the recording has other channels than 1."""
    speaker, text, channel = (
        piece.speaker,
        one_line(piece.details.get("text") or "") or None,
        piece.details.get("channel"),
    )
    if name == "csv":  # which holds control characters as they are
        text = " ".join(str(piece.details.get("text") or "").split()) or None
    elif name == "rttm":
        no_speech = "no_speech" in piece.details.get("flags", "")
        speaker = None if no_speech else speaker and "_".join(speaker.replace('"', "'").split())
        text, channel = None, (channel or 1) if channels else None
    return piece.start_ms, piece.end_ms, speaker, text, channel


def recording(rng: random.Random) -> list[str]:
    """Lines of some pieces, one after the other and over each other."""
    lines, at = [], 0.0
    for number in range(rng.randint(1, 8)):
        start, length = round(at, 3), round(rng.uniform(0.2, 3), 3)
        more = {"speaker": rng.choice((None, *NAMES)), "text": rng.choice(TEXTS)}
        more |= {"channel": rng.randint(1, 3)} if rng.random() < 0.5 else {}
        more |= {"labels": {"emotion": "happy"}} if rng.random() < 0.5 else {}
        more |= {"needs_review": True, "flags": ["no_speech"]} if rng.random() < 0.3 else {}
        known = {name: value for name, value in more.items() if value is not None}
        lines.append(piece(start, start + length, rng.choice(CAPTIONS), FILE, id=f"{number}", **known))
        at = start + length * rng.choice((0.5, 1.0, 1.5))
    return lines


def found(path: Path) -> list[Row]:
    def row(cut: Cut) -> Row:
        channel = None if cut.channel is None else cut.channel + 1
        return round(1000 * cut.start_s), round(1000 * cut.end_s), cut.speaker, cut.text, channel

    return sorted(map(row, Cuts.read(path).of(FILE)), key=str)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("cases", [range(60), pytest.param(range(60, 600), marks=pytest.mark.full)], ids=str)
def test_exports_come_back_as_cuts(tmp_path, name, cases):
    for case in cases:
        stored = Stored.read(write(tmp_path, *recording(random.Random(case))))
        out = tmp_path / "out"
        assert export(stored, [name], out, Targets(), naming="speaker").problems == []
        (file,) = (path for path in out.iterdir() if path.name.startswith(("talk.", "captions.")))
        (captioned,) = stored
        channels = any(piece.details.get("channel", 1) > 1 for piece in captioned.pieces)
        said = [kept(name, piece, channels=channels) for piece in captioned.pieces]
        assert found(file) == sorted(said, key=str), f"case {case}"
        shutil.rmtree(out)


@pytest.mark.parametrize("file", ["a/talk.wav", "my talk.wav", "Gespräch.v2.flac"])
def test_rttm_comes_back_with_names_as_the_format_has_them(tmp_path, file):
    lines = [
        piece(n, n + 1, file=f"/d/{file}", **({"speaker": who} if who else {})) for n, who in enumerate(("ann b", ""))
    ]
    stored = Stored.read(write(tmp_path, *lines))
    export_file(stored, "rttm", tmp_path / "o.rttm", Targets(), naming="speaker")
    assert [fields.split()[7] for fields in (tmp_path / "o.rttm").read_text("utf-8").splitlines()] == [
        "ann_b",
        "unknown",
    ]
    named = (tmp_path / "o.rttm").read_text("utf-8").split()[1]
    assert [(cut.start_s, cut.speaker, cut.text) for cut in Cuts.read(tmp_path / "o.rttm").of(f"/d/{named}.wav")] == [
        (0, "ann_b", None),
        (1, None, None),
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_comes_back_with_whole_recordings_and_without_the_apostrophes(tmp_path, delimiter):
    """Also as a spreadsheet saves it; the same cells in a table of somebody else's are as they stand."""
    whole = piece(None, None, "=1", "/d/a.wav", speaker="=ann", text="-x;=y", channel=2)
    stored = Stored.read(write(tmp_path, whole, piece(1, 2, "Calm.", "/d/b.wav", speaker="'s")))
    export_file(stored, "csv", tmp_path / "o.csv", Targets(), naming="speaker")
    with (tmp_path / "o.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    assert "'=ann" in rows[1]
    with (tmp_path / "saved.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    cuts = Cuts.read(tmp_path / "saved.csv", strict=True)
    assert [(cut.start_s, cut.end_s, cut.speaker, cut.text, cut.channel) for cut in cuts.of("/d/a.wav")] == [
        (0.0, 1e8, "=ann", "-x;=y", 1)
    ]
    assert [(cut.start_s, cut.end_s, cut.speaker) for cut in cuts.of("/d/b.wav")] == [(1.0, 2.0, "'s")]
    (tmp_path / "other.csv").write_text("start,end,speaker\n0,1,'=ann\n")
    assert [cut.speaker for cut in Cuts.read(tmp_path / "other.csv").of("a.wav")] == ["'=ann"]


@pytest.mark.parametrize("edit", ["boundaries", "another tier", "words"])
def test_a_textgrid_that_was_corrected_in_praat_is_read_with_its_corrections(tmp_path, edit):
    stored = Stored.read(
        write(tmp_path, piece(0, 1, "Calm.", FILE, speaker="ann", text="hi", labels={"emotion": "sad"}))
    )
    export_file(stored, "textgrid", tmp_path / "talk.TextGrid", Targets(), naming="speaker")
    grid = (tmp_path / "talk.TextGrid").read_text("utf-8")
    (tmp_path / "talk.TextGrid").unlink()
    if edit == "boundaries":
        edited = grid.replace('xmax = 1\n            text = "Calm."', 'xmax = 0.9\n            text = "Calm."')
        expected = [(0, 900, "ann", None, None)]
    else:
        name = "bob" if edit == "another tier" else "bob - words"
        tier = (
            f'    item [9]:\n        class = "IntervalTier"\n        name = "{name}"\n        xmin = 0\n'
            "        xmax = 1\n"
            "        intervals: size = 1\n        intervals [1]:\n            xmin = 0\n            xmax = 1\n"
            '            text = "yes"\n'
        )
        edited = grid.replace("size = 3\nitem", "size = 4\nitem") + tier
        expected = [(0, 1000, "ann", "hi", None), *([(0, 1000, "bob", "yes", None)] if edit == "another tier" else [])]
    assert edited != grid
    (tmp_path / "talk.TextGrid").write_text(edited, "utf-8")
    assert found(tmp_path / "talk.TextGrid") == sorted(expected, key=str)


def test_an_eaf_that_was_synchronised_in_elan_counts_from_its_origin(tmp_path):
    stored = Stored.read(write(tmp_path, piece(0, 1, "Calm.", FILE, speaker="ann", text="hi", channel=2)))
    export_file(stored, "eaf", tmp_path / "talk.eaf", Targets(), naming="speaker")
    document = (tmp_path / "talk.eaf").read_text("utf-8")
    (tmp_path / "talk.eaf").unlink()
    (tmp_path / "talk.eaf").write_text(document.replace("<MEDIA_DESCRIPTOR ", '<MEDIA_DESCRIPTOR TIME_ORIGIN="3000" '))
    assert found(tmp_path / "talk.eaf") == [(3000, 4000, "ann", "hi", 2)]


@pytest.mark.parametrize(
    ("said", "text"),
    [("He said [laughs]: hello", "He said [laughs]: hello"), ("[b]: [c]: d", "[c]: d"), ("[b]: x [d]: y", "x [d]: y")],
)
def test_only_what_begins_a_cue_is_its_speaker(tmp_path, said, text):
    (tmp_path / "a.srt").write_text(f"1\n00:00:00,000 --> 00:00:01,000\n{said}\n")
    assert [cut.text for cut in Cuts.read(tmp_path / "a.srt").of(FILE)] == [text]
