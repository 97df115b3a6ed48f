"""Random damage to valid files: each must load as finite samples or be refused with a typed error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specdec_cli.errors import AudioError
from tests.audio.encode import FFMPEG, SNDFILE, Samples, healthy, load_audio

ROUNDS = 24


def loaded_or_refused(path: Path) -> Samples | AudioError:
    try:
        return load_audio(path)[0]
    except AudioError as error:
        return error


@pytest.mark.parametrize("extension", [*SNDFILE, *FFMPEG])
def test_flipped_bytes(extension: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    original = np.frombuffer(healthy(extension, 0.5), np.uint8)
    path = tmp_path / f"clip.{extension}"
    for seed in range(ROUNDS):
        rng = np.random.default_rng(seed)
        damaged = original.copy()
        reach = 200 if seed % 2 else len(damaged)  # half of them hit the header
        where = rng.integers(0, min(reach, len(damaged)), size=int(rng.integers(1, 20)))
        damaged[where] = rng.integers(0, 256, size=len(where))
        path.write_bytes(damaged.tobytes())
        outcome = loaded_or_refused(path)
        if isinstance(outcome, AudioError):
            assert path.name in outcome.message
            assert outcome.hint
        else:
            assert np.isfinite(outcome).all()
            assert len(outcome) >= 1600
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")
