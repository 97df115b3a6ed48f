"""Recordings with mutated headers: none stops the program, and nothing that FFmpeg decodes is lost in silence."""

import random
import struct
from pathlib import Path

import av
import av.logging
import numpy as np
import pytest

from specdec_cli.audio import open_recording
from specdec_cli.errors import AudioError
from tests.audio.encode import healthy
from tests.tiers import slow

SECONDS = 4.0
FORMATS = ("wav", "rf64", "aiff", "caf", "flac", "ogg", "sf.opus", "mp3", "m4a", "mov", "webm", "mka", "opus", "aac")
COUNTS = (0, 1, 2, 100, 0x7FFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
MISSING_S = 1.0  # what may be missing without a word


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A file with one to three things wrong with it, mostly in its header or its index."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        reach = rng.choice((64, 400, len(changed)))
        at = rng.randrange(1 + min(reach, len(changed)))
        if reach == len(changed):  # an index may stand at the end
            at = rng.choice((at, max(0, len(changed) - 1 - rng.randrange(1200))))
        match rng.randrange(8):
            case 0 | 1:
                changed[at : at + 1] = [rng.randrange(256)]
            case 2 | 3 | 4:
                changed[at : at + 4] = struct.pack(rng.choice("<>") + "I", rng.choice(COUNTS))
            case 5:
                changed[at:at] = rng.randbytes(rng.randint(1, 40))
            case 6:
                del changed[at : at + rng.randint(1, 40)]
            case 7:
                tail = rng.choice((bytes(changed), data, b"ID3\x04\0\0\0\0\0\x0a" + bytes(10), rng.randbytes(3000)))
                changed = bytearray(rng.choice((changed + tail, tail + changed, changed[: max(20, at)])))
    return bytes(changed)


def plainly_decoded_s(path: Path) -> float:
    """What PyAV alone decodes of the first sound track, seconds, up to the first error."""
    total = 0.0
    av.logging.set_level(None)
    try:
        with av.open(str(path), metadata_errors="replace") as container:
            for frame in container.decode(audio=0):
                total += frame.samples / frame.sample_rate
                if total > 100:
                    break
    except (av.error.FFmpegError, ValueError, IndexError, ZeroDivisionError, MemoryError):
        pass
    return total


def check(extension: str, seed: int, folder: Path) -> None:
    path = folder / f"clip.{extension}"
    path.write_bytes(mutated(healthy(extension, SECONDS), random.Random(f"{extension} {seed}")))
    try:
        recording = open_recording(path, window_s=30.0)
        pieces = list(recording.pieces())
    except AudioError as error:
        said = error.message
    else:
        said = "".join(recording.warnings)
        assert pieces
        assert all(np.isfinite(piece.samples).all() for piece in pieces)
        lost_s = plainly_decoded_s(path) - recording.duration_s
        assert lost_s <= MISSING_S or said, f"seed {seed}: {lost_s:.1f} s are lost in silence"
    assert said.endswith(".") or not said


@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("seeds", [range(1), slow(range(1, 110))], ids=["few", "many"])
def test_nothing_is_lost_in_silence(extension, seeds, tmp_path):
    for seed in seeds:
        check(extension, seed, tmp_path)
