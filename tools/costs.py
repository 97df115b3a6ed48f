"""What single forwards cost on this machine, and what follows from it: `python -m tools.costs --clips DIR`.

Prints the forwards of both models apart from the loop, what speculative decoding should gain from them (Leviathan et
al. 2023) beside what it gains, and the same forwards with other numbers of threads and number formats.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal, TypeVar, get_args

import torch
import typer

from specdec_cli.bench.measuring import comparable, files_of, read_clips
from specdec_cli.bench.timing import BenchClip, caption
from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.config.schema import DecodingConfig
from specdec_cli.decoding.assemble import Pair
from specdec_cli.decoding.length import MOST_DEFERRED
from specdec_cli.evaluate.bootstrap import Interval, median
from specdec_cli.models.session import Session
from tools.table import print_table, spread_text

StepName = Literal[
    "edge-tower", "edge-prefill", "edge-step", "cloud-tower", "cloud-prefill", "cloud-step", "verification"
]
AUTO_BLOCK: Final = 5
"""Drafted tokens of a block whose costs are measured where k is chosen as it goes."""

_REPEATS: Final = 3
_PRODUCTS: Final = 9
_FORMATS: Final = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}

V = TypeVar("V", int, str)


@dataclass(frozen=True, slots=True)
class Measured:
    """One forward: its kind, how long it took, and how many tokens it was fed."""

    name: StepName
    ms: float
    tokens: int


def block_of(settings: DecodingConfig, tokens: int) -> int:
    """Drafted tokens of a block of a lossless caption of so many tokens: all but the cloud's own where drafts defer."""
    if settings.defers:
        return max(min(tokens - 1, MOST_DEFERRED), 1)
    return settings.k if isinstance(settings.k, int) else AUTO_BLOCK


def measure_steps(pair: Pair, clip: BenchClip, text: Sequence[int], k: int) -> Iterator[Measured]:
    """Feeds `text`, the token ids of a caption, to both models as their loops would.

    A verification scores k + 1 positions.
    """
    edge, cloud = (
        Session(model, prompt, len(text), pair.vocab_size)
        for model, prompt in zip(pair.loaded, (clip.edge, clip.cloud), strict=True)
    )
    yield from _steps(edge, text, ("edge-tower", "edge-prefill", "edge-step"))
    yield from _steps(cloud, text, ("cloud-tower", "cloud-prefill", "cloud-step"))
    for start in range(0, len(text) - k + 1, k + 1):
        yield Measured("verification", _forward_ms(cloud, text[: start + k], k + 1), k + 1)


def _steps(session: Session, text: Sequence[int], names: tuple[StepName, StepName, StepName]) -> Iterator[Measured]:
    tower, prefill, step = names
    session.prefill()
    yield Measured(tower, session.work.encoder_ms, len(session.prompt.ids))
    yield Measured(prefill, session.work.prefill_ms, session.length)
    for end in range(len(text)):
        yield Measured(step, _forward_ms(session, text[:end], 1), 1)


def _forward_ms(session: Session, text: Sequence[int], positions: int) -> float:
    """Milliseconds of one forward, scoring included."""
    started = time.perf_counter()
    session.logits(text, positions)
    return (time.perf_counter() - started) * 1e3


def tokens_per_round(acceptance: float, k: int) -> float:
    """Tokens that a verified block of k drafted ones yields, the cloud's own included.

    (1 - alpha^(k+1)) / (1 - alpha), Leviathan et al. 2023 ("Fast Inference from Transformers via Speculative
    Decoding"), equation 1: tokens are accepted independently with probability alpha.
    """
    return float(sum(acceptance**position for position in range(k + 1)))


def expected_speedup(acceptance: float, k: int, cost_ratio: float, verification_ratio: float = 1.0) -> float:
    """Speed-up over the cloud's own steps (Leviathan et al. 2023, theorem 3.8).

    Args:
        acceptance: alpha.
        k: drafted tokens a round, gamma in the paper.
        cost_ratio: c, an edge step in cloud steps.
        verification_ratio: a verification in cloud steps; the paper takes it to be 1, which does not hold on a CPU.
    """
    return tokens_per_round(acceptance, k) / (k * cost_ratio + verification_ratio)


def try_threads(pair: Pair, clip: BenchClip, text: Sequence[int], k: int) -> dict[int, Interval]:
    """The forwards of the first two blocks of a caption with 1, 2, 4, ... threads; nothing where a model is on a GPU.

    The number of threads is left as it was.
    """
    if any(model.device.type == "cuda" for model in pair.loaded):
        return {}
    now, cores = torch.get_num_threads(), os.cpu_count() or 1

    def forwards_ms(threads: int) -> float:
        torch.set_num_threads(threads)
        return sum(step.ms for step in measure_steps(pair, clip, text[: 2 * (k + 1)], k))

    try:
        counts = dict.fromkeys((now, *(2**power for power in range(cores.bit_length())), cores))
        times = _in_turns({count: partial(forwards_ms, count) for count in counts}, _REPEATS)
    finally:
        torch.set_num_threads(now)
    return {count: median(taken) for count, taken in times.items()}


def try_dtypes(pair: Pair, k: int) -> dict[str, Interval]:
    """A product as large as the largest linear layer of each model, in its number format and in others."""
    found: dict[str, Interval] = {}
    for role, model in zip(("edge", "cloud"), pair.loaded, strict=True):
        weights = [layer.weight for layer in model.module.modules() if isinstance(layer, torch.nn.Linear)]
        # quantised weights have tensors of their own, and no other number format
        plain = [weight for weight in weights if type(weight.data) is torch.Tensor and weight.dtype in _FORMATS]
        if plain:
            largest = max(plain, key=torch.numel)
            formats = dict.fromkeys((largest.dtype, *_FORMATS))
            times = _in_turns({_FORMATS[dtype]: _product(largest, dtype, k) for dtype in formats}, _PRODUCTS)
            found |= {f"{role} {dtype}": median(taken) for dtype, taken in times.items()}
    return found


def _in_turns(timed: Mapping[V, Callable[[], float]], repeats: int) -> dict[V, list[float]]:
    """Milliseconds of each, measured in turns; a first turn warms up and does not count."""
    turns = [{name: measure() for name, measure in timed.items()} for _ in range(repeats + 1)]
    return {name: [turn[name] for turn in turns[1:]] for name in timed}


def wait_for(device: torch.device) -> None:
    """Waits until a GPU has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _product(weight: torch.Tensor, dtype: torch.dtype, k: int) -> Callable[[], float]:
    """Multiplies one row and k + 1 rows with a matrix of the shape of `weight`; milliseconds."""
    matrix = torch.empty(weight.shape, dtype=dtype, device=weight.device).normal_()
    inputs = [torch.ones(rows, weight.shape[1], dtype=dtype, device=weight.device) for rows in (1, k + 1)]

    def product() -> float:
        wait_for(weight.device)
        started = time.perf_counter()
        for rows in inputs:
            torch.nn.functional.linear(rows, matrix)
        wait_for(weight.device)
        return (time.perf_counter() - started) * 1e3

    return product


def main(
    config: Annotated[str, typer.Option(help="Shipped configuration or YAML file; both models are loaded.")] = "mini",
    clips: Annotated[str | None, typer.Option(help="A recording, or a folder of them. [default: the samples]")] = None,
    k: Annotated[int, typer.Option(min=1, help="Drafted tokens of a block.")] = AUTO_BLOCK,
) -> None:
    """Times single forwards, and lossless decoding beside what they promise."""
    flags = {"decoding.mode": "lossless", "decoding.k": k, "decoding.defer": False}
    captioner = Captioner.load(comparable(load_config(config, flags=flags).config))
    pair, read = captioner.pair, read_clips(captioner, files_of(clips))
    steps: list[Measured] = []
    runs = [caption(captioner, clip) for clip in read]
    for clip, run in zip(read, runs, strict=True):
        steps += measure_steps(pair, clip, run.ids, block_of(captioner.config.decoding, len(run.ids)))
    ms = {name: median([step.ms for step in steps if step.name == name]) for name in get_args(StepName)}
    print_table("Forwards, ms", ("forward", "median"), [(name, spread_text(found)) for name, found in ms.items()])
    a = sum(run.accepted for run in runs) / sum(run.verified for run in runs)
    c, v = (ms[name].value / ms["cloud-step"].value for name in ("edge-step", "verification"))
    gain = expected_speedup(a, k, c, v)
    print(f"acceptance {a:.3f}, edge step {c:.3f} and verification {v:.2f} of a cloud step: {gain:.2f}x expected")
    threads = try_threads(pair, read[0], runs[0].ids, k)
    print_table(
        "Two blocks, ms", ("threads", "median"), [(str(n), spread_text(spread)) for n, spread in threads.items()]
    )
    dtypes = try_dtypes(pair, k)
    print_table(
        "The largest linear layer, ms", ("format", "median"), [(n, spread_text(spread)) for n, spread in dtypes.items()]
    )


if __name__ == "__main__":
    typer.run(main)
