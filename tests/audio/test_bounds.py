"""What a recording may take, whatever its length."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from specdec_cli.audio import open_recording
from specdec_cli.errors import AudioContentError
from tests.audio.encode import healthy, tone, wav_bytes
from tests.audio.test_formats import saved

RATE = 16000
HOUR = 3600 * RATE
MOST_MB = 60
PEAK = """
import re, sys
from specdec_cli.audio import open_recording
from specdec_cli.errors import AudioContentError

def peak_mb():  # ru_maxrss would begin with the peak of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024

list(open_recording(sys.argv[1], window_s=30, segment_s=30).pieces())
before = peak_mb()
try:
    recording = open_recording(sys.argv[2], window_s=30, segment_s=30 if sys.argv[3] == "equal" else None)
    print(len(recording.cuts), sum(len(piece.samples) for piece in recording.pieces()))
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short clip, three hours of WAV and six of silence in FLAC."""
    folder = tmp_path_factory.mktemp("long")
    soundfile.write(folder / "short.wav", tone(40.0), RATE)
    soundfile.write(folder / "short.flac", tone(40.0), RATE)
    with soundfile.SoundFile(folder / "long.wav", "w", RATE, 1) as wav:
        minute = tone(60.0)
        for _ in range(180):
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
@pytest.mark.full
@pytest.mark.parametrize(("extension", "hours"), [("wav", 3), ("flac", 6)])
def test_hours_are_cut_in_constant_memory(extension: str, hours: int, folder: Path) -> None:
    short, long = folder / f"short.{extension}", folder / f"long.{extension}"
    printed, megabytes = peak_of(short, long, "equal")
    assert (printed, megabytes < MOST_MB) == (f"{hours * 120} {hours * HOUR}", True)
    assert peak_of(short, long, "pauses")[1] < MOST_MB


def rf64_header(size: int) -> bytes:
    sizes = struct.pack("<QQQI", size + 72, size, size // 2, 0)
    fmt = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
    return b"RF64\xff\xff\xff\xffWAVEds64\x1c\0\0\0" + sizes + b"fmt \x10\0\0\0" + fmt + b"data\xff\xff\xff\xff"


@pytest.mark.parametrize("header", [wav_bytes(b"", 0xFFFFFFFF, riff=0xFFFFFFFF), rf64_header(20 << 30)])
def test_twenty_gigabytes_are_refused_unread(header: bytes, tmp_path: Path) -> None:
    path = saved(tmp_path, header)
    with path.open("r+b") as file:
        file.truncate(len(header) + (20 << 30))  # a hole: it takes no room on the disk
    for segment_s in (None, 30):
        with pytest.raises(AudioContentError, match="too long"):
            open_recording(path, window_s=30, segment_s=segment_s)


def test_importing_nothing_that_compiles(tmp_path: Path) -> None:
    """What a plain caption decodes with: numba alone would take seconds."""
    for extension in ("wav", "flac"):
        saved(tmp_path, healthy(extension, 3.0), f"clip.{extension}")
    stereo = np.repeat(tone(3.0, 44100), 2, axis=1)
    soundfile.write(tmp_path / "stereo.wav", stereo, 44100)
    code = (
        "import sys; from specdec_cli.audio import open_recording\n"
        "for path in sys.argv[1:]: list(open_recording(path, window_s=2, segment_s=1).pieces())\n"
        "print(sorted({'av', 'librosa', 'numba', 'scipy', 'torch'} & set(sys.modules)))"
    )
    paths = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True)
    assert (len(paths), done.stdout.strip(), done.stderr) == (3, "[]", "")
