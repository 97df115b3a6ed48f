"""Every mode beside transformers' `generate`: `python -m tools.bench --clips DIR`.

Clips take turns in all of them, in one process: read before, and timed from the prompt to the last token.
`generate` gets the prompts ready made and computes with the same kernels, greedily. Modes learn guesses from the clips
before, as in `specdec batch`. With `--against NAME=VALUE` each mode runs a second time, under another setting, in place
of `generate`.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Annotated, Final, NamedTuple

import torch
import typer

from specdec_cli.captioner import Captioner
from specdec_cli.config import configs_folder, load_config, parse_setting
from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.evaluate.modes import MODES, in_mode, turns
from specdec_cli.inputs.find import find_recordings
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt, effective
from specdec_cli.stats import median
from tools.report import machine, print_table, spread_text

EQUAL: Final = {"edge": "generate, edge", "cloud": "generate, cloud", "lossless": "generate, cloud"}
"""Modes whose tokens equal those of `generate` on one of the models, where the sound bans nothing."""
PLAIN: Final[dict[str, object]] = {"decoding.loop_period": 0, "decoding.sentences": None, "decoding.stop_strings": []}
"""Without the stop rules that `generate` lacks."""


class Taken(NamedTuple):
    """A captioned recording."""

    ids: tuple[int, ...]
    wall_ms: float
    cpu_ms: float
    escalated: bool = False

    @property
    def tokens_per_s(self) -> float:
        return 1e3 * len(self.ids) / self.wall_ms


Contender = Callable[[str], Taken]


def mode(captioner: Captioner) -> Contender:
    """A captioner's mode."""

    def take(file: str) -> Taken:
        runs = list(captioner.runs(file))
        started = time.process_time()
        transcripts = [run.finish() for run in runs]
        cpu_ms = 1e3 * (time.process_time() - started)
        rounds = [round_ for transcript in transcripts for round_ in transcript.rounds]
        ids = tuple(id_ for round_ in rounds for id_ in round_.committed_ids)
        wall_ms = math.fsum(of.timing.total_ms for of in transcripts if of.timing and of.timing.total_ms)
        return Taken(ids, wall_ms, cpu_ms, any(round_.escalated for round_ in rounds))

    return take


def generated(captioner: Captioner, role: str) -> Contender:
    """`generate` of one model of a captioner."""
    model = captioner.pair.loaded[0 if role == "edge" else 1]

    def take(file: str) -> Taken:
        found = [_prompt(prompts, role) for run in captioner.runs(file) if (prompts := run.prompts) is not None]
        parts = [generate(model, prompt, captioner.config.decoding) for prompt in found]
        ids = tuple(id_ for part in parts for id_ in part.ids)
        return Taken(ids, sum(part.wall_ms for part in parts), sum(part.cpu_ms for part in parts))

    return take


def _prompt(prompts: tuple[Prompt | None, Callable[[], Prompt] | None], role: str) -> Prompt:
    edge, cloud = prompts
    assert edge is not None
    assert cloud is not None
    return edge if role == "edge" else cloud()


def generate(model: AudioLM, prompt: Prompt, settings: DecodingConfig) -> Taken:
    """The caption by `generate`, greedily and with the logits processors and the length limit of `settings`."""
    module, eos_ids = model.module, model.processor.eos_ids
    scoring = effective(settings, model.processor)
    ids = torch.tensor([prompt.ids], device=model.device)
    audio = {
        name: values.to(module.device, module.dtype if values.is_floating_point() else None)
        for name, values in prompt.audio.items()
    }
    began, worked = time.perf_counter(), time.process_time()
    with torch.inference_mode(), warnings.catch_warnings(action="ignore"):
        output = module.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            **audio,
            do_sample=False,
            max_new_tokens=settings.max_new_tokens,
            min_new_tokens=scoring.min_new_tokens,
            repetition_penalty=scoring.repetition_penalty,
            no_repeat_ngram_size=scoring.no_repeat_ngram,
            eos_token_id=list(eos_ids),
            pad_token_id=eos_ids[0],
        )
        text = tuple(output[0, len(prompt.ids) :].tolist())
    return Taken(text, 1e3 * (time.perf_counter() - began), 1e3 * (time.process_time() - worked))


def main(
    config: Annotated[str, typer.Option(help="Shipped configuration or YAML file; both models are loaded.")] = "mini",
    clips: Annotated[str | None, typer.Option(help="A recording, or a folder of them. [default: the samples]")] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="So many of them, from all over the folder.")] = 1000,
    rounds: Annotated[int, typer.Option(min=1, help="Times through all clips.")] = 5,
    language: Annotated[str, typer.Option(help="zh or en.")] = "en",
    threads: Annotated[int, typer.Option(min=1, help="Threads of PyTorch.")] = 1,
    against: Annotated[str | None, typer.Option(metavar="NAME=VALUE", help="Each mode again with a setting.")] = None,
) -> None:
    """Time every mode and generate, in turns."""
    flags = PLAIN | {"decoding.mode": "hybrid", "prompt.language": language, "runtime.threads": threads}
    both = Captioner.load(load_config(config, flags=flags).config)
    contenders: dict[str, Contender] = {name: mode(both.variant(in_mode(both.config, name))) for name in MODES}
    if against is None:
        contenders |= {f"generate, {role}": generated(both, role) for role in ("edge", "cloud")}
    else:
        other = load_config(config, flags=flags | dict([parse_setting(against)])).config
        contenders |= {f"{name}, {against}": mode(both.variant(in_mode(other, name))) for name in MODES}
    files = find_recordings([str(configs_folder().parent / "samples") if clips is None else clips], recursive=True)
    files = files[:: -(-len(files) // most)]
    for contend in contenders.values():
        contend(files[0])  # the first run allocates memory and picks kernels
    runs: dict[str, list[Taken]] = {name: [] for name in contenders}
    for file, name in turns(files, list(contenders), rounds):
        runs[name].append(contenders[name](file))
    rows = []
    for name, own in runs.items():
        speeds = [run.tokens_per_s / cloud.tokens_per_s for run, cloud in zip(own, runs["cloud"], strict=True)]
        calls = sum(run.escalated for run in own) / len(own) if name.startswith(("hybrid", "lossless")) else None
        cells = [spread_text(median([run.wall_ms for run in own]), 0), spread_text(median(speeds))]
        cells += ["-" if calls is None else f"{calls:.0%}", f"{sum(run.cpu_ms for run in own) / len(own):.1f}"]
        rows.append([name, *cells])
    print_table(machine(), ["", "ms a clip", "tokens/s, times cloud's", "clips escalated", "CPU ms a clip"], rows)
    equal = EQUAL if against is None else {f"{name}, {against}": name for name in MODES}
    differing = [name for name, like in equal.items() if [r.ids for r in runs[name]] != [r.ids for r in runs[like]]]
    print(f"other tokens than {'generate' if against is None else 'without it'}: {', '.join(differing) or 'none'}")


if __name__ == "__main__":
    typer.run(main)
