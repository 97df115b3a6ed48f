"""Recordings that are cut: at pauses, by files, in part."""

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile

from specdec_cli.audio.samples import Floats
from specdec_cli.transcript import Transcript
from tests.cli.harness import QUICK, Outcome
from tests.mini_pair import RATE, voice, write_voice
from tests.support.transcripts import read_transcripts

Run = Callable[..., Outcome]
Stdin = Callable[[bytes], None]


def talk(count: int, pause_s: float = 0.7) -> Floats:
    """Utterances of 0.8 s, each after a pause."""
    pause = np.zeros(round(pause_s * RATE), np.float32)
    return np.concatenate([part for seed in range(count) for part in (pause, voice(seed, 0.8))] + [pause])


@pytest.fixture
def run(specdec) -> Run:
    """Run a command quickly in the temporary folder, where `talk.wav` holds four utterances."""
    soundfile.write("talk.wav", talk(4), RATE)
    return lambda command, *arguments: specdec(command, *arguments, *QUICK)


def lines(path: str = "o.jsonl") -> list[Transcript]:
    return list(read_transcripts(Path(path)))


def places(found: Sequence[Transcript]) -> list[tuple[float | None, float | None]]:
    return [(line.start_s, line.end_s) for line in found]


@pytest.mark.parametrize("command", ["caption", "batch"])
def test_utterances_between_pauses_are_captioned_one_by_one(run, command):
    assert run(command, "talk.wav", "-o", "o.jsonl", "--segment", "pauses").code == 0
    found = lines()
    assert [(line.piece, line.pieces) for line in found] == [(index, 4) for index in range(4)]
    for index, line in enumerate(found):
        assert line.start_s == pytest.approx(0.7 + 1.5 * index, abs=0.2)
        assert line.end_s == pytest.approx(1.5 + 1.5 * index, abs=0.2)
        assert line.caption
        assert line.settings["segment"] == "pauses"


def test_what_is_longer_than_the_window_is_cut_and_what_fits_is_not(run):
    soundfile.write("long.wav", np.concatenate([talk(2), np.zeros(29 * RATE)]), RATE)
    assert run("batch", "long.wav", "talk.wav", "-o", "o.jsonl").code == 0
    long, short = ([line for line in lines() if line.file == name] for name in ("long.wav", "talk.wav"))
    assert [line.pieces for line in long] == [2, 2]
    assert [(line.start_s, line.pieces) for line in short] == [(None, None)]
    assert "segment" not in long[0].settings


def test_the_line_that_completes_a_recording_says_what_it_is_as_a_whole(run):
    cuts = ("start_s,end_s,speaker", "0.7,1.5,ann", "2.2,3.0,bob", "3.7,4.5,ann", "5.2,6.0,")
    Path("cuts.csv").write_text("\n".join(cuts))
    asked = ("caption", "talk.wav", "--segment", "cuts.csv", "-o", "o.jsonl")
    outcome = run(*asked)
    found = lines()
    (whole,) = [line.whole for line in found if line.whole is not None]
    assert (whole, whole.pieces, whole.seconds) == (found[-1].whole, 4, pytest.approx(3.2))
    assert whole.speakers == {"ann": 0.5, "bob": 0.25}
    for attribute, shares in whole.classes.items():
        named = [line.labels[attribute] for line in found]
        assert shares == {class_: named.count(class_) / 4 for class_ in shares}
        assert set(shares) == set(named) - {None}
    assert "loading cuts: " in outcome.err
    assert "talk.wav as a whole: " in outcome.err
    assert "speaker: ann 50%, bob 25%" in outcome.err
    stored = Path("o.jsonl").read_bytes().splitlines(keepends=True)
    Path("o.jsonl").write_bytes(stored[0] + stored[2] + stored[3])  # bob's turn is captioned again
    assert run(*asked).err.count("as a whole") == 1
    again = lines()
    assert [line.whole for line in again] == [None, whole, None, None]


def test_another_speaker_of_the_same_part_is_said_and_costs_nothing(run):
    asked, table = ("batch", "--manifest", "m.csv", "-o", "o.jsonl"), Path("m.csv")
    table.write_text("id,file,start,end,speaker\nu1,talk.wav,0,1,ann\nu2,talk.wav,1,2,bob\n")
    assert run(*asked).code == 0
    before = lines()
    table.write_text("id,file,start,end,speaker\nu1,talk.wav,0,1,ann\nu2,talk.wav,1,2,carl\n")
    outcome = run(*asked)
    assert "0 captioned" in outcome.err
    assert "another speaker or text of 1 recording" in outcome.err
    assert lines() == before


def test_a_row_of_nemo_with_an_offset_ends_after_its_duration(run):
    """Without an offset its length describes the file, which is read to its end."""
    rows = [{"audio_filepath": "talk.wav", "id": "1", "offset": 0, "duration": 3.0}]
    rows.append({"audio_filepath": "talk.wav", "id": "2", "duration": 3.0})
    Path("m.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    asked = ("batch", "--manifest", "m.jsonl", "-o", "o.jsonl")
    assert run(*asked).code == 0
    assert {line.id: (line.start_s, line.end_s) for line in lines()} == {"1": (0, 3), "2": (None, None)}
    assert "0 captioned  2 done before" in run(*asked).err


# --- a part of a recording ---


def test_a_part_of_a_recording(run):
    assert run("caption", "talk.wav", "--start", "1.5", "--end", "00:00:03", "-o", "o.jsonl").code == 0
    (line,) = lines()
    assert (line.start_s, line.end_s, line.duration_s) == (1.5, 3.0, 1.5)
    assert (line.settings["start_s"], line.settings["end_s"]) == (1.5, 3.0)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [("--start", "99", "talk.wav ends before 99 s"), ("--segment", "31", "31 s, but the models take 30 s")],
)
def test_parts_that_the_recording_or_the_models_do_not_have(run, option, value, said):
    outcome = run("caption", "talk.wav", option, value)
    assert (outcome.code in (1, 2, 3), said in outcome.err, "Traceback" in outcome.err) == (True, True, False)


# --- files of cuts ---


def test_speakers_and_texts_of_a_cuts_file_are_kept(run):
    Path("cuts.csv").write_text("start,end,speaker,text\n0.7,1.5,Ann,你好。\n2.2,3.0,Bo,\n")
    assert run("batch", "talk.wav", "--segment", "cuts.csv", "-o", "o.jsonl").code == 0
    assert places(lines()) == [(0.7, 1.5), (2.2, 3.0)]
    assert [(line.speaker, line.text) for line in lines()] == [("Ann", "你好。"), ("Bo", None)]
    assert lines()[0].settings["segment"].startswith("cuts.csv ")
    Path("cuts.csv").write_text("start,end\n0.7,1.5\n")
    assert "segment was 'cuts.csv" in run("batch", "talk.wav", "--segment", "cuts.csv", "-o", "o.jsonl").err


def test_a_recording_whose_file_in_a_folder_of_cuts_changed_is_captioned_again(run):
    soundfile.write("other.wav", talk(2), RATE)
    asked, folder = ("batch", "talk.wav", "other.wav", "--segment", "cuts", "-o", "o.jsonl"), Path("cuts")
    folder.mkdir()
    (folder / "talk.csv").write_text("start,end,speaker\n0.7,1.5,Ann\n")
    (folder / "other.csv").write_text("start,end\n0.7,1.5\n2.2,3.0\n")
    assert run(*asked).code == 0
    (folder / "another.csv").write_text("start,end\n0.7,1.5\n")  # of a recording of a later run
    assert "0 captioned  2 done before" in run(*asked).err
    for cuts in ("0.7,1.5,Ann\n2.2,3.0,Bo\n", "2.2,3.0,Ann\n3.7,4.5,Bo\n", "0.7,1.6,Ann\n", "0.7,1.6,Bo\n"):
        (folder / "talk.csv").write_text(f"start,end,speaker\n{cuts}")
        assert "1 captioned" in run(*asked).err
        found = [line for line in lines() if line.file == "talk.wav"]
        assert [f"{line.start_s},{line.end_s},{line.speaker}" for line in found] == cuts.split()
        assert "0 captioned  2 done before" in run(*asked).err


def test_a_cut_without_an_end_is_not_said_to_be_shortened(run):
    Path("cuts.csv").write_text("start,end\n0.7,1.5\n2.2,\n")
    outcome = run("caption", "talk.wav", "--segment", "cuts.csv", "-q")
    assert (outcome.code, "it has no end" in outcome.err) == (0, True), outcome.err
    assert "shortened" not in outcome.err
    Path("late.csv").write_text("start,end\n0.7,1.5\n9,\n")
    assert "line 3: 9 s to the end" in run("caption", "talk.wav", "--segment", "late.csv", "-q").err


# --- tables, stdin and manifests ---


def test_a_table_beside_recordings_costs_itself_and_sound_may_have_any_name(run):
    Path("m.csv").write_text("file\ntalk.wav\n")
    assert run("caption", "talk.wav", "m.csv", "-q").code == 1
    assert run("caption", Path("talk.wav").rename("b.csv"), "-q").code == 0


@pytest.mark.parametrize("command", ["caption", "batch"])
def test_the_line_of_what_failed_names_its_place(run, command):
    Path("bad.wav").write_bytes(b"RIFF" + bytes(60))
    Path("m.csv").write_text("file,id,start,end,channel,speaker\nbad.wav,x,0,1,2,ann\ntalk.wav,y,0,0.5,,bob\n")
    assert run(command, "--manifest", "m.csv", "-o", "o.jsonl").code == 1
    (bad,) = [line for line in lines() if line.id == "x"]
    assert (bad.start_s, bad.end_s, bad.channel, bad.speaker) == (0, 1, 2, "ann")
    assert bad.error
    Path("m.csv").write_text("file,id,channel\nbad.wav,x,1\nbad.wav,y,2\n")
    assert run(command, "--manifest", "m.csv", "-o", "p.jsonl").code == 1
    assert not Path("p.jsonl").exists()  # nothing could be opened


@pytest.fixture
def stdin(monkeypatch) -> Stdin:
    """Puts bytes on standard input."""

    def put(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    return put


@pytest.mark.parametrize(("command", "kind"), [("caption", "WAV"), ("batch", "OGG")])
def test_a_recording_on_stdin(run, stdin, command, kind):
    encoded = io.BytesIO()
    soundfile.write(encoded, talk(2), RATE, format=kind)
    stdin(encoded.getvalue())
    assert run(command, "-", "--segment", "pauses", "-o", "o.jsonl").code == 0
    assert [(line.file, line.piece) for line in lines()] == [("-", 0), ("-", 1)]


def test_a_list_on_stdin_is_still_a_list(run, stdin):
    write_voice(Path("a b.wav"), 1, 0.5)
    for listed in (b"a b.wav\n", b"a b.wav\0", b"\xef\xbb\xbfa b.wav\r\n"):
        stdin(listed)
        assert run("caption", "-", "-o", "o.jsonl").code == 0
    assert [line.file for line in lines()] == ["a b.wav"]  # the second run finds it done
