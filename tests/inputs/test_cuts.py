"""Which recording cuts are of: by the paths in a file, by the names of files, and of the only one."""

from pathlib import Path

import pytest

from specdec_cli.errors import AudioContentError, CutsError, ReferencesError
from specdec_cli.inputs.cuts import Cuts

SRT = "1\n00:00:00,700 --> 00:00:01,500\nhi\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_cuts_are_found_by_path_and_then_by_name(tmp_path):
    table = "file,start,end\nann/1.flac,0,1\nbob/1,2,3\nmy_talk,4,5\nGespräch,6,7\ntalk.v2,8,9\n"
    cuts = Cuts.read(written(tmp_path, "c.csv", table))
    names = ("/x/ann/1.flac", "/x/bob/1.flac", "my talk.flac", "Gespra\u0308ch.flac", "talk.v2.wav")
    for recording, start in zip(names, (0, 2, 4, 6, 8), strict=True):
        assert [cut.start_s for cut in cuts.of_recording(recording)] == [start], recording
    with pytest.raises(CutsError, match=r"may be (ann/1\.flac or bob/1|bob/1 or ann/1\.flac)"):
        cuts.of_recording("/x/eve/1.flac")
    with pytest.raises(CutsError, match="has no cuts"):
        cuts.of_recording("talk.wav")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("talk.srt", SRT),
        ("talk.vtt", "WEBVTT\n\n00:00.700 --> 00:01.500\nhi\n"),
        ("talk.json", '{"segments": [{"start": 0.7, "end": 1.5, "text": "hi"}]}'),
        ("talk.wav.csv", "start,end,text\n0.7,1.5,hi\n"),
    ],
)
def test_cuts_that_name_no_recording_are_of_one(tmp_path, name, text):
    cuts = Cuts.read(written(tmp_path, name, text))
    cuts.expect(["x/other.wav", "./x/other.wav"])
    assert [cut.text for cut in cuts.of_recording("x/other.wav")] == ["hi"]
    with pytest.raises(CutsError, match="does not say which of the 2 recordings"):  # asked for without being expected
        Cuts.of_recording(cuts, "x/another.wav")

    cuts = Cuts.read(tmp_path / name)
    with pytest.raises(ReferencesError, match="does not say which of the 2 recordings its cuts are of"):
        cuts.expect(["x/other.wav", "x/another.wav"])

    cuts = Cuts.read(tmp_path / name)
    cuts.expect(["x/other.wav", "x/talk.wav"])
    assert [cut.text for cut in cuts.of_recording("x/talk.wav")] == ["hi"]
    with pytest.raises(CutsError, match="has no cuts of") as caught:
        cuts.of_recording("x/other.wav")
    assert "It has cuts of talk" in caught.value.hint

    with pytest.raises(ReferencesError, match=r"may be x/talk\.wav or y/talk\.wav"):
        Cuts.read(tmp_path / name).expect(["x/talk.wav", "y/talk.wav"])


def test_a_folder_has_a_file_for_each_recording(tmp_path):
    for name in ("talk.srt", ".old/one.srt", "two.srt", "two.vtt", "deep/ann/1.SRT", "deep/bob/1.SRT"):
        written(tmp_path, name, SRT.replace("0,700", "0,100") if "bob" in name else SRT)
    cuts = Cuts.read(tmp_path)
    cuts.expect(["talk.wav", "in/ann/1.wav", "in/bob/1.wav"])
    found = [cuts.of_recording(name)[0].start_s for name in ("talk.wav", "in/ann/1.wav", "in/bob/1.wav")]
    assert found == [0.7, 0.7, 0.1]
    for name, said in (("one.wav", "0 files of cuts for one.wav"), ("two.wav", "2 files of cuts for two.wav")):
        with pytest.raises(AudioContentError, match=said):
            cuts.of_recording(str(tmp_path / name))


@pytest.mark.parametrize("names", [("in/talk.wav", "in/talk.flac"), ("talk.mp4", "talk.wav")])
def test_recordings_that_differ_by_their_ending_alone_need_a_row_with_it(tmp_path, names):
    with pytest.raises(ReferencesError, match=r"^talk of .* may be talk\.\w+ or talk\.\w+"):
        Cuts.read(written(tmp_path, "talk.srt", SRT)).expect(names)
    bare = Cuts.read(written(tmp_path, "bare.csv", "file,start,end\ntalk,0,1\n"))
    bare.expect(names)
    other = Cuts.read(written(tmp_path, "other.csv", "file,start,end\ntalk.ogg,0,1\n"))
    other.expect(names)
    for name in names:
        with pytest.raises(CutsError, match="may be talk"):
            bare.of_recording(name)
        with pytest.raises(CutsError, match="may be talk"):
            other.of_recording(name)
    own = Cuts.read(written(tmp_path, "own.csv", "file,start,end\ntalk.wav,0,1\n"))
    own.expect(names)
    for name in names:
        if name.endswith(".wav"):
            assert own.of_recording(name)
        else:
            with pytest.raises(CutsError, match="has no cuts"):
                own.of_recording(name)


@pytest.mark.parametrize("name", ["1.srt", "1.rttm"])
def test_cuts_that_may_be_of_two_recordings_are_of_none(tmp_path, name):
    written(tmp_path, name, SRT if name.endswith("srt") else "SPEAKER 1 1 0.5 1 <NA> <NA> ann <NA> <NA>\n")
    cuts = Cuts.read(tmp_path if name.endswith("srt") else tmp_path / name)
    cuts.expect(["in/ann/1.wav", "in/bob/1.wav", "in/bob/2.wav"])
    with pytest.raises(AudioContentError, match=r"^1 of .* may be in/ann/1\.wav or in/bob/1\.wav"):
        cuts.of_recording("in/bob/1.wav")


def test_what_transcripts_say_of_cuts_has_no_folder_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "cuts/talk.srt", "00:00:01,000 --> 00:00:02,000\nhi\n")
    for given in (tmp_path / "cuts", tmp_path / "cuts" / "talk.srt"):
        assert [cut.place for cut in Cuts.read(given).of_recording("talk.wav")] == ["cuts/talk.srt, line 1"]
    with pytest.raises(AudioContentError, match=r"^cuts has 0 files of cuts for other\.wav"):
        Cuts.read(tmp_path / "cuts").of_recording("other.wav")


def test_channels_of_rttm_count_where_a_recording_has_two(tmp_path):
    """Most tools write channel 1 for any recording."""
    lines = (f"SPEAKER {name} {n} 0 1 <NA> <NA> a <NA> <NA>\n" for name, n in (("x", 1), ("x", 2), ("y", 1)))
    cuts = Cuts.read(written(tmp_path, "c.rttm", "".join(lines)))
    assert [cut.channel for cut in cuts.of_recording("x.wav")] == [0, 1]
    assert [cut.channel for cut in cuts.of_recording("y.wav")] == [None]
