"""Decoded clips in one memory-mapped file, so that an epoch reads no compressed audio."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soundfile

SAMPLE_RATE: Final = 16_000
Waveform = npt.NDArray[np.float32]


class WaveformStore:
    """Read-only clips by key: mono, 16 kHz, float32 in [-1, 1] (stored as int16)."""

    def __init__(self, folder: Path, name: str) -> None:
        index = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        self._offsets: dict[str, tuple[int, int]] = {key: (start, stop) for key, start, stop in index}
        self._samples: npt.NDArray[np.int16] = np.memmap(folder / f"{name}.int16", dtype=np.int16, mode="r")

    def __getitem__(self, key: str) -> Waveform:
        start, stop = self._offsets[key]
        return (self._samples[start:stop].astype(np.float32)) / 32768.0

    def __contains__(self, key: object) -> bool:
        return key in self._offsets

    def __len__(self) -> int:
        return len(self._offsets)


def write_store(
    folder: Path,
    name: str,
    keys: Sequence[str],
    read: Callable[[str], Waveform],
    advance: Callable[[], Any] = lambda: None,
) -> WaveformStore:
    """Write the clips `keys`, read with `read`, and return the store; a finished store is not written again."""
    index_path = folder / f"{name}.json"
    if not index_path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        index, position = [], 0
        with (folder / f"{name}.int16").open("wb") as samples:
            for key in keys:
                pcm = np.clip(np.round(read(key) * 32768.0), -32768, 32767).astype(np.int16)
                samples.write(pcm.tobytes())
                index.append((key, position, position + len(pcm)))
                position += len(pcm)
                advance()
        index_path.write_text(json.dumps(index), encoding="utf-8")
    return WaveformStore(folder, name)


def read_audio(path: Path) -> Waveform:
    """A clip of the data folder, which is 16 kHz mono throughout."""
    samples, rate = soundfile.read(path, dtype="float32", always_2d=False)
    if rate != SAMPLE_RATE or samples.ndim != 1:
        raise ValueError(f"{path}: expected {SAMPLE_RATE} Hz mono, got {rate} Hz with shape {samples.shape}")
    return np.asarray(samples, dtype=np.float32)
