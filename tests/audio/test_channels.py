"""Channels: each of a call by itself, and cuts that name them or leave the recording."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.audio import AudioPiece, Cut, Recording, open_recording
from specdec_cli.errors import CutsError
from tests.audio.encode import healthy, tone
from tests.audio.files import REMARK, SILENT, TONE, together
from tests.audio.test_recordings import saved
from tests.mini_pair import RATE, voice


def read(folder: Path, data: bytes, **settings: object) -> Recording:
    return open_recording(saved(folder, data), window_s=30.0, **settings)


def test_a_second_of_a_speaker_in_minutes_is_no_silence(tmp_path):
    long = np.concatenate([TONE] * 60)
    once = np.concatenate([SILENT] * 59 + [REMARK])
    assert read(tmp_path, together(long, once), piece_s=30.0).warnings == ()


def call() -> bytes:
    """Two people who take turns on a channel each: 0.5 to 2.5 s, 3.5 to 5.5 s; the second is soft on the first's."""
    pause, turns = np.zeros(RATE, np.float32), [voice(0, 2.0), voice(1, 2.0)]
    quiet = np.zeros(2 * RATE, np.float32)
    first = np.concatenate([pause[: RATE // 2], turns[0], pause, quiet, pause])
    second = np.concatenate([pause[: RATE // 2], quiet, pause, turns[1], pause])
    return together(first[:, None], second[:, None])


def test_each_speaker_of_a_call_gets_the_own_turns(tmp_path):
    path = saved(tmp_path, call())
    for window_s in (30.0, 3.0):
        found = open_recording(path, window_s=window_s, channel="each").spans
        assert [(cut.speaker, cut.channel) for cut in found] == [("channel 1", 0), ("channel 2", 1)]
        assert [(cut.start_s, cut.end_s) for cut in found] == [
            pytest.approx((0.5, 2.5), abs=0.2),
            pytest.approx((3.5, 5.5), abs=0.2),
        ]
    equal = open_recording(path, window_s=30.0, channel="each", piece_s=7.0)
    assert [(cut.start_s, cut.channel) for cut in equal.spans] == [(0.0, 0), (0.0, 1)]


def test_each_leaves_out_what_says_nothing(tmp_path):
    talk = np.concatenate([np.zeros(RATE), voice(0, 2.0), np.zeros(RATE)]).astype(np.float32)[:, None]
    steady = np.resize(TONE, talk.shape)
    for second, said in (
        (0 * talk, "nothing can be heard on channel 2, left out"),
        (talk, "channels 1 and 2 hold the same"),
        (steady, "has no utterances between pauses on channel 2"),
    ):
        recording = read(tmp_path, together(talk, second), channel="each")
        assert [cut.channel for cut in recording.spans] == [0]
        assert said in recording.warnings[0]
    surround = read(tmp_path, together(0 * talk, 0 * talk, talk, talk, 0 * talk, 0 * talk), channel="each")
    assert [cut.channel for cut in surround.spans] == [2]  # channel 4 is for low frequencies


def test_a_channel_is_read_by_cuts_or_by_setting(tmp_path):
    path = saved(tmp_path, together(TONE, tone(2.0, hz=660.0)))

    def heard(found: Iterable[AudioPiece]) -> list[tuple[str | None, int | None, float]]:
        hz = [(one, np.argmax(np.abs(np.fft.rfft(one.samples))) * RATE / len(one.samples)) for one in found]
        return [(one.speaker, one.channel, round(at)) for one, at in hz]

    def pieces(**settings: object) -> list[tuple[str | None, int | None, float]]:
        return heard(open_recording(path, window_s=30.0, **settings).pieces())

    assert pieces(channel=2) == [(None, 1, 660)]
    assert pieces(channel="each", piece_s=1.0) == 2 * [("channel 1", 0, 440), ("channel 2", 1, 660)]
    cuts = [Cut(0.0, 1.0, "ann", channel=0), Cut(0.0, 1.0, "bob", channel=1), Cut(1.0, 2.0)]
    assert pieces(cuts=cuts)[:2] == [("ann", 0, 440), ("bob", 1, 660)]
    assert pieces(cuts=cuts, channel=2)[2] == (None, 1, 660)
    assert pieces(cuts=cuts, channel="each")[2:] == [("channel 1", 0, 440), ("channel 2", 1, 660)]
    with pytest.raises(CutsError, match="has 2 channels; there is no channel 3"):
        pieces(channel=3)
    with pytest.raises(CutsError, match="has 65 channels, and at most 64 can each be a speaker"):
        open_recording(saved(tmp_path, together(*65 * [TONE]), "many.wav"), window_s=30.0, channel="each")
    recording = open_recording(path, window_s=30.0, cuts=[*cuts, Cut(0.0, 2.0, channel=2)])
    assert len(recording.spans) == 3
    assert "1 cut is on a channel that it lacks" in recording.warnings[0]


def test_a_recording_of_one_channel_is_read_for_any(tmp_path):
    mono = healthy("wav")
    told = read(tmp_path, mono, channel=2).warnings[0]
    assert "has one channel, which is read in place of channel 2" in told
    several = read(tmp_path, mono, cuts=[Cut(0.0, 0.5, channel=0), Cut(0.5, 1, channel=1)])
    assert [cut.channel for cut in several.spans] == [None, None]
    (told,) = several.warnings
    assert "2 cuts are on one of several channels, but it has one channel, which is read (0 s to 0.5 s; " in told
    assert read(tmp_path, mono, cuts=[Cut(0.0, 0.5, channel=0)]).warnings == ()
    assert read(tmp_path, mono, channel="each").whole


@pytest.mark.parametrize(
    ("cuts", "kept", "told"),
    [
        (
            [Cut(0, 1), Cut(3, 4.3)],
            [(0, 1), (3, 4)],
            "1 cut is shortened to its sound from 0.00 s to 4.00 s (3 s to 4.3 s)",
        ),
        ([Cut(0, 1), Cut(3, 4.05)], [(0, 1), (3, 4)], ""),
        ([Cut(0, 1), Cut(9, 10, place="a.rttm, line 2")], [(0, 1)], "left out (a.rttm, line 2: 9 s to 10 s)"),
        ([Cut(0, 1), *(Cut(5 + n, 6 + n) for n in range(5))], [(0, 1)], "5 cuts are outside"),
        ([Cut(0, 1), *(Cut(5 + n, 6 + n) for n in range(5))], [(0, 1)], "7 s to 8 s; and 2 more)"),
        ([Cut(0, 1), Cut(3.95, 4.5)], [(0, 1)], "1 cut is outside"),
    ],
)
def test_cuts_beyond_the_recording(cuts, kept, told, tmp_path):
    recording = read(tmp_path, healthy("wav", 4.0), cuts=cuts)
    assert [(cut.start_s, cut.end_s) for cut in recording.spans] == kept
    assert told in " ".join(recording.warnings)
    assert bool(told) == bool(recording.warnings)


def test_cuts_and_the_part(tmp_path):
    data = healthy("wav", 4.0)
    recording = read(tmp_path, data, cuts=[Cut(0, 1), Cut(1, 2), Cut(3, 4)], start_s=1.5, end_s=3.5)
    assert [(cut.start_s, cut.end_s) for cut in recording.spans] == [(1.5, 2.0), (3.0, 3.5)]
    assert len(recording.warnings) == 2
    with pytest.raises(CutsError, match=r"1 cut is outside of its sound from 1\.20 s to 4\.00 s"):
        read(tmp_path, data, cuts=[Cut(0, 1)], start_s=1.2)
    with pytest.raises(CutsError, match="1 cut is longer than the 30 s"):
        read(tmp_path, healthy("wav", 40.0), cuts=[Cut(0, 35)])
