"""Every format is read back by a library that had no part in writing it: same pieces, times, classes and texts."""

import csv
import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile

from specdec_cli.export.formats import export
from specdec_cli.export.recordings import Stored
from specdec_cli.targets import Targets
from specdec_cli.transcript.records import ErrorInfo
from specdec_cli.types import ExportFormat
from tests.mini_pair import RATE, captioner, voice
from tests.support.transcripts import HOSTILE, ONE_LINE, piece, write
from tests.tiers import few

ANN, BOB = "安娜", "=Bob <x>"
PIECES = (
    piece(
        0.0, 1.5, HOSTILE, speaker=ANN, text="你好", labels={"emotion": "happy", "pitch": None},
        scores={"emotion": {"by": "edge", "classes": {"happy": 0.75, "sad": 0.25}, "other": 0.0}},
        measured={"f0_median_hz": 201.5, "rate_per_s": None}, agrees={"pitch": None, "emotion": False},
        needs_review=True,
    ),
    piece(1.0, 2.337, "Overlaps Ann.", speaker=BOB, labels={"emotion": "sad", "pitch": "low"}),
    piece(1.2, 4.0, "Overlaps herself.", speaker=ANN, labels={"emotion": None, "pitch": "low"}),
    piece(4.0004, 7200.0, "Touches.", speaker=ANN, labels={"emotion": "sad", "pitch": None}),
)  # fmt: skip


def exported(folder: Path, name: ExportFormat, *lines: str) -> list[Path]:
    """The files of a format."""
    done = export(Stored.read(write(folder, *lines)), [name], folder / "out", Targets())
    assert not done.problems
    return sorted(path for path in (folder / "out").rglob("*.*"))


def rows(folder: Path, *lines: str) -> list[dict[str, str]]:
    """The rows of the table, which begins with a byte order mark and its names."""
    (file,) = (file for file in exported(folder, "csv", *lines) if file.suffix == ".csv")
    assert file.read_bytes().startswith("\ufeffname,id,".encode())
    with file.open(encoding="utf-8-sig", newline="") as opened:
        return list(csv.DictReader(opened))


def test_textgrid(tmp_path):
    tgt = pytest.importorskip("tgt")
    (file,) = exported(tmp_path, "textgrid", *PIECES)
    assert file.name == "会议 1.TextGrid"
    grid = tgt.read_textgrid(str(file), encoding="utf-8", include_empty_intervals=True)
    tiers = {tier.name: [(i.start_time, i.end_time, i.text) for i in tier] for tier in grid.tiers}
    assert tiers[f"{ANN} - caption"] == [(0, 1.5, ONE_LINE), (1.5, 4, ""), (4, 7200, "Touches.")]
    assert tiers[f"{ANN} - caption (2)"] == [(0, 1.2, ""), (1.2, 4, "Overlaps herself."), (4, 7200, "")]
    assert tiers[f"{BOB} - emotion"] == [(0, 1, ""), (1, 2.337, "sad"), (2.337, 7200, "")]
    assert tiers[f"{ANN} - measured_f0_median_hz"][0] == (0, 1.5, "201.5")
    assert tiers[f"{ANN} - text"][0] == (0, 1.5, "你好")
    assert tiers[f"{ANN} - needs_review"][0] == (0, 1.5, "review")
    assert f"{ANN} - measured_rate_per_s" not in tiers
    assert tiers[f"{ANN} - pitch"][0] == (0, 1.5, "")


@pytest.mark.parametrize("cut", few([1.0, "pauses", None]))
def test_a_textgrid_is_as_long_as_its_recording_and_has_no_slivers(tmp_path, cut):
    """As Praat reads both; in pieces cut at pauses, in equal ones, or whole."""
    parselmouth = pytest.importorskip("parselmouth")
    rate, silence = 22_050, np.zeros(13_001, np.float32)
    spoken = [np.interp(np.arange(n * rate) / rate, np.arange(n * RATE) / RATE, voice(n, n)) for n in (2, 4, 1)]
    sound = tmp_path / "talk.wav"
    soundfile.write(sound, np.concatenate([silence, spoken[0], silence, spoken[1], silence, spoken[2]]), rate)
    edge = captioner(decoding__mode="edge", decoding__max_new_tokens=1, audio__segment=cut)
    lines = [transcript.to_json() for transcript in edge.captions(sound)]
    assert (len(lines) > 1) == (cut is not None)
    grid, ask = parselmouth.read(str(*exported(tmp_path, "textgrid", *lines))), parselmouth.praat.call
    length = ask(parselmouth.Sound(str(sound)), "Get total duration")
    assert ask(grid, "Get total duration") == pytest.approx(length, abs=0.5 / rate)
    for tier in range(1, ask(grid, "Get number of tiers") + 1):
        count = ask(grid, "Get number of intervals", tier)
        ends = [ask(grid, "Get end time of interval", tier, n) for n in range(1, count + 1)]
        assert min(np.diff([0.0, *ends])) > 0.02
        assert ends[-1] == ask(grid, "Get total duration")


def test_pieces_that_touch_but_for_rounding_share_a_boundary(tmp_path):
    tgt = pytest.importorskip("tgt")
    lines = [piece(0, 1.2344, speaker=ANN), piece(1.2352, 2, speaker=ANN), piece(1.999, 3.0004, speaker=ANN)]
    (file,) = exported(
        tmp_path, "textgrid", *(line.replace('"speaker"', '"recording_s":3.0,"speaker"') for line in lines)
    )
    tier, *_ = tgt.read_textgrid(str(file), encoding="utf-8", include_empty_intervals=True).tiers
    assert [(i.start_time, i.end_time) for i in tier] == [(0, 1.234), (1.234, 2), (2, 3)]


def test_textgrids_of_one_export_have_the_same_tiers_in_one_order(tmp_path):
    """And those that are empty in all of them are left out."""
    tgt = pytest.importorskip("tgt")
    labels = {"timbre": None, "emotion": "sad"}
    flagged = piece(0, 1, file="/d/a.wav", labels=labels, emotions=["sad"], needs_review=False, flags=["language"])
    doubtful = piece(0, 1, file="/d/b.wav", labels=labels | {"rate": "slow"}, needs_review=True)
    measured = piece(0, 1, file="/d/c.wav", measured={"f0_range_st": 3})
    files = exported(tmp_path, "textgrid", flagged, doubtful, measured)
    assert [file.stem for file in files] == ["a", "b", "c"]
    for file in files:
        found = [tier.name for tier in tgt.read_textgrid(str(file), include_empty_intervals=True).tiers]
        assert found == ["caption", "emotion", "rate", "emotions", "measured_f0_range_st", "needs_review", "flags"]


@pytest.mark.parametrize(
    ("name", "mark"),
    [("textgrid", '"language refusal"'), ("eaf", ">language refusal<"), ("srt", "Hm. [language refusal]"),
     ("vtt", "Hm. [language refusal]"), ("csv", ",language refusal")],
)  # fmt: skip
def test_what_is_no_description_is_marked(tmp_path, name, mark):
    flagged = piece(0.0, 1.0, "Hm.", flags=["language", "refusal"], labels={"emotion": None})
    file, *_ = exported(tmp_path, name, flagged, piece(1.0, 2.0))
    assert mark in file.read_text("utf-8")


@pytest.mark.parametrize("kept", [False, True])
def test_what_has_no_speech_gets_no_subtitle_and_no_classes_unless_asked_for(tmp_path, kept):
    found = {"labels": {"emotion": "sad"}, "emotions": ["sad"], "flags": ["no_speech"]}
    settings = {"keep_no_speech": True} if kept else {}
    scrap = piece(0.0, 1.0, "Invented.", **found, settings=settings)
    spoken = piece(1.0, 2.0, "Said.", labels={"emotion": "happy"}, settings=settings)
    for name in ("srt", "vtt"):
        file = next(file for file in exported(tmp_path, name, scrap, spoken) if file.suffix == f".{name}")
        assert ("Invented." in file.read_text("utf-8"), "Said." in file.read_text("utf-8")) == (kept, True)
    named = [(row["label_emotion"], row["flags"]) for row in rows(tmp_path, scrap, spoken)]
    assert named == [("sad" if kept else "", "no_speech"), ("happy", "")]


def test_eaf(tmp_path):
    elan = pytest.importorskip("pympi.Elan")
    (file,) = exported(tmp_path, "eaf", *PIECES)
    document = elan.Eaf(str(file), suppress_version_warning=True)
    aligned = document.get_annotation_data_for_tier(f"{ANN} - caption")
    assert sorted(aligned) == [(0, 1500, ONE_LINE), (4000, 7200000, "Touches.")]
    assert document.get_annotation_data_for_tier(f"{ANN} - caption (2)") == [(1200, 4000, "Overlaps herself.")]
    emotions = document.get_ref_annotation_data_for_tier(f"{ANN} - emotion")
    assert sorted(found[:3] for found in emotions) == [(0, 1500, "happy"), (4000, 7200000, "sad")]
    tier = document.get_parameters_for_tier(f"{BOB} - emotion")
    assert (tier["PARENT_REF"], tier["PARTICIPANT"]) == (f"{BOB} - caption", BOB)
    (media,) = document.get_linked_files()
    assert media["MEDIA_URL"] == "file:///data/%E4%BC%9A%E8%AE%AE%201.wav"


def test_ids_of_an_eaf_are_unique_and_lead_somewhere(tmp_path):
    root = ElementTree.parse(*exported(tmp_path, "eaf", *PIECES)).getroot()
    slots = {slot.attrib["TIME_SLOT_ID"]: int(slot.attrib["TIME_VALUE"]) for slot in root.iter("TIME_SLOT")}
    assert list(slots.values()) == sorted(slots.values())
    aligned = {a.attrib["ANNOTATION_ID"]: a for a in root.iter("ALIGNABLE_ANNOTATION")}
    attached = {a.attrib["ANNOTATION_ID"]: a for a in root.iter("REF_ANNOTATION")}
    assert not aligned.keys() & attached.keys()
    assert all(a.attrib["ANNOTATION_REF"] in aligned for a in attached.values())
    assert all(slots[a.attrib["TIME_SLOT_REF1"]] < slots[a.attrib["TIME_SLOT_REF2"]] for a in aligned.values())
    types = {kind.attrib["LINGUISTIC_TYPE_ID"] for kind in root.iter("LINGUISTIC_TYPE")}
    tiers = [tier.attrib for tier in root.iter("TIER")]
    assert len({tier["TIER_ID"] for tier in tiers}) == len(tiers)
    assert {tier["LINGUISTIC_TYPE_REF"] for tier in tiers} <= types
    order = [child.tag for child in root]
    assert order == sorted(order, key=("HEADER", "TIME_ORDER", "TIER", "LINGUISTIC_TYPE", "CONSTRAINT").index)


def test_srt(tmp_path):
    srt = pytest.importorskip("srt")
    cues = list(srt.parse(exported(tmp_path, "srt", *PIECES)[0].read_text("utf-8")))
    assert [(c.start.total_seconds(), c.end.total_seconds()) for c in cues] == TIMES
    assert cues[0].content == f"[{ANN}]: {ONE_LINE.replace('-->', '→')}\n你好"
    assert cues[1].content == f"[{BOB}]: Overlaps Ann."


def test_vtt(tmp_path):
    webvtt = pytest.importorskip("webvtt")
    captions = webvtt.read(*exported(tmp_path, "vtt", *PIECES)).captions
    assert [(c.start_in_seconds, c.end_in_seconds) for c in captions] == [(int(s), int(e)) for s, e in TIMES]
    assert [c.start for c in captions] == ["00:00:00.000", "00:00:01.000", "00:00:01.200", "00:00:04.000"]
    assert captions[3].end == "02:00:00.000"
    assert captions[0].voice == ANN
    assert "-->" not in captions[0].raw_text
    assert captions[0].raw_text.endswith("快 --&gt; 慢 &lt;b&gt;&amp;amp; {\\i1} \\x07")


TIMES = [(0.0, 1.5), (1.0, 2.337), (1.2, 4.0), (4.0, 7200.0)]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@a", "'=1", "x{}=1+1", 'x{}"=1+1"', "x{} -1"])
def test_a_table_has_no_formulas_whatever_a_program_takes_as_its_separator(tmp_path, separator, formula):
    said = formula.format(separator)
    (row,) = rows(tmp_path, piece(0, 1, speaker=said, text="-5 Grad"))
    assert row["text"] == "'-5 Grad"
    for cell in next(csv.reader([row["speaker"]], delimiter=separator)) if separator != "," else [row["speaker"]]:
        assert not cell.strip().startswith(("=", "+", "-", "@"))


def test_a_table_says_how_captions_were_made_and_which_are_degraded(tmp_path):
    good, bad = piece(0, 1), piece(1, 2, degraded="The cloud did not answer.")
    failed = piece(2, 3, error=ErrorInfo(type="AudioError", message="broken.")).replace('"A calm voice."', "null")
    found = rows(tmp_path, good, bad, failed)
    assert [row["degraded"] for row in found] == ["", "The cloud did not answer.", ""]
    assert {(row["mode"], row["edge"], row["cloud"], row["escalations"]) for row in found} == {("edge", "edge", "", "")}


def test_a_table_has_a_column_for_every_class_figure_and_agreement(tmp_path):
    row = rows(tmp_path, *PIECES)[0]
    assert (row["label_emotion"], row["label_pitch"]) == ("happy", "")
    assert (row["measured_f0_median_hz"], row["measured_rate_per_s"]) == ("201.5", "")
    assert (row["agrees_emotion"], row["agrees_pitch"]) == ("false", "")


@pytest.mark.parametrize("name", ["srt", "vtt"])
def test_degraded_captions_are_marked(tmp_path, name):
    lines = piece(0, 1), piece(1, 2, "Hm.", degraded="gone", flags=["refusal"])
    (file,) = exported(tmp_path, name, *lines)
    assert file.read_text("utf-8").count("[refusal degraded]") == 1


@pytest.mark.parametrize("stem", ["说" * 82 + "ab", "n" * 251, "é" * 125, "😀" * 62 + "ab"], ids=len)
def test_names_are_shortened_to_what_file_systems_take_and_stay_different(tmp_path, stem):
    files = [f"/d/{stem}.wav", f"/d/{stem[:-1]}c.wav"]
    stored = Stored.read(write(tmp_path, *(piece(0, 1, file=file) for file in files)))
    done = export(stored, ["textgrid", "srt", "eaf"], tmp_path / "out", Targets())
    assert (done.problems, done.count) == ([], 6)
    assert len(list((tmp_path / "out").glob("*.TextGrid"))) == 2


@pytest.mark.parametrize("seconds", [-3_000_000_000, 300_000_000_000])
def test_a_file_of_an_impossible_time_is_exported(tmp_path, seconds):
    path = tmp_path / "out.jsonl"
    path.write_text(f"{piece(0, 1)}\n", "utf-8")
    try:
        os.utime(path, (seconds, seconds))
    except OSError:
        pytest.skip("the file system has no such times")
    (recording,) = Stored.read(path)
    assert 1970 <= recording.made.year <= 9999
