"""Cuts as other tools write them, and what is wrong with some."""

from pathlib import Path

import pytest

from specdec_cli.errors import AudioContentError
from specdec_cli.inputs.cuts import Cuts
from tests.inputs.formats import NAMED, RTTM, SHORT_TEXTGRID, SRT, TEXTGRID, VTT, WHISPERX

Said = list[tuple[float, float, str | None, str | None]]

BOTH: Said = [(0.7, 1.5, "Ann", "你好。"), (2.2, 3.0, None, "Good morning.")]


def read(folder: Path, name: str, text: str | bytes, recording: str = "/somewhere/talk.wav") -> Said:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return [(cut.start_s, cut.end_s, cut.speaker, cut.text) for cut in Cuts.read(path).of(recording)]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("c.rttm", RTTM, [(0.7, 1.5, "Ann", None), (2.2, 3.0, "小王", None)]),
        ("c.srt", SRT, BOTH),
        ("c.srt", "\ufeff" + SRT.replace("\n", "\r\n"), BOTH),
        ("c.srt", "00:01.0 --> 00:02.0\nleft -->\nright\n", [(1.0, 2.0, None, "left --> right")]),
        ("c.vtt", VTT, BOTH),
        ("c.TextGrid", TEXTGRID, [(0.7, 1.5, "Ann", "你好。")]),
        ("c.TextGrid", TEXTGRID.encode("utf-16"), [(0.7, 1.5, "Ann", "你好。")]),
        ("c.TextGrid", NAMED, [(0.7, 1.5, "Bo", "你好。")]),
        ("c.TextGrid", SHORT_TEXTGRID, [(0.7, 1.5, "Ann", '你"好')]),
        ("c.json", WHISPERX, [(0.7, 1.5, "Ann", "你好。"), (2.2, 3.0, None, "Good")]),
        ("c.csv", "start,end,text\n0.7,1.5,a\n0:02.2,00:00:03,\n", [(0.7, 1.5, None, "a"), (2.2, 3.0, None, None)]),
        ("c.tsv", "file\tonset\tduration\ntalk.wav\t0.7\t0.8\nx.wav\t1\t1\n", [(0.7, 1.5, None, None)]),
    ],
)  # fmt: skip
def test_formats(tmp_path: Path, name: str, text: str | bytes, found: Said) -> None:
    read_ = read(tmp_path, name, text)
    assert [(s, e, *rest) for s, e, *rest in read_] == [
        (pytest.approx(s), pytest.approx(e), *rest) for s, e, *rest in found
    ]


def test_a_folder_has_a_file_for_each_recording_where_the_recordings_stand(tmp_path: Path) -> None:
    for number, speaker in enumerate(("ann", "bob")):
        (tmp_path / "cuts" / speaker).mkdir(parents=True)
        (tmp_path / "cuts" / speaker / "1.SRT").write_text(SRT.replace("00:00:00,700", f"00:00:00,{number}00"))
    cuts = Cuts.read(tmp_path / "cuts")
    recordings = ["in/ann/1.wav", "in/bob/1.wav"]
    cuts.expect(recordings)
    assert [cuts.of(recording)[0].start_s for recording in recordings] == [0.0, 0.1]


@pytest.mark.parametrize("name", ["1.srt", "1.rttm"])
def test_cuts_that_may_be_of_two_recordings_are_of_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SRT if name.endswith("srt") else "SPEAKER 1 1 0.5 1 <NA> <NA> ann <NA> <NA>\n")
    cuts = Cuts.read(tmp_path if name.endswith("srt") else tmp_path / name)
    cuts.expect(["in/ann/1.wav", "in/bob/1.wav", "in/bob/2.wav"])
    with pytest.raises(AudioContentError, match=r"^1 of .* may be in/ann/1\.wav or in/bob/1\.wav"):
        cuts.of("in/bob/1.wav")


def test_a_folder_has_a_file_for_each_recording(tmp_path: Path) -> None:
    (tmp_path / "talk.srt").write_text(SRT)
    (tmp_path / "two.srt").write_text(SRT)
    (tmp_path / "two.vtt").write_text(VTT)
    cuts = Cuts.read(tmp_path)
    assert [cut.start_s for cut in cuts.of(str(tmp_path / "talk.wav"))] == [0.7, 2.2]
    for name, said in (("one.wav", "0 files of cuts for one.wav"), ("two.wav", "2 files of cuts for two.wav")):
        with pytest.raises(AudioContentError, match=said):
            cuts.of(str(tmp_path / name))
