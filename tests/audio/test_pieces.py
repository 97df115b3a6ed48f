"""What is longer than the window is cut while it is decoded, in memory that does not grow with it."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from specdec_cli.audio import AudioPiece, Recording, open_recording
from specdec_cli.errors import AudioContentError, AudioDecodeError, TooLongError
from specdec_cli.inputs.recording import InputFile
from tests.audio.encode import Samples, healthy, sndfile_bytes, tone, wav_bytes
from tests.audio.test_recordings import saved
from tests.mini_pair import voice

RATE = 16000


def recorded(folder: Path, samples: Samples, window_s: float, piece_s: float | None = None) -> Recording:
    path = saved(folder, sndfile_bytes(samples, RATE, "float.wav"))
    return open_recording(path, window_s=window_s, piece_s=piece_s)


@pytest.mark.parametrize("seconds", [0.1, 5.0, 30.0])
def test_what_fits_is_one_piece_and_not_decoded_again(seconds, tmp_path):
    samples = tone(seconds)
    recording = recorded(tmp_path, samples, window_s=30)
    Path(recording.path).unlink()
    (only,) = recording.pieces()
    assert len(recording.spans) == 1
    assert (only.start_s, only.end_s, only.fault) == (0.0, seconds, None)
    assert np.array_equal(only.samples, samples[:, 0])


@pytest.mark.parametrize(("window_s", "at_pauses"), [(4.0, False), (30.0, True)])
def test_what_does_not_fit_or_is_to_be_is_cut_at_its_pauses(window_s, at_pauses, tmp_path):
    pause = np.zeros(16000, np.float32)
    samples = np.concatenate([pause, voice(0, 2.0), pause, voice(1, 1.5), pause])[:, None]
    path = saved(tmp_path, sndfile_bytes(samples, 16000, "wav"))
    first, second = open_recording(path, window_s=window_s, at_pauses=at_pauses).pieces()
    assert (first.start_s, first.end_s, second.start_s, second.end_s) == pytest.approx((1.0, 3.0, 4.0, 5.5), abs=0.2)
    assert len(open_recording(path, window_s=30.0).spans) == 1
    with pytest.raises(AudioContentError, match="no utterances between pauses") as raised:
        recorded(tmp_path, tone(31.0), window_s=30)
    assert "audio.segment" in (raised.value.hint or "")


def test_samples_that_are_no_numbers_are_refused_where_pauses_are_looked_for(tmp_path):
    samples = np.concatenate([voice(0, 3.0), np.zeros(16000, np.float32), voice(1, 2.0)])[:, None]
    samples[4 * RATE + 100] = np.nan
    with pytest.raises(AudioContentError, match="NaN"), np.errstate(all="raise"):
        recorded(tmp_path, samples, window_s=4.0)


@pytest.mark.parametrize("seconds", [0.5, 9.99, 10.0001, 20.0, 61.7])
@pytest.mark.parametrize("piece_s", [0.1, 0.7, 10.0])
def test_pieces_are_equal_complete_and_never_too_long(seconds, piece_s, tmp_path):
    samples = tone(seconds)[:, 0]
    recording = recorded(tmp_path, samples[:, None], window_s=10, piece_s=piece_s)
    pieces = list(recording.pieces())
    assert len(pieces) == len(recording.spans)
    assert np.array_equal(np.concatenate([p.samples for p in pieces]), samples)
    lengths = [len(p.samples) for p in pieces]
    assert max(lengths) <= piece_s * 16000 + 1e-6
    assert max(lengths) - min(lengths) <= 1
    assert len(pieces) == 1 or min(lengths) >= piece_s * 16000 / 2 - 1
    edges = [0.0, *np.cumsum(lengths) / 16000]
    assert [(piece.start_s, piece.end_s) for piece in pieces] == list(pairwise(edges))


def test_threads_may_decode_at_the_same_time(tmp_path):
    def joined(extension: str) -> Samples:
        recording = open_recording(tmp_path / f"clip.{extension}", window_s=1, piece_s=1)
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


def test_a_file_that_changes_between_the_passes(tmp_path):
    recording = recorded(tmp_path, tone(4.0), window_s=1, piece_s=1)
    pieces = recording.pieces()
    assert isinstance(next(pieces), AudioPiece)
    pieces.close()
    os.utime(recording.path, ns=(1, 1))
    with pytest.raises(AudioDecodeError, match="has changed"):
        next(recording.pieces())


@pytest.mark.parametrize("window_s", [3.0, 30.0])
def test_silent_pieces_are_marked(window_s, tmp_path):
    samples = tone(9.0)
    samples[3 * 16000 : 6 * 16000] = 0
    first, second, third = recorded(tmp_path, samples, window_s=window_s, piece_s=3).pieces()
    assert (first.fault, third.fault) == (None, None)
    assert "from 3.00 s to 6.00 s is silent" in str(second.fault)


HOUR = 3600 * RATE
MOST_MB = 60  # an hour of samples takes 115, as integers
PEAK = """
import re, sys
from specdec_cli.audio import open_recording
from specdec_cli.errors import AudioContentError

def peak_mb():  # ru_maxrss would begin with the peak of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024

list(open_recording(sys.argv[1], window_s=30, piece_s=30).pieces())
before = peak_mb()
try:
    recording = open_recording(sys.argv[2], window_s=30, piece_s=30 if sys.argv[3] == "equal" else None)
    print(len(recording.spans), sum(len(piece.samples) for piece in recording.pieces()))
except AudioContentError as error:
    print(error.message)
print(peak_mb() - before)
"""


def peak_of(short: Path, long: Path, cut: str) -> tuple[str, float]:
    """What was printed of the long recording, and the MB that it took above the short one."""
    command = [sys.executable, "-c", PEAK, str(short), str(long), cut]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    printed, megabytes = done.stdout.splitlines()
    return printed, float(megabytes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """A short clip, an hour of WAV and six of silence in FLAC."""
    folder = tmp_path_factory.mktemp("long")
    soundfile.write(folder / "short.wav", tone(40.0), RATE)
    soundfile.write(folder / "short.flac", tone(40.0), RATE)
    with soundfile.SoundFile(folder / "long.wav", "w", RATE, 1) as wav:
        minute = tone(60.0)
        for _ in range(60):
            wav.write(minute)
    with soundfile.SoundFile(folder / "long.flac", "w", RATE, 1) as flac:
        silence = np.zeros((60 * RATE, 1), np.int16)
        for _ in range(359):
            flac.write(silence)
        flac.write(tone(60.0))
    yield folder
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
@pytest.mark.xdist_group("hours")  # the recordings are written once
@pytest.mark.slow
@pytest.mark.parametrize(("extension", "hours"), [("wav", 1), ("flac", 6)])
def test_hours_are_cut_in_constant_memory(extension, hours, folder):
    short, long = folder / f"short.{extension}", folder / f"long.{extension}"
    printed, megabytes = peak_of(short, long, "equal")
    assert (printed, megabytes < MOST_MB) == (f"{hours * 120} {hours * HOUR}", True)
    if extension == "wav":  # six hours would take minutes
        assert peak_of(short, long, "pauses")[1] < MOST_MB


def rf64_header(size: int) -> bytes:
    sizes = struct.pack("<QQQI", size + 72, size, size // 2, 0)
    fmt = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
    return b"RF64\xff\xff\xff\xffWAVEds64\x1c\0\0\0" + sizes + b"fmt \x10\0\0\0" + fmt + b"data\xff\xff\xff\xff"


@pytest.mark.parametrize(
    "header",
    [
        wav_bytes(b"", 0xFFFFFFFF, riff=0xFFFFFFFF),
        wav_bytes(b"", 0),
        rf64_header(20 << 30),
    ],
)
def test_twenty_gigabytes_are_refused_unread(header, tmp_path):
    path = saved(tmp_path, header)
    with path.open("r+b") as file:
        file.truncate(len(header) + (20 << 30))  # a hole: it takes no room on the disk
    for piece_s in (None, 30):
        with pytest.raises(TooLongError, match="too long") as caught:
            open_recording(path, window_s=30, piece_s=piece_s)
        assert InputFile(str(path)).content_of(caught.value) is None  # of the line that says so


def test_importing_nothing_that_compiles(tmp_path):
    """What a plain caption decodes with: numba alone would take seconds."""
    for extension, seconds in (("wav", 3.0), ("flac", 12.0)):
        saved(tmp_path, healthy(extension, seconds), f"clip.{extension}")
    stereo = np.repeat(tone(3.0, 44100), 2, axis=1)
    soundfile.write(tmp_path / "stereo.wav", stereo, 44100)
    code = (
        "import sys; from specdec_cli.audio import open_recording\n"
        "for path in sys.argv[1:]: list(open_recording(path, window_s=2, piece_s=1).pieces())\n"
        "print(sorted({'av', 'librosa', 'numba', 'scipy', 'torch'} & set(sys.modules)))"
    )
    paths = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True)
    assert (len(paths), done.stdout.strip(), done.stderr) == (3, "[]", "")
