"""`specdec listen`, with a microphone that plays a file: captions as utterances end, and what may go wrong."""

import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.audio import sounddevice
from tests.audio.encode import load_audio
from tests.cli.conftest import specdec
from tests.mini_pair import RATE, voice
from tests.support.transcripts import read_transcripts

__all__ = ["specdec"]

QUICK = ("--mode", "edge", "--set", "decoding.max_new_tokens=8", "-l", "en")
PAUSE = np.zeros(RATE, np.float32)


@pytest.fixture(autouse=True)
def microphone(tmp_path, monkeypatch) -> Path:
    """Three utterances of 1.2 s, a second apart; returns the file that is played."""
    path = tmp_path / "talk.wav"
    parts = [part for seed in range(3) for part in (PAUSE, voice(seed, 1.2))]
    soundfile.write(path, np.concatenate([*parts, PAUSE]), RATE)
    monkeypatch.setitem(sys.modules, "sounddevice", sounddevice)
    monkeypatch.setattr(sounddevice, "PLAYED", sounddevice.Played(path))
    return path


def test_a_caption_per_utterance_until_ctrl_c(specdec):
    output = Path("talk.jsonl")
    outcome = specdec("listen", *QUICK, "-o", output, ends=0)
    lines = list(read_transcripts(output))
    assert outcome.lines == [f"{line.start_s:.2f}\t{line.end_s:.2f}\t{line.caption}" for line in lines]
    for number, line in enumerate(lines):
        begin = 1.0 + number * 2.2
        assert (line.start_s, line.end_s) == pytest.approx((begin, begin + 1.2), abs=0.3)
        assert line.measured is not None
        assert line.agrees is not None
    assert len({line.file for line in lines}) == 1
    assert lines[0].file.startswith("microphone-")
    assert "listening to Desk " in outcome.err
    assert "\x1b" not in outcome.err
    assert outcome.err.count(" after the end of the utterance") == 3


def test_a_session_stands_beside_what_the_output_holds(specdec, microphone):
    output = Path("talk.jsonl")
    assert specdec("listen", *QUICK, "-o", output).code == 0
    before = list(read_transcripts(output))
    assert specdec("batch", microphone, "-o", output, *QUICK, "--overwrite").code == 0  # with other lines, and
    output.write_text("".join(f"{line.to_json()}\n" for line in [*before, *read_transcripts(output)]), "utf-8")
    again = specdec("batch", microphone, "-o", output, *QUICK)
    assert "1 done before" in again.err, again.err
    assert [line.start_s for line in read_transcripts(output)][: len(before)] == [line.start_s for line in before]
    assert specdec("export", output, "-o", "talk.csv").code == 0
    assert len(Path("talk.csv").read_text().splitlines()) == len(before) + 2


def test_a_session_is_one_recording_in_the_formats_of_other_tools(specdec):
    assert specdec("listen", *QUICK, "-o", "talk.srt").code == 0
    assert Path("talk.srt").read_text("utf-8").count(" --> ") == 3
    several = specdec("listen", *QUICK, "-o", "new.srt", "--save", "kept")
    assert (several.code, "holds one recording" in several.err) == (2, True)


def test_captions_made_otherwise_are_not_mixed_in(specdec):
    output = Path("talk.jsonl")
    assert specdec("listen", *QUICK, "-o", output).code == 0
    content = output.read_bytes()
    other = specdec("listen", *QUICK, "-o", output, "--set", "decoding.k=3")
    assert (other.code, "talk.jsonl:1 was made with other settings: k was " in other.err) == (2, True)
    output.write_bytes(content + (damaged := b'{"schema":1,"file":"a"}\n'))
    refused = specdec("listen", *QUICK, "-o", output)
    assert (refused.code, "talk.jsonl:4 is not a transcript" in refused.err) == (2, True)
    assert output.read_bytes() == content + damaged


def test_utterances_are_kept_as_files_that_can_be_captioned_again(specdec):
    output, folder = Path("talk.jsonl"), Path("kept/today")
    printed = specdec("listen", *QUICK, "-o", output, "--save", folder, "--json", "--device", "1")
    lines = list(read_transcripts(output))
    assert printed.lines == [line.to_json() for line in lines]
    assert [round(line.duration_s or 0.0) for line in lines] == [1, 1, 1]
    assert [line.file for line in lines] == [str(path) for path in sorted(folder.iterdir())]
    assert [line.sha256 for line in lines] == [load_audio(line.file)[1].sha256 for line in lines]
    specdec("batch", folder, "-o", output, *QUICK, ends=0)
    assert list(read_transcripts(output)) == lines


def test_without_a_folder_no_sound_is_kept(specdec, tmp_path, microphone):
    specdec("listen", *QUICK, "-o", "talk.jsonl", ends=0)
    assert {path.name for path in tmp_path.iterdir()} == {microphone.name, "talk.jsonl"}


def test_coughs_may_be_left_out(specdec, microphone):
    tone = 0.2 * np.sin(2 * np.pi * 440 / RATE * np.arange(RATE, dtype=np.float32))
    soundfile.write(microphone, np.concatenate([PAUSE, tone, PAUSE, voice(0, 1.2), PAUSE]), RATE)
    flags = {}
    for how in ("mark", "refuse"):
        specdec("listen", *QUICK, "-o", f"{how}.jsonl", "--set", f"audio.no_speech={how}")
        flags[how] = [line.flags for line in read_transcripts(Path(f"{how}.jsonl")) if line.caption]
    assert [("no_speech" in each) for each in flags["mark"]] == [True, False]
    assert [("no_speech" in each) for each in flags["refuse"]] == [False]


def test_lost_sound_is_told_and_marked(specdec):
    vars(sounddevice.PLAYED).update(lost_at={70})  # 3.5 s: in the second utterance
    output = Path("talk.jsonl")
    outcome = specdec("listen", *QUICK, "-o", output, ends=0)
    assert outcome.err.count("Sound was lost in this utterance") == 1
    assert [bool(line.warnings) for line in read_transcripts(output)] == [False, True, False]


def test_a_microphone_that_goes_ends_it_with_what_was_captioned(specdec):
    vars(sounddevice.PLAYED).update(gone_at=90)
    output = Path("talk.jsonl")
    outcome = specdec("listen", *QUICK, "-o", output, ends=3)
    assert "delivers no sound any more" in outcome.err
    assert len(list(read_transcripts(output))) == 2


def test_microphones_are_listed(specdec):
    outcome = specdec("listen", "--device", "list")
    assert outcome.lines == ["  1  Desk \\x1b[31mmicrophone  (default)", "  2  Headset"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--device", "studio"), 3, "There is no microphone 'studio': No input device matching"),
        (("--device", "9"), 3, "There is no microphone '9'"),
        (("--device", "e"), 3, "Multiple input devices"),
        (("--save", "talk.wav"), 2, "is not a folder"),
        (("-o", "talk.wav"), 2, "holds something other than transcripts"),
    ],
)
def test_what_cannot_work_is_refused_before_loading(specdec, arguments, code, said):
    outcome = specdec("listen", *arguments, loads=False)
    assert (outcome.code, said in outcome.err) == (code, True), outcome.err


def test_what_is_not_installed_or_taken_is_told(specdec, monkeypatch):
    vars(sounddevice.PLAYED).update(refused="Device unavailable [PaErrorCode -9985]")
    outcome = specdec("listen", *QUICK, ends=3)
    assert "cannot be opened: Device unavailable" in outcome.err
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    outcome = specdec("listen", *QUICK, ends=2)
    assert "pip install 'specdec-cli[listen]' (in a clone: pip install -e '.[listen]')" in outcome.err
