from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.errors import AudioError
from tests.audio.encode import FFMPEG, SNDFILE, healthy, load_audio
from tests.audio.malformed import CASES, Case, malformed_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("malformed")
    malformed_files(made, seed=0)
    return made


@pytest.fixture(autouse=True)
def _nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_is_refused_with_its_own_error(case: Case, folder: Path) -> None:
    path = folder / case.name
    with pytest.raises(AudioError) as raised:
        load_audio(path)
    assert type(raised.value) is case.expected_error, raised.value.message
    assert path.name in raised.value.message
    assert raised.value.message.endswith(".")
    assert "\n" not in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize("extension", [*SNDFILE, *FFMPEG])
def test_flipped_bytes(extension: str, tmp_path: Path) -> None:
    original = np.frombuffer(healthy(extension, 0.5), np.uint8)
    path = tmp_path / f"clip.{extension}"
    for seed in range(24):
        rng = np.random.default_rng(seed)
        damaged = original.copy()
        reach = 200 if seed % 2 else len(damaged)  # half of them hit the header
        where = rng.integers(0, min(reach, len(damaged)), size=int(rng.integers(1, 20)))
        damaged[where] = rng.integers(0, 256, size=len(where))
        path.write_bytes(damaged.tobytes())
        try:
            samples, _ = load_audio(path)
        except AudioError:
            continue
        assert np.isfinite(samples).all()
        assert len(samples) >= 1600
