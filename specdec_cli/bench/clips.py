"""What the benchmark captions: recordings, read and turned into prompts once, so that no contender pays for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import specdec_cli
from specdec_cli.captioner import Captioner
from specdec_cli.decoding.build import Pair
from specdec_cli.errors import ConfigError
from specdec_cli.inputs.find import find_recordings
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """A recording, ready for both models.

    Attributes:
        file: as given, or found in a folder that was.
        duration_s: seconds.
        edge, cloud: the prompt of each model, audio tensors included.
    """

    file: str
    duration_s: float
    edge: Prompt
    cloud: Prompt


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """Both models of a pair, loaded in this process.

    Attributes:
        edge, cloud: the models.
        vocab_size: leading token ids that both may use.
    """

    edge: AudioLM
    cloud: AudioLM
    vocab_size: int

    @classmethod
    def of(cls, pair: Pair) -> Models:
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
    """The recordings that `clips` names: a file, or a folder of them; None: the samples of the source tree.

    Raises:
        ConfigError: there are none.
    """
    if clips is not None:
        return find_recordings([clips])
    samples = Path(specdec_cli.__file__).parents[1] / "samples"
    if not samples.is_dir():
        raise ConfigError(
            "There are no samples beside the package to measure with.",
            hint="Name a recording or a folder of them: --clips PATH",
        )
    return find_recordings([str(samples)])


def read_clips(captioner: Captioner, files: Sequence[str]) -> list[Clip]:
    """Reads recordings.

    Args:
        captioner: with both models loaded.
        files: the recordings.

    Raises:
        AudioError: a recording cannot be captioned.
        ConfigError: the settings cut it into pieces.
    """
    found = []
    for file in files:
        pieces = list(captioner.clips(captioner.recording(file)))
        if len(pieces) > 1:
            raise ConfigError(
                f"{file} is cut into {len(pieces)} pieces, and the benchmark takes whole recordings.",
                hint="Leave audio.segment_s out, or give shorter recordings.",
            )
        ((clip, cut, _),) = pieces
        edge, cloud = captioner.prompts(cut.samples, captioner.setup.prompt)
        assert edge is not None
        assert cloud is not None
        found.append(Clip(file, clip.duration_s, edge, cloud))
    return found
