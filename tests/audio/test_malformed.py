"""Files that are refused, each with its error, and what is close to them and taken."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specdec_cli.audio import from_samples, open_recording
from specdec_cli.audio.sound import Sound
from specdec_cli.errors import AudioContentError, AudioError, AudioNotFoundError, TooLongError
from tests.audio.encode import Samples, healthy, load_audio, sndfile_bytes, tone
from tests.audio.malformed import CASES, malformed_files
from tests.audio.test_formats import saved
from tests.tiers import few


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("malformed")
    malformed_files(made, seed=0)
    return made


@pytest.fixture(autouse=True)
def _nothing_is_printed(capfd) -> Iterator[None]:
    yield
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_is_refused_with_its_own_error(case, folder):
    path = folder / case.name
    with pytest.raises(AudioError) as raised:
        load_audio(path)
    assert type(raised.value) is case.expected_error, raised.value.message
    assert path.name in raised.value.message
    assert raised.value.message.endswith(".")
    assert "\n" not in raised.value.message
    assert raised.value.hint


def check(samples: Samples, rate: int = 16000) -> None:
    from_samples(samples.ravel(), rate, rate, math.inf, "clip.wav")


def at(dbfs: float) -> Samples:
    return tone(1.0, amplitude=math.sqrt(2) * 10 ** (dbfs / 20))


@pytest.mark.parametrize(
    ("samples", "fault"),
    [
        (tone(0.0), "too short"),
        (tone(0.0999), "too short"),
        (np.append(tone(1.0), np.float32(np.inf)), "NaN"),
        (tone(1.0, amplitude=20000.0), "full scale"),
        (at(-71.0), "silent"),
        (tone(0.1), None),
        (tone(1.0, amplitude=4.0), None),
        (at(-69.0), None),
        (np.concatenate([tone(15.0) * 0, tone(0.04), tone(15.0) * 0]), None),
    ],
)
def test_samples_with_nothing_to_describe_are_refused(samples, fault):
    with nullcontext() if fault is None else pytest.raises(AudioContentError, match=fault):
        check(samples)


@pytest.mark.parametrize("rate", [11025, 16000, 44100, 48000])
def test_a_constant_offset_is_silence(rate, tmp_path):
    offset = tone(1.0, rate) * 0 + np.float32(0.7)
    with pytest.raises(AudioContentError, match="silent"):
        load_audio(saved(tmp_path, sndfile_bytes(offset, rate, "wav")))
    load_audio(saved(tmp_path, sndfile_bytes(offset + tone(1.0, rate, amplitude=0.01), rate, "wav")))


def test_the_longest_recording(tmp_path, monkeypatch):
    monkeypatch.setattr("specdec_cli.audio.codecs.MAX_DURATION_S", 2.0)
    for extension in ("wav", "flac", "ogg", "mp3", "m4a", "webm", "opus", "aac"):
        load_audio(saved(tmp_path, healthy(extension, 1.5), f"a.{extension}"))
        with pytest.raises(AudioContentError, match=r"too long.*2 s is the most"):
            load_audio(saved(tmp_path, healthy(extension, 2.5), f"b.{extension}"))
        with pytest.raises(AudioContentError, match="too long"):
            open_recording(tmp_path / f"b.{extension}", window_s=1.0, piece_s=1.0)


@pytest.mark.parametrize("extension", few(["wav", "flac", "ogg", "mp3", "m4a", "webm"], 2))
def test_no_more_is_decoded_than_may_be_taken(extension, tmp_path, monkeypatch):
    made: list[Sound] = []

    class Kept(Sound):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr("specdec_cli.audio.reading.Sound", Kept)
    path = saved(tmp_path, healthy(extension, 60.0), f"long.{extension}")
    with pytest.raises(TooLongError, match="lasts longer than 2 s"):
        open_recording(path, window_s=30.0, start_s=1.0, longest_s=2.0)
    assert [0 < each.source.at / each.source.rate < 20 for each in made] == [True]
    assert open_recording(path, window_s=30.0, start_s=1.0, end_s=3.0, longest_s=2.0).duration_s == 2.0


@pytest.mark.parametrize(
    "path", ["", "nul\0byte.wav", "/dev/null", "/dev/zero", "n" * 300 + ".wav", "http://a.b/c.wav"]
)
def test_what_is_no_file_at_all(path):
    with pytest.raises(AudioNotFoundError) as raised:
        load_audio(path)
    assert raised.value.hint
