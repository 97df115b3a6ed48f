"""The benchmark: recordings, made prompts of before anything is timed, and every contender on each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import specdec_cli
from specdec_cli.bench.contenders import Contender
from specdec_cli.bench.timing import BenchClip, CaptionTiming, caption, generate
from specdec_cli.captioner import Captioner
from specdec_cli.config import Config
from specdec_cli.errors import ConfigError, first_line
from specdec_cli.evaluate.modes import MODES, in_mode, turns
from specdec_cli.inputs.find import find_recordings
from specdec_cli.models.processor import test_sound

_TEST_S: Final = 3

_Contend = Callable[[BenchClip], CaptionTiming]


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
    """Reads recordings, or their pieces; test sound where there are none; AudioError where one cannot be captioned."""
    rate, clips = captioner.sampling_rate, []
    sound = () if files else [captioner.run_samples(test_sound(_TEST_S, rate), rate, name="test sound")]
    for run in (*sound, *(run for file in files for run in captioner.runs(file))):
        if run.error is not None:
            raise run.error
        edge, cloud = run.prompts or (None, None)
        assert edge is not None
        assert cloud is not None
        clips.append(BenchClip(run.clip.file, run.clip.duration_s, edge, cloud))
    return clips


def benchmark(
    both: Captioner, clips: Sequence[BenchClip], rounds: int, done: Callable[[], None]
) -> tuple[dict[Contender, list[CaptionTiming]], list[str]]:
    """Times clips with a captioner in mode hybrid that is `comparable`: what each contender took, and notes on it.

    Entry i of one contender and of another are of the same clip in the same round. A first run allocates memory and
    picks kernels, so each contender captions the first clip once before anything counts; a `generate` that does not run
    there is left out and noted. The modes begin each round with what they guess from as it ships. `done` is called
    after each clip that all contenders have captioned.

    Raises:
        ConfigError: the cloud is elsewhere.
    """
    if len(both.pair.loaded) != 2:
        raise ConfigError(
            "The benchmark needs edge and cloud in this process.",
            hint="Configure a cloud that is loaded here, not one behind an address.",
        )
    (edge, cloud), settings, notes = both.pair.loaded, both.config.decoding, list[str]()
    contenders: dict[Contender, _Contend] = {
        **_modes(both),
        "generate-edge": lambda clip: generate(edge, clip.edge, settings),
        "generate-cloud": lambda clip: generate(cloud, clip.cloud, settings),
    }
    for name, contend in list(contenders.items()):
        try:
            contend(clips[0])
        except Exception as error:
            if name in MODES:
                raise
            del contenders[name]
            notes.append(f"{name} does not run here: {first_line(error)}")
    timings: dict[Contender, list[CaptionTiming]] = {name: [] for name in contenders}
    for number, turn in enumerate(turns(clips, list(contenders), rounds)):
        if number % (len(clips) * len(contenders)) == 0:
            contenders |= _modes(both)
        timings[turn.mode].append(contenders[turn.mode](turn.recording))
        if (number + 1) % len(contenders) == 0:
            done()
    return timings, notes


def _modes(both: Captioner) -> dict[Contender, _Contend]:
    """Each mode, with nothing learnt from the clips."""
    return {mode: partial(caption, both.variant(in_mode(both.config, mode))) for mode in MODES}
