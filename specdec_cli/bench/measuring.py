"""The benchmark: every contender on every clip, in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from specdec_cli.bench.contenders import Contender
from specdec_cli.bench.prepared import BenchClip, BenchModels
from specdec_cli.bench.timing import CaptionTiming, caption, generate
from specdec_cli.captioner import Captioner
from specdec_cli.config import Config
from specdec_cli.errors import ConfigError
from specdec_cli.evaluate.modes import in_mode, turns
from specdec_cli.types import Mode

_MODES: tuple[Mode, ...] = ("edge", "cloud", "lossless", "hybrid")


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


def benchmark(
    both: Captioner, clips: Sequence[BenchClip], rounds: int, done: Callable[[], None]
) -> tuple[dict[Contender, list[CaptionTiming]], list[str]]:
    """Times at least one clip: what each contender took, and what a reader of the figures should know.

    Entry i of one contender and of another are of the same clip in the same round. A first run allocates memory and
    picks kernels, so each contender captions the first clip once before anything counts; a `generate` that does not run
    there is left out and noted. The modes begin each round with what they guess from as it ships.

    Args:
        both: a captioner in mode hybrid, with a configuration that is `comparable`.
        clips: what to caption.
        rounds: how many times.
        done: called after each clip that all contenders have captioned.
    """
    notes: list[str] = []
    contenders = _contenders(both, BenchModels.of(both.pair))
    for name, contend in list(contenders.items()):
        try:
            contend(clips[0])
        except Exception as error:
            if name in _MODES:
                raise
            del contenders[name]
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            notes.append(f"{name} does not run here: {reason}")
    timings: dict[Contender, list[CaptionTiming]] = {name: [] for name in contenders}
    repeat, modes = -1, dict[Contender, Callable[[BenchClip], CaptionTiming]]()
    for number, turn in enumerate(turns(clips, list(contenders), rounds), 1):
        if turn.repeat != repeat:
            repeat, modes = turn.repeat, _modes(both)
        timings[turn.mode].append((modes.get(turn.mode) or contenders[turn.mode])(turn.recording))
        if number % len(contenders) == 0:
            done()
    return timings, notes


def _modes(both: Captioner) -> dict[Contender, Callable[[BenchClip], CaptionTiming]]:
    """Each mode, with nothing learnt from the clips."""
    return {mode: partial(caption, both.variant(in_mode(both.config, mode))) for mode in _MODES}


def _contenders(both: Captioner, models: BenchModels) -> dict[Contender, Callable[[BenchClip], CaptionTiming]]:
    def published(clip: BenchClip) -> CaptionTiming:
        with models.cloud.kernels.as_published():
            return generate(models.cloud, clip.cloud, settings, settings.max_new_tokens)

    settings = both.config.decoding
    own = _modes(both)
    own["generate-edge"] = lambda clip: generate(models.edge, clip.edge, settings, settings.max_new_tokens)
    own["generate-cloud"] = lambda clip: generate(models.cloud, clip.cloud, settings, settings.max_new_tokens)
    return own | ({"published-cloud": published} if models.cloud.kernels.chosen else {})
