"""What an export leaves alone, which lines count, and what files are called."""

import os
from pathlib import Path

import pytest

from specdec_cli.errors import ConfigError, TranscriptError
from specdec_cli.export.folder import Written
from specdec_cli.export.formats import export, export_file
from specdec_cli.export.recordings import Stored
from specdec_cli.targets import Targets
from tests.support.transcripts import piece, write


def exported(stored: Stored, folder: Path, *formats: str) -> Written:
    return export(stored, formats, folder, Targets())


def captions(stored: Stored) -> list[tuple[int, str]]:
    return [(found.start_ms, found.caption) for recording in stored for found in recording.pieces]


def test_a_recording_of_the_same_name_from_elsewhere_takes_no_export_of_another(tmp_path):
    out = tmp_path / "out"
    for caption in ("Calm.", "Loud."):  # its own export is brought up to date
        assert exported(Stored.read(write(tmp_path, piece(0, 1, caption, file="/ann/1.wav"))), out, "srt").count == 1
    done = exported(Stored.read(write(tmp_path, piece(0, 1, "Soft.", file="/bob/1.wav"))), out, "srt")
    assert [problem.message for problem in done.problems] == [
        f"{out / '1.srt'} exists, and specdec did not write it, or it was edited since; it stays as it is."
    ]
    assert "Loud." in (out / "1.srt").read_text()
    (out / "1.srt").unlink()
    assert exported(Stored.read(write(tmp_path, piece(0, 1, "Soft.", file="/bob/1.wav"))), out, "srt").count == 1
    assert exported(Stored.read(write(tmp_path, piece(0, 1, "Loud.", file="/ann/1.wav"))), out, "srt").count == 0


def test_recordings_of_one_name_keep_their_suffixes_and_folders(tmp_path):
    files = ("/d/x/1.wav", "/d/x/1.mp3", "/d/y/1.wav", "/d/y/A b.wav", "/d/y/a_b.wav", "/d/y/a b.wav")
    stored = Stored.read(write(tmp_path, *(piece(0, 1, file=file) for file in files)))
    names = [recording.name for recording in stored]
    assert names[:3] == ["x/1.wav", "x/1.mp3", "y/1"]
    assert all(name.startswith(("y/A b.wav-", "y/a_b.wav-", "y/a b.wav-")) for name in names[3:])
    assert len({name.casefold().replace(" ", "_") for name in names}) == len(files)
    assert exported(stored, tmp_path / "out", "srt", "vtt").count == 12


def test_hostile_names_stay_inside_the_folder(tmp_path):
    lines = [piece(0, 1, file="/d/=a\n<b>.wav"), piece(0, 1, file="/d/c.wav", id="../../c")]
    lines.append(piece(0, 1, file=os.fsdecode(b"/d/\xcb\xb5.wav")))
    done = exported(Stored.read(write(tmp_path, *lines)), tmp_path / "out", "textgrid", "eaf", "vtt", "csv")
    assert not done.problems
    assert sorted(os.listdir(tmp_path)) == ["captions.jsonl", "out"]
    assert all(len(os.fsencode(name)) <= 255 for name in os.listdir(tmp_path / "out"))
    assert {"c.TextGrid", "c.eaf", "c.vtt"} <= set(os.listdir(tmp_path / "out"))


def test_the_last_captions_of_a_clip_count_and_its_pieces_are_in_order(tmp_path):
    """Pieces that a later run added, clips of a manifest, and two who begin at once included."""
    other = piece(None, None, file="/d/b.wav")
    lines = {
        (1, "0 new, 1000 new, 0 other"): [piece(0, 1), piece(1, 2), other, piece(0, 1, "new"), piece(1, 2, "new")],
        (0, "0 new, 1000 new, 2000 new, 0 other"): [piece(0, 1, "new"), other, piece(1, 2, "new"), piece(2, 3, "new")],
        (0, "0 b, 2000 c, 4000 a"): [piece(4, 5, "a", id="u2"), piece(0, 2, "b", id="u1"), piece(2, 3, "c", id="u3")],
        (0, "0 a, 0 b"): [piece(0, 1 + n, who, speaker=who, piece=n, pieces=2) for n, who in enumerate("ab")],
    }
    for (replaced, expected), made in lines.items():
        stored = Stored.read(write(tmp_path, *made))
        found = ", ".join(f"{start} {text}" for start, text in captions(stored))
        assert (stored.replaced, found.replace("A calm voice.", "other")) == (replaced, expected)


def test_captions_of_several_modes_need_a_choice(tmp_path):
    file = write(tmp_path, piece(0, 1, mode="edge"), piece(0, 1, "Sure.", mode="cloud"))
    with pytest.raises(ConfigError, match=r"in several modes, e\.g\. edge and cloud"):
        Stored.read(file)
    assert captions(Stored.read(file, mode="cloud")) == [(0, "Sure.")]


def test_a_table_has_lines_that_do_not_say_where_their_piece_is(tmp_path):
    stored = Stored.read(write(tmp_path, piece(None, None).replace('"duration_s":3.0', '"duration_s":null')))
    assert exported(stored, tmp_path / "out", "csv").count == 1
    assert export_file(stored, "csv", tmp_path / "one.csv", Targets()).count == 1
    with pytest.raises(TranscriptError, match="does not say where its piece begins and ends"):
        exported(stored, tmp_path / "out", "csv", "srt")
