"""What the benchmark captions: recordings, read and turned into prompts before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import specdec_cli
from specdec_cli.captioner import Captioner
from specdec_cli.decoding.assemble import Pair
from specdec_cli.errors import ConfigError
from specdec_cli.inputs.find import find_recordings
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt, test_sound
from specdec_cli.run import Run

_TEST_S: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class BenchClip:
    """A recording, ready for both models: the prompt of each, audio tensors included."""

    file: str
    duration_s: float
    edge: Prompt
    cloud: Prompt


@dataclass(frozen=True, slots=True, eq=False)
class BenchModels:
    """Both models of a pair, loaded in this process; the first `vocab_size` token ids are those that both may use."""

    edge: AudioLM
    cloud: AudioLM
    vocab_size: int

    @classmethod
    def of(cls, pair: Pair) -> BenchModels:
        """The models of `pair`.

        Raises:
            ConfigError: it has only one, or its cloud is elsewhere.
        """
        if len(pair.loaded) != 2:
            raise ConfigError(
                "The benchmark needs edge and cloud in this process.",
                hint="Configure a cloud that is loaded here, not one behind an address.",
            )
        return cls(*pair.loaded, pair.vocab_size)


def files_of(clips: str | None) -> list[str]:
    """The recordings that `clips` names: a file, or a folder of them.

    Without a name: the samples of the source tree, and none where specdec is installed without them.

    Raises:
        ConfigError: there are none.
    """
    samples = Path(specdec_cli.__file__).parents[1] / "samples"
    if clips is None and not samples.is_dir():
        return []
    return find_recordings([clips or str(samples)])


def read_clips(captioner: Captioner, files: Sequence[str]) -> list[BenchClip]:
    """Reads recordings for a captioner with both models; test sound where there are none.

    Raises:
        AudioError: a recording cannot be captioned.
        ConfigError: the settings cut it into pieces.
    """
    if not files:
        rate = captioner.sampling_rate
        return [_clip(captioner.run_samples(test_sound(_TEST_S, rate), rate, name="test sound"))]
    found = []
    for file in files:
        runs = list(captioner.runs(file))
        if len(runs) > 1:
            raise ConfigError(
                f"{file} is cut into {len(runs)} pieces, and the benchmark takes whole recordings.",
                hint="Leave audio.segment out, or give shorter recordings.",
            )
        found.append(_clip(runs[0]))
    return found


def _clip(run: Run) -> BenchClip:
    if run.error is not None:
        raise run.error
    edge, cloud = run.prompts or (None, None)
    assert edge is not None
    assert cloud is not None
    return BenchClip(run.clip.file, run.clip.duration_s, edge, cloud)
