"""What is longer than the window is refused, or cut while it is decoded."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.audio import Recording, Segment, open_recording
from specdec_cli.errors import AudioContentError, AudioDecodeError
from tests.audio.encode import Samples, healthy, load_audio, sndfile_bytes, tone
from tests.audio.test_formats import saved
from tests.mini_pair import voice


def recorded(
    folder: Path, samples: Samples, window_s: float, segment_s: float | None = None, rate: int = 16000
) -> Recording:
    path = saved(folder, sndfile_bytes(samples, rate, "float.wav"))
    return open_recording(path, window_s=window_s, segment_s=segment_s)


@pytest.mark.parametrize("seconds", [0.1, 5.0, 30.0])
def test_what_fits_is_one_segment(seconds: float, tmp_path: Path) -> None:
    samples = tone(seconds)
    recording = recorded(tmp_path, samples, window_s=30)
    (only,) = recording.pieces()
    assert len(recording.cuts) == 1
    assert (only.start_s, only.end_s, only.fault) == (0.0, seconds, None)
    assert np.array_equal(only.samples, samples[:, 0])


@pytest.mark.parametrize(("window_s", "at_pauses"), [(4.0, False), (30.0, True)])
def test_what_does_not_fit_or_is_to_be_is_cut_at_its_pauses(window_s: float, at_pauses: bool, tmp_path: Path) -> None:
    pause = np.zeros(16000, np.float32)
    path = saved(
        tmp_path,
        sndfile_bytes(np.concatenate([pause, voice(0, 2.0), pause, voice(1, 1.5), pause])[:, None], 16000, "wav"),
    )
    first, second = open_recording(path, window_s=window_s, at_pauses=at_pauses).pieces()
    assert (first.start_s, first.end_s, second.start_s, second.end_s) == pytest.approx((1.0, 3.0, 4.0, 5.5), abs=0.2)
    assert len(open_recording(path, window_s=30.0).cuts) == 1
    with pytest.raises(AudioContentError, match="no utterances between pauses") as raised:
        recorded(tmp_path, tone(31.0), window_s=30)
    assert "audio.segment" in (raised.value.hint or "")


@pytest.mark.parametrize("seconds", [0.5, 9.99, 10.0001, 20.0, 61.7])
@pytest.mark.parametrize("segment_s", [0.1, 0.7, 10.0])
def test_segments_are_equal_complete_and_never_too_long(seconds: float, segment_s: float, tmp_path: Path) -> None:
    samples = tone(seconds)[:, 0]
    recording = recorded(tmp_path, samples[:, None], window_s=10, segment_s=segment_s)
    pieces = list(recording.pieces())
    assert len(pieces) == len(recording.cuts)
    assert np.array_equal(np.concatenate([p.samples for p in pieces]), samples)
    lengths = [len(p.samples) for p in pieces]
    assert max(lengths) <= segment_s * 16000 + 1e-6
    assert max(lengths) - min(lengths) <= 1
    assert len(pieces) == 1 or min(lengths) >= segment_s * 16000 / 2 - 1
    edges = [0.0, *np.cumsum(lengths) / 16000]
    assert [(piece.start_s, piece.end_s) for piece in pieces] == list(pairwise(edges))


@pytest.mark.parametrize("extension", ["wav", "flac", "ogg", "mp3", "m4a", "webm", "opus"])
@pytest.mark.parametrize("rate", [16000, 22050])
def test_pieces_are_slices_of_the_whole(extension: str, rate: int, tmp_path: Path) -> None:
    path = saved(tmp_path, healthy(extension, 20.0))
    whole, _ = load_audio(path, rate)
    recording = open_recording(path, rate, window_s=3.0, segment_s=2.9)
    total = len(whole)
    assert len(recording.cuts) == 7
    assert recording.duration_s == pytest.approx(total / rate, abs=1 / rate)
    for _ in range(2):  # each call decodes again
        for index, piece in enumerate(recording.pieces()):
            assert np.array_equal(piece.samples, whole[total * index // 7 : total * (index + 1) // 7])
        assert piece.end_s == total / rate


def test_threads_may_decode_at_the_same_time(tmp_path: Path) -> None:
    def joined(extension: str) -> Samples:
        recording = open_recording(tmp_path / f"clip.{extension}", window_s=1, segment_s=1)
        return np.concatenate([piece.samples for piece in recording.pieces()])

    extensions = ["wav", "flac", "mp3", "m4a", "webm", "ogg"]
    for extension in extensions:
        saved(tmp_path, healthy(extension, 3.0), f"clip.{extension}")
    saved(tmp_path, b"OggS" + bytes(5000), "clip.bad.ogg")
    alone = {extension: joined(extension) for extension in extensions}
    with ThreadPoolExecutor(8) as pool:
        futures = [(extension, pool.submit(joined, extension)) for _ in range(6) for extension in extensions]
        damaged = [pool.submit(joined, "bad.ogg") for _ in range(6)]
    assert all(np.array_equal(future.result(), alone[extension]) for extension, future in futures)
    assert all(isinstance(future.exception(), AudioDecodeError) for future in damaged)


def test_a_recording_that_fits_is_not_decoded_again(tmp_path: Path) -> None:
    recording = recorded(tmp_path, tone(4.0), window_s=30, segment_s=1)
    Path(recording.path).unlink()
    assert len(recording.cuts) == len(list(recording.pieces())) == 4


def test_a_file_that_changes_between_the_passes(tmp_path: Path) -> None:
    recording = recorded(tmp_path, tone(4.0), window_s=1, segment_s=1)
    pieces = recording.pieces()
    assert isinstance(next(pieces), Segment)
    pieces.close()
    os.utime(recording.path, ns=(1, 1))
    with pytest.raises(AudioDecodeError, match="has changed"):
        next(recording.pieces())


@pytest.mark.parametrize("window_s", [3.0, 30.0])
def test_silent_segments_are_marked(window_s: float, tmp_path: Path) -> None:
    samples = tone(9.0)
    samples[3 * 16000 : 6 * 16000] = 0
    first, second, third = recorded(tmp_path, samples, window_s=window_s, segment_s=3).pieces()
    assert (first.fault, third.fault) == (None, None)
    assert "from 3.00 s to 6.00 s is silent" in str(second.fault)
