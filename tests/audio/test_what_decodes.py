"""A recording is as long as what decodes, on the clock of its file; what is missing is told."""

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile

from specdec_cli.audio import Cut, Recording, open_recording
from specdec_cli.errors import AudioDecodeError, CutsError
from tests.audio.encode import (
    FFMPEG,
    SNDFILE,
    Samples,
    healthy,
    load_audio,
    sndfile_bytes,
    tone,
    video_bytes,
    wav_bytes,
)
from tests.audio.malformed import flac_claiming
from tests.audio.test_formats import saved
from tests.audio.test_fuzz_recordings import plainly_decoded_s
from tests.tiers import few

PCM = (tone(4.0) * 32767).astype("<i2").tobytes()
ID3 = b"ID3\x04\0\0\0\0\2\0" + bytes(256)
NO_LENGTH = ("aac", "avi", "webm")  # those whose header says nothing of a cut


def recorded(folder: Path, data: bytes, **settings: object) -> Recording:
    return open_recording(saved(folder, data), window_s=30.0, **settings)


def of_libsndfile(container: str, seconds: float = 4.0) -> bytes:
    target = io.BytesIO()
    soundfile.write(target, tone(seconds), 16000, "PCM_16", format=container)
    return target.getvalue()


@pytest.mark.parametrize("container", ["NIST", "VOC", "avi"])
def test_old_containers_that_are_cut_are_told(container, tmp_path):
    data = healthy("avi", 4.0) if container == "avi" else of_libsndfile(container)
    assert recorded(tmp_path, data).warnings == ()
    cut = recorded(tmp_path, data[: len(data) // 2])
    assert cut.duration_s == pytest.approx(2.0, abs=0.2)
    assert "cut short" in cut.warnings[0]


TAGS = {
    "an APE tag": b"APETAGEX" + bytes(24) + bytes(range(256)) * 300 + b"APETAGEX" + bytes(24),
    "Lyrics3 and ID3v1": b"LYRICSBEGIN" + b"x" * 300 + b"000311LYRICS200" + b"TAG" + bytes(125),
    "an ID3 tag": ID3,
    "zeros": bytes(60_000),
    "a web page": b"<html><body>gone</body></html>" * 20,
}


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("extension", ["mp3", "sf.mp3", "flac", "ogg", "opus", "wav"])
def test_what_stands_behind_the_sound_is_no_damage(extension, tag, tmp_path):
    sound = healthy(extension, 4.0)
    recording = recorded(tmp_path, sound + TAGS[tag])
    assert recording.warnings == ()
    assert recording.duration_s == pytest.approx(recorded(tmp_path, sound).duration_s, abs=0.1)


def test_a_header_that_counts_next_to_nothing_is_called_wrong(tmp_path):
    with pytest.raises(AudioDecodeError, match=r"its header counts 0.003 s, and about 4.0 s more may follow"):
        recorded(tmp_path, wav_bytes(PCM, 100))


@pytest.mark.parametrize("percent", [20, 60, 97])
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


@pytest.mark.parametrize(
    ("data", "seconds", "told"),
    [
        (wav_bytes(PCM, len(PCM) + 2), 4.0, ""),
        (wav_bytes(PCM, 1 << 30), 4.0, "cut short"),
        (flac_claiming(48000), 1.0, "cut short: it ends after 1.0 of 3.0 s"),
        (wav_bytes(PCM, len(PCM) // 2), 2.0, "counts 2.0 s, but the file has room for about 2.0 s more"),
        (wav_bytes(PCM, len(PCM) // 2, riff=len(PCM) // 2 + 36), 2.0, "about 2.0 s more"),
        (wav_bytes(PCM[: len(PCM) // 2], after=b"LIST" + (90000).to_bytes(4, "little") + bytes(90000)), 2.0, ""),
        (flac_claiming(4000, 4.0), 4.0, ""),
    ],
)
def test_headers_are_hints(data, seconds, told, tmp_path):
    recording = recorded(tmp_path, data)
    assert recording.duration_s == pytest.approx(seconds, abs=0.01)
    assert told in " ".join(recording.warnings)
    assert bool(told) == bool(recording.warnings)


def caf_of_unknown_size() -> bytes:
    data = healthy("caf", 4.0)
    at = data.index(b"data") + 4
    return data[:at] + b"\xff" * 8 + data[at + 8 :]


JOINED: dict[str, Callable[[], bytes]] = {
    "ogg": lambda: healthy("ogg", 2.0) + healthy("ogg", 2.0, 0.2),
    "opus": lambda: healthy("opus", 2.0) + healthy("opus", 2.0, 0.2),
    "libsndfile's opus": lambda: healthy("sf.opus", 2.0) + healthy("sf.opus", 2.0, 0.2),
    "mp3": lambda: healthy("mp3", 2.0) + healthy("mp3", 2.0),
    "tagged mp3": lambda: ID3 + healthy("mp3", 2.0) + ID3 + healthy("mp3", 2.0),
    "flac": lambda: healthy("flac", 2.0) + healthy("flac", 2.0, 0.2),
    "wav behind a tag": lambda: ID3 + healthy("wav", 4.0),
    "aiff behind a tag": lambda: ID3 + healthy("aiff", 4.0),
    "wav behind two tags": lambda: ID3 + ID3 + healthy("wav", 4.0),
    "caf of unknown size": caf_of_unknown_size,
    "rf64": lambda: healthy("rf64", 4.0),
}


@pytest.mark.parametrize("name", JOINED)
def test_joined_tagged_and_endless_files_are_read_to_the_end(name, tmp_path):
    recording = recorded(tmp_path, JOINED[name]())
    assert recording.duration_s == pytest.approx(4.0, abs=0.2)
    last = recorded(tmp_path, JOINED[name](), start_s=3.0)
    assert last.duration_s == pytest.approx(1.0, abs=0.2)


def clocked(container: str, codec: str, at_s: list[float], *, picture: bool = False, tracks: int = 1) -> bytes:
    """A second of sound at each of some times, and perhaps a picture from the start; later tracks are an octave up."""
    target, rate = io.BytesIO(), 48000
    with av.open(target, "w", format=container) as output:
        video = output.add_stream("mpeg4", rate=10) if picture else None
        if video is not None:
            video.width, video.height, video.pix_fmt = 32, 32, "yuv420p"
        streams = [output.add_stream(codec, rate=rate, layout="mono") for _ in range(tracks)]
        for _ in range(10) if video else ():
            output.mux(video.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")))
        for number, stream in enumerate(streams):
            context, sound = stream.codec_context, tone(1.0, rate, 440.0 * 2**number)
            step = context.frame_size or 1024
            for start_s in at_s:
                for begin in range(0, rate - step + 1, step):
                    piece = np.ascontiguousarray(sound[begin : begin + step].T)
                    frame = av.AudioFrame.from_ndarray(piece, format="fltp", layout="mono")
                    frame.sample_rate, frame.pts = rate, round(start_s * rate) + begin
                    for each in av.AudioResampler(context.format, "mono", rate, step).resample(frame):
                        each.pts = frame.pts
                        output.mux(stream.encode(each))
            output.mux(stream.encode(None))
        if video is not None:
            output.mux(video.encode(None))
    return target.getvalue()


CLOCKS = [("matroska", "libopus"), ("mp4", "aac"), ("webm", "libopus"), ("matroska", "pcm_s16le"), ("matroska", "flac")]


@pytest.mark.parametrize(("container", "codec"), few(CLOCKS, 2))
def test_silence_fills_a_gap(container, codec, tmp_path):
    samples, recording = load_audio(saved(tmp_path, clocked(container, codec, [0.0, 4.0])))
    assert recording.duration_s == pytest.approx(5.0, abs=0.1)
    assert np.abs(samples[16000 * 2 : 16000 * 3]).max() < 1e-4 < np.abs(samples[-8000:]).max()
    assert "no sound for 3.0 s" in recording.warnings[0]
    assert not open_recording(saved(tmp_path, clocked(container, codec, [0.0, 1.0])), window_s=30.0).warnings


@pytest.mark.parametrize(("container", "codec"), few(clock for clock in CLOCKS if clock[0] != "webm"))
def test_times_count_from_the_start_of_the_file(container, codec, tmp_path):
    path = saved(tmp_path, clocked(container, codec, [3.0, 4.0], picture=True))
    recording = open_recording(path, window_s=30.0)
    (piece,) = recording.pieces()
    assert (piece.start_s, piece.end_s) == pytest.approx((3.0, 5.0), abs=0.1)
    assert (recording.whole, recording.total_s) == (False, pytest.approx(5.0, abs=0.1))
    assert "no sound before" in " ".join(recording.warnings)
    cut, part = (
        open_recording(path, window_s=30.0, cuts=[Cut(3.5, 4.5)]),
        open_recording(path, window_s=30.0, start_s=3.5),
    )
    assert (cut.cuts[0].start_s, part.cuts[0].start_s) == (3.5, 3.5)
    assert part.duration_s == pytest.approx(1.5, abs=0.1)
    with pytest.raises(CutsError, match="1 cut is outside of its sound"):
        open_recording(path, window_s=30.0, cuts=[Cut(0.5, 2.5)])


def strongest(recording: Recording) -> float:
    (piece,) = recording.pieces()
    return float(np.argmax(np.abs(np.fft.rfft(piece.samples))) * 16000 / len(piece.samples))


@pytest.mark.parametrize(
    ("container", "codec"), few([("ogg", "libopus"), *(clock for clock in CLOCKS if clock[0] != "webm")])
)
def test_a_sound_track_is_chosen_and_the_choice_is_told(container, codec, tmp_path):
    path = saved(tmp_path, clocked(container, codec, [0.0], tracks=2))
    first = open_recording(path, window_s=30.0)
    assert "2 sound tracks, and track 1 is read" in " ".join(first.warnings)
    assert strongest(first) == pytest.approx(440, abs=3)
    second = open_recording(path, window_s=30.0, track=2)
    assert (strongest(second), second.warnings) == (pytest.approx(880, abs=3), ())
    with pytest.raises(CutsError, match="has 2 sound tracks, and no track 3"):
        open_recording(path, window_s=30.0, track=3)


@pytest.mark.parametrize("extension", ["wav", "flac", "mp3"])
def test_a_file_that_changes_in_the_first_pass_is_refused(extension, tmp_path, monkeypatch):
    path = saved(tmp_path, healthy(extension, 3.0))

    def rewritten(*_: object) -> str:
        path.write_bytes(healthy(extension, 2.0))
        return "digest of other bytes"

    monkeypatch.setattr("specdec_cli.audio.load.sha256", rewritten)
    with pytest.raises(AudioDecodeError, match="has changed"):
        open_recording(path, window_s=30.0)


def stereo(left: Samples, right: Samples) -> bytes:
    return sndfile_bytes(np.concatenate([left, right], axis=1), 16000, "float.wav")


@pytest.mark.parametrize("share", [1.0, 0.97, 0.5])
def test_inverted_channels_are_told_and_one_is_read(share, tmp_path):
    left = tone(2.0)
    samples, recording = load_audio(saved(tmp_path, stereo(left, -share * left)))
    assert np.array_equal(samples, left[:, 0])
    assert "channels 1 and 2 are inverted copies" in recording.warnings[0]


def test_other_channels_are_mixed(tmp_path):
    left, right = tone(2.0), tone(2.0, hz=660.0)
    for second in (right, -0.05 * left, left, 0 * left):
        samples, recording = load_audio(saved(tmp_path, stereo(left, second)))
        assert np.allclose(samples, (left + second)[:, 0] / 2, atol=1e-6)
        assert recording.warnings == ()
    _, recording = load_audio(
        saved(tmp_path, sndfile_bytes(tone(1.0, channels=4) * [1, -1, 1, -1], 16000, "float.wav"))
    )
    assert "its 4 channels cancel each other" in recording.warnings[0]


def test_a_channel_is_read_by_cuts_by_setting_or_each_by_itself(tmp_path):
    left, right = tone(2.0), tone(2.0, hz=660.0)
    path = saved(tmp_path, stereo(left, right))

    def pieces(**settings: object) -> list[tuple[str | None, int | None, float]]:
        found = open_recording(path, window_s=30.0, **settings).pieces()
        hz = [(one, np.argmax(np.abs(np.fft.rfft(one.samples))) * 16000 / len(one.samples)) for one in found]
        return [(one.speaker, one.channel, round(at)) for one, at in hz]

    assert pieces(channel=2) == [(None, 1, 660)]
    assert pieces(channel="each") == [("channel 1", 0, 440), ("channel 2", 1, 660)]
    assert pieces(channel="each", piece_s=1.0) == 2 * pieces(channel="each")
    cuts = [Cut(0.0, 1.0, "ann", channel=0), Cut(0.0, 1.0, "bob", channel=1), Cut(1.0, 2.0)]
    assert pieces(cuts=cuts)[:2] == [("ann", 0, 440), ("bob", 1, 660)]
    assert pieces(cuts=cuts, channel=2)[2] == (None, 1, 660)
    assert pieces(cuts=cuts, channel="each")[2:] == [("channel 1", 0, 440), ("channel 2", 1, 660)]
    mono = open_recording(saved(tmp_path, healthy("wav"), "mono.wav"), window_s=30.0, channel=2)
    assert "has one channel, which is read in place of channel 2" in mono.warnings[0]
    one_channel = open_recording(
        tmp_path / "mono.wav", window_s=30.0, cuts=[Cut(0.0, 0.5, channel=0), Cut(0.5, 1, channel=1)]
    )
    assert [cut.channel for cut in one_channel.cuts] == [None, None]
    (told,) = one_channel.warnings
    assert "2 cuts are on one of several channels, but it has one channel, which is read (0 s to 0.5 s; " in told
    of_the_first = open_recording(tmp_path / "mono.wav", window_s=30.0, cuts=[Cut(0.0, 0.5, channel=0)])
    assert of_the_first.warnings == ()
    with pytest.raises(CutsError, match="has 2 channels, and no channel 3"):
        pieces(channel=3)
    recording = open_recording(path, window_s=30.0, cuts=[*cuts, Cut(0.0, 2.0, channel=2)])
    assert len(recording.cuts) == 3
    assert "1 cut is on a channel that it lacks" in recording.warnings[0]


def test_each_leaves_out_what_says_nothing(tmp_path):
    left = tone(2.0)
    for second, told in ((0 * left, "nothing can be heard on channel 2"), (left, "channels 1 and 2 hold the same")):
        recording = open_recording(saved(tmp_path, stereo(left, second)), window_s=30.0, channel="each")
        assert [cut.channel for cut in recording.cuts] == [0]
        assert told in recording.warnings[0]


@pytest.mark.parametrize(
    ("cuts", "kept", "told"),
    [
        (
            [Cut(0, 1), Cut(3, 4.3)],
            [(0, 1), (3, 4)],
            "1 cut is clipped to its sound from 0.00 s to 4.00 s (3 s to 4.3 s)",
        ),
        ([Cut(0, 1), Cut(3, 4.05)], [(0, 1), (3, 4)], ""),
        ([Cut(0, 1), Cut(9, 10, place="a.rttm, line 2")], [(0, 1)], "left out (a.rttm, line 2: 9 s to 10 s)"),
        ([Cut(0, 1), *(Cut(5 + n, 6 + n) for n in range(5))], [(0, 1)], "5 cuts are outside"),
        ([Cut(0, 1), *(Cut(5 + n, 6 + n) for n in range(5))], [(0, 1)], "7 s to 8 s; and 2 more)"),
        ([Cut(0, 1), Cut(3.95, 4.5)], [(0, 1)], "1 cut is outside"),
    ],
)
def test_cuts_beyond_the_recording(cuts, kept, told, tmp_path):
    recording = recorded(tmp_path, healthy("wav", 4.0), cuts=cuts)
    assert [(cut.start_s, cut.end_s) for cut in recording.cuts] == kept
    assert told in " ".join(recording.warnings)
    assert bool(told) == bool(recording.warnings)


def test_cuts_and_the_part(tmp_path):
    data = healthy("wav", 4.0)
    recording = recorded(tmp_path, data, cuts=[Cut(0, 1), Cut(1, 2), Cut(3, 4)], start_s=1.5, end_s=3.5)
    assert [(cut.start_s, cut.end_s) for cut in recording.cuts] == [(1.5, 2.0), (3.0, 3.5)]
    assert len(recording.warnings) == 2
    with pytest.raises(CutsError, match=r"1 cut is outside of its sound from 1\.20 s to 4\.00 s"):
        recorded(tmp_path, data, cuts=[Cut(0, 1)], start_s=1.2)
    with pytest.raises(CutsError, match="1 cut is longer than the 30 s"):
        recorded(tmp_path, healthy("wav", 40.0), cuts=[Cut(0, 35)])


@pytest.mark.parametrize("behind", ["another", "second data", "odd data"])
def test_sound_behind_the_sound_of_a_wav_is_told(behind, tmp_path):
    whole, half = wav_bytes(PCM), len(PCM) // 2
    more = {
        "another": whole + whole,
        "second data": wav_bytes(PCM[:half], after=b"data" + half.to_bytes(4, "little") + PCM[half:]),
        "odd data": wav_bytes(PCM[:half], after=b"LIST\4\0\0\0INFOdata" + half.to_bytes(4, "little") + PCM[half:]),
    }
    (told,) = recorded(tmp_path, more[behind]).warnings
    assert "s more, which are left out" in told
    assert not recorded(tmp_path, whole + b"LIST\4\0\0\0INFO").warnings


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\n", "a pointer of Git LFS"),
        (b"\n<!DOCTYPE html><html>404</html>", "a web page"),
        (b"PK\3\4" + bytes(60), "a ZIP archive"),
        (gzip.compress(PCM), "packed with gzip"),
        (wav_bytes(b""), "a header and no sound"),
        (wav_bytes(b"", 0xFFFFFFFF), "a header and no sound"),
        (healthy("m4a", 4.0)[:9000], "it is damaged or cut short"),
        (healthy("flac", 4.0)[:100], "it is damaged or cut short"),
        (video_bytes("mp4", sound=False), "it holds no sound"),
        (wav_bytes(bytes(32000), channels=0), "format or codec is not known"),
        (b"", "is empty"),
    ],
)
def test_files_in_the_place_of_a_recording_are_called_what_they_are(data, says, tmp_path):
    with pytest.raises(AudioDecodeError, match=says):
        recorded(tmp_path, data)
