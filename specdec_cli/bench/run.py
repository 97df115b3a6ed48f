"""The benchmark: every contender on every clip, in turns, and single forwards beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from specdec_cli.bench.clips import Clip, Models
from specdec_cli.bench.result import Contender
from specdec_cli.bench.timing import Measured, Timing, block_of, caption, generate, measure_steps
from specdec_cli.captioner import Captioner
from specdec_cli.compare.plan import in_mode, turns
from specdec_cli.config import Config
from specdec_cli.errors import ConfigError
from specdec_cli.types import Mode

_MODES: tuple[Mode, ...] = ("edge", "cloud", "lossless", "hybrid")


@dataclass(slots=True)
class Measurements:
    """What was measured; entry i of one contender and of another are of the same clip in the same round.

    `rounds` is the number of times that all clips were captioned, `notes` what a reader of the figures should know.
    """

    rounds: int
    timings: dict[Contender, list[Timing]] = field(default_factory=dict)
    steps: list[Measured] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def comparable(config: Config) -> Config:
    """`config` without the stop rules that transformers' `generate` lacks, so that their texts are comparable.

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


def benchmark(both: Captioner, clips: Sequence[Clip], rounds: int, done: Callable[[], None]) -> Measurements:
    """Measures at least one clip; `done` is called after each that all contenders have captioned.

    A first run allocates memory and picks kernels, so each contender captions the first clip once before anything
    counts; a `generate` that does not run there is left out and noted. `both` is in mode hybrid, with a configuration
    that is `comparable`.
    """
    found, models, settings = Measurements(rounds), Models.of(both.pair), both.config.decoding
    contenders = _contenders(both, models)
    for name, contend in list(contenders.items()):
        try:
            contend(clips[0])
        except Exception as error:
            if name in _MODES:
                raise
            del contenders[name]
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            found.notes.append(f"{name} does not run here: {reason}")
    found.timings = {name: [] for name in contenders}
    for turn in turns(clips, list(contenders), rounds):
        for name in turn.modes:
            found.timings[name].append(contenders[name](turn.recording))
        text = found.timings["cloud"][-1].ids
        found.steps += measure_steps(models, turn.recording, text, block_of(settings, len(text)))
        done()
    return found


def _contenders(both: Captioner, models: Models) -> dict[Contender, Callable[[Clip], Timing]]:
    def of_mode(mode: Mode) -> Callable[[Clip], Timing]:
        captioner = both.variant(in_mode(both.config, mode))
        return lambda clip: caption(captioner, clip)

    def published(clip: Clip) -> Timing:
        with models.cloud.kernels.as_published():
            return generate(models.cloud, clip.cloud, settings, settings.max_new_tokens)

    settings = both.config.decoding
    own: dict[Contender, Callable[[Clip], Timing]] = {mode: of_mode(mode) for mode in _MODES}
    own["generate-edge"] = lambda clip: generate(models.edge, clip.edge, settings, settings.max_new_tokens)
    own["generate-cloud"] = lambda clip: generate(models.cloud, clip.cloud, settings, settings.max_new_tokens)
    return own | ({"published-cloud": published} if models.cloud.kernels.chosen else {})
