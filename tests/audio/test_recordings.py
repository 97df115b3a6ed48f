"""Recordings of every format, whole or not: what is read of each, and what is said."""

import hashlib
import math
import os
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.audio import Cut, Recording, from_samples, open_recording
from specdec_cli.audio.sound import ExcerptSound
from specdec_cli.errors import (
    AudioContentError,
    AudioDecodeError,
    AudioError,
    AudioNotFoundError,
    CutsError,
    TooLongError,
)
from specdec_cli.inputs.find import all_unreadable
from specdec_cli.inputs.recording import InputFile
from tests.audio.encode import FFMPEG, SNDFILE, Samples, clocked, ffmpeg_bytes, healthy, load_audio, sndfile_bytes, tone
from tests.audio.files import PLACES, READ, REFUSED, Refused, refused_files
from tests.audio.test_fuzz_recordings import plainly_decoded_s
from tests.tiers import few, named

NO_LENGTH = ("aac", "avi", "webm", "caf", "w64", "sf.opus", "opus", "ogg")  # whose headers say nothing of a cut
FAST = [name for name in READ if "of a pipe, " not in name and " before " not in name]


@pytest.fixture(autouse=True)
def _nothing_is_printed(capfd) -> Iterator[None]:
    yield
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def saved(folder: Path, data: bytes, name: str = "clip.wav") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def assert_is_the_tone(loaded: tuple[Samples, Recording], tolerance: float = 0.07) -> None:  # LAME scales by 0.95
    samples, recording = loaded
    middle = samples[3200:9600].astype(np.float64)
    assert (samples.dtype, samples.ndim) == (np.float32, 1)
    assert len(samples) == round(recording.duration_s * recording.sampling_rate)
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert np.argmax(spectrum) * 16000 / len(middle) == pytest.approx(440, abs=3)
    assert np.sqrt(np.square(middle).mean()) == pytest.approx(0.3 / np.sqrt(2), rel=tolerance)


@pytest.mark.parametrize("name", named(READ, *FAST))
def test_it_is_read(name, tmp_path):
    case, path = READ[name], tmp_path / name.replace("/", " ")
    path.write_bytes(case.make())
    assert not all_unreadable([InputFile(str(path))])
    samples, recording = loaded = load_audio(path)
    if case.mixed is None:
        assert_is_the_tone(loaded)
    else:
        assert np.allclose(samples, case.mixed[:, 0], atol=1e-4)
    assert recording.duration_s == pytest.approx(case.seconds, abs=case.within_s)
    assert case.said in " ".join(recording.warnings)
    assert bool(case.said) == bool(recording.warnings)
    assert recording.path == str(path)
    assert recording.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert recording.decode_s > 0
    last = open_recording(path, window_s=math.inf, start_s=recording.duration_s - 0.5)
    assert last.duration_s == pytest.approx(0.5, abs=0.01)
    pieces = list(open_recording(path, window_s=1.0, piece_s=0.9).pieces())  # is read again for them
    edges = [len(samples) * index // len(pieces) for index in range(len(pieces) + 1)]
    assert [len(piece.samples) for piece in pieces] == [end - start for start, end in pairwise(edges)]
    assert np.array_equal(np.concatenate([piece.samples for piece in pieces]), samples)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("refused")
    refused_files(made)
    return made


@pytest.mark.parametrize("name", [*REFUSED, *PLACES])
def test_it_is_refused_with_its_own_error(name, folder):
    case = REFUSED.get(name) or Refused(bytes, AudioNotFoundError)
    with pytest.raises(AudioError) as raised:
        load_audio(folder / name)
    message = raised.value.message
    assert type(raised.value) is case.error, message
    assert case.said in message
    assert Path(name).name in message
    assert message.endswith(".")
    assert "\n" not in message
    assert raised.value.hint


@pytest.mark.parametrize(
    "path", ["", "nul\0byte.wav", "/dev/null", "/dev/zero", "n" * 300 + ".wav", "http://a.b/c.wav"]
)
def test_what_is_no_file_at_all(path):
    with pytest.raises(AudioNotFoundError) as raised:
        load_audio(path)
    assert raised.value.hint


@pytest.mark.parametrize("percent", few([60, 20, 97]))
@pytest.mark.parametrize("extension", [*SNDFILE, *FFMPEG])
def test_of_a_cut_file_all_that_is_there_is_read_and_it_is_told(extension, percent, tmp_path):
    data = healthy(extension, 4.0)
    path = saved(tmp_path, data[: len(data) * percent // 100 + 1], f"cut.{extension}")
    if plainly_decoded_s(path) < 0.1:
        with pytest.raises(AudioDecodeError):
            open_recording(path, window_s=30.0)
        return
    recording = open_recording(path, window_s=30.0)
    assert recording.duration_s >= plainly_decoded_s(path) - 0.1
    if recording.duration_s < 2.9 and extension not in NO_LENGTH:
        assert "cut short" in " ".join(recording.warnings)
    assert recording.duration_s == pytest.approx(4.0 * percent / 100, abs=1.0)


@pytest.mark.parametrize("extension", ["flac", "24.flac"])
def test_what_follows_a_damaged_frame_of_flac_keeps_its_time(extension, tmp_path):
    data = bytearray(healthy(extension, 8.0))
    data[len(data) // 2] ^= 4
    samples, recording = load_audio(saved(tmp_path, bytes(data)))
    intact, _ = load_audio(saved(tmp_path, healthy(extension, 8.0)))
    assert recording.duration_s == 8.0
    differs = np.flatnonzero(np.abs(samples - intact) > 1e-3)
    assert 0 < differs[-1] - differs[0] < 16000
    assert np.abs(samples).max() < 0.31  # no frame with a wrong checksum is played


@pytest.mark.parametrize("extension", ["alac.m4a", "mka"])
def test_lossless_codecs_through_ffmpeg_are_exact(extension, tmp_path):
    samples = tone(1.0, amplitude=0.9)
    loaded, _ = load_audio(saved(tmp_path, ffmpeg_bytes(samples, 16000, extension)))
    assert np.abs(loaded - samples[:, 0]).max() < 1e-4


@pytest.mark.parametrize("extension", ["u8.wav", "pcm24.wav", "pcm32.wav", "double.wav", "ulaw.wav", "flac", "24.flac"])
def test_libsndfile_and_ffmpeg_give_the_same_samples(extension, tmp_path):
    rng = np.random.default_rng(0)
    noise = rng.uniform(-0.9, 0.9, (48000, 1)).astype(np.float32)
    data = sndfile_bytes(noise, 16000, extension)
    exact, _ = load_audio(saved(tmp_path, data))
    by_ffmpeg, _ = load_audio(saved(tmp_path, data + b"\0" * 1_000_000))  # so much padding is no header's
    assert np.array_equal(exact, by_ffmpeg)


@pytest.mark.parametrize("extension", ["wav", "flac", "m4a"])
def test_the_name_does_not_matter(extension, tmp_path):
    for name in ("clip.raw", "-", "http:clip.mp3", "line\nbreak.wav", "声音.m4a", os.fsdecode(b"\xff\xfe.m4a")):
        assert_is_the_tone(load_audio(saved(tmp_path, healthy(extension), name)))


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_rates_keep_pitch_level_and_length(rate, tmp_path):
    samples, recording = load_audio(saved(tmp_path, sndfile_bytes(tone(1.0, rate), rate, "wav")))
    assert_is_the_tone((samples, recording), tolerance=1e-3)
    assert len(samples) == 16000


CLOCKS = [("matroska", "libopus"), ("mp4", "aac"), ("matroska", "pcm_s16le"), ("matroska", "flac")]


@pytest.mark.parametrize(("container", "codec"), few(CLOCKS))
def test_times_count_from_the_start_of_the_file(container, codec, tmp_path):
    path = saved(tmp_path, clocked(container, codec, [3.0, 4.0], picture=True))
    recording = open_recording(path, window_s=30.0)
    (piece,) = recording.pieces()
    assert (piece.start_s, piece.end_s) == pytest.approx((3.0, 5.0), abs=0.1)
    assert (recording.whole, recording.total_s) == (False, pytest.approx(5.0, abs=0.1))
    assert "no sound before" in " ".join(recording.warnings)
    cut = open_recording(path, window_s=30.0, cuts=[Cut(3.5, 4.5)])
    part = open_recording(path, window_s=30.0, start_s=3.5)
    assert (cut.spans[0].start_s, part.spans[0].start_s) == (3.5, 3.5)
    assert part.duration_s == pytest.approx(1.5, abs=0.1)
    with pytest.raises(CutsError, match="1 cut is outside of its sound"):
        open_recording(path, window_s=30.0, cuts=[Cut(0.5, 2.5)])


@pytest.mark.parametrize(("container", "codec"), few([("ogg", "libopus"), *CLOCKS]))
def test_a_sound_track_is_chosen_and_the_choice_is_told(container, codec, tmp_path):
    def strongest(recording: Recording) -> float:
        (piece,) = recording.pieces()
        return float(np.argmax(np.abs(np.fft.rfft(piece.samples))) * 16000 / len(piece.samples))

    path = saved(tmp_path, clocked(container, codec, [0.0], tracks=2))
    first = open_recording(path, window_s=30.0)
    assert "2 sound tracks, and track 1 is read" in " ".join(first.warnings)
    assert strongest(first) == pytest.approx(440, abs=3)
    second = open_recording(path, window_s=30.0, track=2)
    assert (strongest(second), second.warnings) == (pytest.approx(880, abs=3), ())
    with pytest.raises(CutsError, match="has 2 sound tracks; there is no track 3"):
        open_recording(path, window_s=30.0, track=3)


@pytest.mark.parametrize("extension", ["wav", "flac", "mp3"])
def test_a_file_that_changes_in_the_first_pass_is_refused(extension, tmp_path, monkeypatch):
    path = saved(tmp_path, healthy(extension, 3.0))

    def rewritten(*_: object) -> str:
        path.write_bytes(healthy(extension, 2.0))
        return "digest of other bytes"

    monkeypatch.setattr("specdec_cli.audio.recordings.sha256", rewritten)
    with pytest.raises(AudioDecodeError, match="has changed"):
        open_recording(path, window_s=30.0)


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
        (tone(1.0, amplitude=0.01) + np.float32(0.7), None),
        (np.concatenate([tone(15.0) * 0, tone(0.04), tone(15.0) * 0]), None),
    ],
)
def test_samples_with_nothing_to_describe_are_refused(samples, fault):
    with nullcontext() if fault is None else pytest.raises(AudioContentError, match=fault):
        from_samples(samples.ravel(), 16000, 16000, math.inf, "clip.wav")


def test_the_longest_recording(tmp_path, monkeypatch):
    monkeypatch.setattr("specdec_cli.audio.decode.MAX_DURATION_S", 2.0)
    for extension in ("wav", "flac", "ogg", "mp3", "m4a", "webm", "opus", "aac"):
        load_audio(saved(tmp_path, healthy(extension, 1.5), f"a.{extension}"))
        with pytest.raises(AudioContentError, match=r"too long.*2 s is the most"):
            load_audio(saved(tmp_path, healthy(extension, 2.5), f"b.{extension}"))
        with pytest.raises(AudioContentError, match="too long"):
            open_recording(tmp_path / f"b.{extension}", window_s=1.0, piece_s=1.0)


@pytest.mark.parametrize("extension", few(["wav", "flac", "ogg", "mp3", "m4a", "webm"], 2))
def test_no_more_is_decoded_than_may_be_taken(extension, tmp_path, monkeypatch):
    made, start = list[ExcerptSound](), ExcerptSound.__init__
    monkeypatch.setattr(ExcerptSound, "__init__", lambda sound, *given: made.append(sound) or start(sound, *given))
    path = saved(tmp_path, healthy(extension, 60.0), f"long.{extension}")
    with pytest.raises(TooLongError, match="lasts longer than 2 s"):
        open_recording(path, window_s=30.0, start_s=1.0, longest_s=2.0)
    assert [0 < each.source.at / each.source.rate < 20 for each in made] == [True]
    assert open_recording(path, window_s=30.0, start_s=1.0, end_s=3.0, longest_s=2.0).duration_s == 2.0
