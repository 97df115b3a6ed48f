"""Every mode beside transformers' `generate` and assisted generation: `python -m tools.bench --clips DIR`.

transformers decodes as it is published, in float32 with its own kernels, and with specdec's kernels, as the modes do.

The assistant of `generate(assistant_model=)` gets no audio: its prefill drops the features, so it drafts from the
prompt alone. `generate` also refuses models whose output layers are padded to different sizes, although their token
ids agree; for its runs the assistant states the size of the cloud's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any, Final
from unittest.mock import patch

import typer

from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.pair import Pair
from specdec_cli.evaluate.modes import MODES, in_mode, turns
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.kernels import FastLinear
from specdec_cli.models.processor import Prompt
from specdec_cli.stats import median
from tools.table import print_table, spread_text
from tools.timing import BenchClip, CaptionTiming, caption, comparable, describe_machine, files_of, generate, read_clips

Contender = Callable[[BenchClip], CaptionTiming]
EQUAL: Final = {"edge": "generate, edge", "cloud": "generate, cloud", "lossless": "generate, cloud"}
"""Modes whose tokens equal those of `generate` on one of the models."""


def generate_assisted(cloud: AudioLM, edge: AudioLM, prompt: Prompt, settings: DecodingConfig) -> CaptionTiming:
    """The cloud's caption by `generate` with the edge as its assistant, at the library's own settings."""
    with _same_vocabulary(edge.module, cloud.module):
        return generate(cloud, prompt, settings, assistant_model=edge.module)


def contenders_of(captioner: Captioner) -> dict[str, Contender]:
    """The four modes, and transformers' three ways to caption with the same models."""
    (edge, cloud), settings = captioner.pair.loaded, captioner.config.decoding
    variants = {mode: captioner.variant(in_mode(captioner.config, mode)) for mode in MODES}
    modes: dict[str, Contender] = {mode: _mode(variant) for mode, variant in variants.items()}
    others: dict[str, Contender] = {
        "generate, edge": lambda clip: generate(edge, clip.edge, settings),
        "generate, cloud": lambda clip: generate(cloud, clip.cloud, settings),
        "assisted": lambda clip: generate_assisted(cloud, edge, clip.cloud, settings),
    }
    published = {f"{name}, as published": _as_published(captioner.pair, contend) for name, contend in others.items()}
    return modes | others | published


def _mode(captioner: Captioner) -> Contender:
    return lambda clip: caption(captioner, clip)


def _as_published(pair: Pair, contend: Contender) -> Contender:
    def published(clip: BenchClip) -> CaptionTiming:
        layers = [part for model in pair.loaded for part in model.module.modules() if isinstance(part, FastLinear)]
        with ExitStack() as kernels:
            for layer in layers:
                kernels.enter_context(patch.object(layer, "product", None))
            return contend(clip)

    return published


@contextmanager
def _same_vocabulary(assistant: Any, main: Any) -> Iterator[None]:
    """Lets the assistant state as many token ids as the main model, which is all that transformers compares."""
    config, stated = assistant.config.get_text_config(), assistant.config.get_text_config().vocab_size
    config.vocab_size = main.config.get_text_config().vocab_size
    try:
        yield
    finally:
        config.vocab_size = stated


def main(
    config: Annotated[str, typer.Option(help="Shipped configuration or YAML file; both models are loaded.")] = "mini",
    clips: Annotated[str | None, typer.Option(help="A recording, or a folder of them. [default: the samples]")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Times through all clips.")] = 5,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Drafted tokens in a block. [default: configured]")] = None,
    language: Annotated[str, typer.Option(help="zh or en.")] = "en",
    threads: Annotated[int, typer.Option(min=1, help="Threads of PyTorch.")] = 1,
) -> None:
    """Time every mode, generate, and generate with the edge as its assistant, in turns."""
    flags = {"decoding.mode": "hybrid", "prompt.language": language, "runtime.threads": threads}
    flags |= {} if k is None else {"decoding.k": k}
    captioner = Captioner.load(comparable(load_config(config, flags=flags).config))
    contenders = contenders_of(captioner)
    recordings = read_clips(captioner, files_of(clips))
    for contend in contenders.values():
        contend(recordings[0])  # the first run allocates memory and picks kernels
    runs: dict[str, list[CaptionTiming]] = {name: [] for name in contenders}
    for recording, name in turns(recordings, list(contenders), rounds):
        runs[name].append(contenders[name](recording))
    rows = []
    for name, own in runs.items():
        speeds = [run.tokens_per_s / cloud.tokens_per_s for run, cloud in zip(own, runs["cloud"], strict=True)]
        calls = sum(bool(run.escalated) for run in own) / len(own) if name in ("hybrid", "lossless") else None
        clip_ms = spread_text(median([run.wall_ms for run in own]), 0)
        rows.append([name, clip_ms, spread_text(median(speeds)), "-" if calls is None else f"{calls:.0%}"])
    print_table(describe_machine().line, ["", "ms a clip", "tokens/s, times cloud's", "clips escalated"], rows)
    differing = [name for name, like in EQUAL.items() if [r.ids for r in runs[name]] != [r.ids for r in runs[like]]]
    print(f"other tokens than generate's: {', '.join(differing) or 'none'}")


if __name__ == "__main__":
    typer.run(main)
