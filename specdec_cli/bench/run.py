"""The benchmark: every contender on every clip, in turns, and how long each took."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specdec_cli.bench.clips import Clip, Models
from specdec_cli.bench.peers import DEAF_NOTE, VOCABULARY_NOTE, generate, generate_assisted
from specdec_cli.bench.result import Contender
from specdec_cli.bench.steps import Measured, block_of, measure_steps
from specdec_cli.bench.taken import Taken, caption
from specdec_cli.captioner import Captioner
from specdec_cli.compare.plan import in_mode
from specdec_cli.compare.schedule import turns
from specdec_cli.config import Config
from specdec_cli.errors import ConfigError
from specdec_cli.types import Mode

Contend = Callable[[Clip], Taken]
_MODES: tuple[Mode, ...] = ("edge", "cloud", "lossless", "hybrid")


@dataclass(slots=True)
class Measurements:
    """What was measured; entry i of one contender and of another are of the same clip in the same round.

    Attributes:
        taken: the runs of each contender.
        steps: single forwards.
        notes: what a reader of the figures should know.
    """

    taken: dict[Contender, list[Taken]] = field(default_factory=dict)
    steps: list[Measured] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def comparable(config: Config) -> Config:
    """`config` without the stop rules that transformers' `generate` has not, so that texts can be held together.

    Raises:
        ConfigError: it samples, so that no two runs need agree.
    """
    if config.decoding.temperature > 0:
        raise ConfigError(
            f"The benchmark compares greedy texts, and decoding.temperature is {config.decoding.temperature:g}.",
            hint="Leave the temperature at 0.",
        )
    plain = config.decoding.model_copy(update={"loop_period": 0, "sentences": None, "stop_strings": ()})
    return config.model_copy(update={"decoding": plain})


class Benchmark:
    """Runs contenders on clips.

    Args:
        both: a captioner in mode hybrid with a configuration that is `comparable`.
        clips: at least one.
    """

    def __init__(self, both: Captioner, clips: Sequence[Clip]) -> None:
        self._both = both
        self._models = Models.of(both.pair)
        self._clips = clips
        self._measurements = Measurements()
        self._captioners = {mode: both.variant(in_mode(both.config, mode)) for mode in _MODES}
        self._contenders: dict[Contender, Contend] = {**self._ours(), **self._peers()}

    def warm_up(self) -> None:
        """Lets every contender caption the first clip once, and leaves out a peer that cannot.

        A first run allocates memory and picks kernels; that would be charged to whoever comes first.
        """
        for name, contend in list(self._contenders.items()):
            try:
                contend(self._clips[0])
            except Exception as error:
                if name in _MODES:
                    raise
                del self._contenders[name]
                self._measurements.notes.append(f"{name} does not run here: {_first_line(error)}")
        if "generate-assisted" in self._contenders:
            self._measurements.notes.append(DEAF_NOTE)

    def turns(self, rounds: int) -> int:
        """How many clips will be gone through."""
        return rounds * len(self._clips)

    def run(self, rounds: int, done: Callable[[Clip], None]) -> Measurements:
        """Measures.

        Args:
            rounds: how often to go through all clips.
            done: told of each clip that all contenders have captioned.
        """
        found = self._measurements
        found.taken = {name: [] for name in self._contenders}
        for turn in turns(self._clips, list(self._contenders), rounds):
            for name in turn.modes:
                found.taken[name].append(self._contenders[name](turn.recording))
            text = found.taken["cloud"][-1].ids
            found.steps += measure_steps(self._models, turn.recording, text, block_of(self._both.config.decoding.k))
            done(turn.recording)
        return found

    def _ours(self) -> Mapping[Contender, Contend]:
        return {mode: _captioning(self._captioners[mode]) for mode in _MODES}

    def _peers(self) -> Mapping[Contender, Contend]:
        edge, cloud, settings = self._models.edge, self._models.cloud, self._both.config.decoding
        if edge.processor.rows != cloud.processor.rows:
            self._measurements.notes.append(VOCABULARY_NOTE)
        most = settings.max_new_tokens
        return {
            "generate-edge": lambda clip: generate(edge, clip.edge, settings, most),
            "generate-cloud": lambda clip: generate(cloud, clip.cloud, settings, most),
            "generate-assisted": lambda clip: generate_assisted(cloud, edge, clip.cloud, settings, most),
        }


def _captioning(captioner: Captioner) -> Contend:
    return lambda clip: caption(captioner, clip)


def _first_line(error: Any) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
