"""The pair that ships, loaded once per test process, and sounds to give it. Tests never depend on its exact texts."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import torch

from specdec_cli.captioner import Captioner
from specdec_cli.config import Config, load_config
from specdec_cli.decoding.pair import Pair
from specdec_cli.inputs.cuts import Cuts

RATE = 16000
WINDOW_S = 30
MODES = ("hybrid", "lossless", "edge", "cloud")


@lru_cache
def mini_pair() -> Pair:
    """Both models of the mini configuration."""
    torch.set_num_threads(1)
    return Captioner.load(load_config("mini", environ={}).config).pair


def captioner_for(config: Config, cuts: Cuts | None = None) -> Captioner:
    """A captioner on the loaded pair; without the model that the mode does not use, as if it had been loaded so."""
    pair, mode = mini_pair(), config.decoding.mode
    edge, cloud = (None if mode == "cloud" else pair.edge), (None if mode == "edge" else pair.cloud)
    return Captioner(config, Pair.of(edge, cloud), load_s=0.5, cuts=cuts)


def captioner(**settings: object) -> Captioner:
    """A captioner with settings by dotted name, `__` for the dot."""
    flags = {name.replace("__", "."): value for name, value in settings.items()}
    return captioner_for(load_config("mini", flags=flags, environ={"LANG": "zh_CN"}).config)


def voice(seed: int, seconds: float = 1.5) -> npt.NDArray[np.float32]:
    """A buzz with a gliding pitch, syllables and some noise, at 16 kHz: different for every seed."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * RATE)) / RATE
    pitch = rng.uniform(90, 320) * (1 + rng.uniform(0, 0.3) * np.sin(2 * np.pi * rng.uniform(0.5, 4) * t))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    buzz = sum(np.sin(n * phase) / n for n in range(1, 9))
    syllables = np.clip(np.sin(2 * np.pi * rng.uniform(1.5, 5) * t + rng.uniform(0, 6)) + 0.5, 0, 1)
    loudness = rng.uniform(0.02, 0.2)
    return (loudness * (buzz * syllables + 0.1 * rng.standard_normal(len(t)))).astype(np.float32)


def write_voice(path: Path, seed: int, seconds: float = 1.5) -> Path:
    """`voice` as a WAV file."""
    soundfile.write(path, voice(seed, seconds), RATE)
    return path
