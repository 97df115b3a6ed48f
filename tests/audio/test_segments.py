from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from specdec_cli.audio import segments
from specdec_cli.errors import AudioContentError, ConfigError
from tests.audio.encode import tone
from tests.audio.test_content import recorded


@pytest.mark.parametrize("seconds", [0.1, 5.0, 30.0])
def test_what_fits_is_one_segment(seconds: float) -> None:
    recording = recorded(tone(seconds))
    (only,) = segments(recording, window_s=30)
    assert (only.start_s, only.end_s, only.silent) == (0.0, seconds, False)
    assert np.array_equal(only.samples, recording.samples)


def test_what_does_not_fit_is_refused_with_both_lengths() -> None:
    with pytest.raises(AudioContentError, match=r"clip\.wav lasts 31\.00 s, but the model reads 30 s") as raised:
        segments(recorded(tone(31.0)), window_s=30)
    assert "--segment SECONDS" in (raised.value.hint or "")


@pytest.mark.parametrize("seconds", [0.5, 9.99, 10.0, 10.0001, 10.4, 19.9, 20.0, 20.3, 61.7])
@pytest.mark.parametrize("segment_s", [0.1, 0.7, 3.0, 10.0])
def test_segments_are_equal_complete_and_never_too_long(seconds: float, segment_s: float) -> None:
    recording = recorded(tone(seconds))
    pieces = segments(recording, window_s=10, segment_s=segment_s)
    assert np.array_equal(np.concatenate([p.samples for p in pieces]), recording.samples)
    lengths = [len(p.samples) for p in pieces]
    assert max(lengths) <= segment_s * 16000 + 1e-6
    assert max(lengths) - min(lengths) <= 1
    assert len(pieces) == 1 or min(lengths) >= segment_s * 16000 / 2 - 1
    assert pieces[0].start_s == 0
    assert pieces[-1].end_s == len(recording.samples) / 16000
    for left, right in pairwise(pieces):
        assert left.end_s == right.start_s
    for piece in pieces:
        assert piece.duration_s == pytest.approx(len(piece.samples) / 16000)


def test_a_short_recording_is_cut_too_when_asked() -> None:
    assert len(segments(recorded(tone(4.0)), window_s=30, segment_s=1)) == 4


def test_a_length_that_fits_needs_no_cut() -> None:
    assert len(segments(recorded(tone(4.0)), window_s=30, segment_s=30)) == 1


@pytest.mark.parametrize("segment_s", [0.0, -1.0, 0.09, float("nan"), float("inf")])
def test_impossible_lengths(segment_s: float) -> None:
    with pytest.raises(ConfigError, match="too short"):
        segments(recorded(tone(4.0)), window_s=30, segment_s=segment_s)


def test_longer_than_the_window() -> None:
    with pytest.raises(ConfigError, match=r"45 s is longer than the 30 s"):
        segments(recorded(tone(60.0)), window_s=30, segment_s=45)


def test_silent_segments_are_marked() -> None:
    samples = tone(9.0)
    samples[3 * 16000 : 6 * 16000] = 0
    assert [p.silent for p in segments(recorded(samples), window_s=30, segment_s=3)] == [False, True, False]
