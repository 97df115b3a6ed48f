"""What would be faster on this machine: the number of threads, number formats and k, each measured here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import torch

from specdec_cli.bench.clips import Clip, Models
from specdec_cli.bench.formulas import expected_speedup, median
from specdec_cli.bench.result import Expected, Suggestion, Trial
from specdec_cli.bench.timing import measure_steps, wait_for
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.kernels import encoder_dtypes
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session

WORTH: Final = 1.1
"""Smaller speed-ups are not suggested: on most machines the figures vary as much from run to run."""
LARGEST_K: Final = 16

_REPEATS: Final = 3
_PRODUCTS: Final = 9
_FORMATS: Final = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
_THREADS: Final = "runtime.threads"

V = TypeVar("V", int, str)


def try_threads(models: Models, clip: Clip, text: Sequence[int], k: int) -> Iterator[Trial]:
    """The forwards of the first two blocks of a caption with 1, 2, 4, ... threads; nothing where a model is on a GPU.

    The number of threads is left as it was.
    """
    if "cuda" in (models.edge.device.type, models.cloud.device.type):
        return
    now, cores = torch.get_num_threads(), os.cpu_count() or 1

    def forwards_ms(threads: int) -> float:
        torch.set_num_threads(threads)
        return sum(step.ms for step in measure_steps(models, clip, text[: 2 * (k + 1)], k))

    try:
        counts = dict.fromkeys((now, *(2**power for power in range(cores.bit_length())), cores))
        times = _in_turns({count: partial(forwards_ms, count) for count in counts}, _REPEATS)
    finally:
        torch.set_num_threads(now)
    for count, taken in times.items():
        yield Trial(setting=_THREADS, value=count, ms=median(taken))


def try_dtypes(models: Models, k: int) -> Iterator[Trial]:
    """A product as large as the largest linear layer of each model, in its number format and in others."""
    for role, model in (("edge", models.edge), ("cloud", models.cloud)):
        weights = [layer.weight for layer in model.module.modules() if isinstance(layer, torch.nn.Linear)]
        # quantised weights have tensors of their own, and no other number format
        plain = [weight for weight in weights if type(weight.data) is torch.Tensor and weight.dtype in _FORMATS]
        if plain:
            largest = max(plain, key=torch.numel)
            formats = dict.fromkeys((largest.dtype, *_FORMATS))
            times = _in_turns({_FORMATS[dtype]: _product(largest, dtype, k) for dtype in formats}, _PRODUCTS)
            for dtype, taken in times.items():
                yield Trial(setting=f"{role}.dtype", value=dtype, ms=median(taken))


def try_encoders(parts: Mapping[str, tuple[AudioLM, Prompt]]) -> Iterator[Trial]:
    """The audio encoder of each model that runs in float32 on a CPU, as it is and in fewer bits, for a clip's prompt.

    Args:
        parts: "edge" or "cloud" -> the model, and the clip's prompt for it.
    """
    for role, (model, prompt) in parts.items():
        if model.device.type == "cpu" and model.dtype == torch.float32:
            now = model.kernels.encoder_dtype

            def encoder_ms(dtype: str | None, model: AudioLM = model, prompt: Prompt = prompt) -> float:
                model.kernels.choose(dtype)
                session = Session(model, prompt, 1)
                session.prefill()
                return session.work.encoder_ms

            try:
                formats = dict.fromkeys((now, None, *encoder_dtypes()))
                times = _in_turns({name or "null": partial(encoder_ms, name) for name in formats}, _REPEATS)
            finally:
                model.kernels.choose(now)
            for name, taken in times.items():
                yield Trial(setting=f"{role}.encoder_dtype", value=name, ms=median(taken))


def suggestions(expected: Expected | None, trials: Sequence[Trial], k: int | str) -> Iterator[Suggestion]:
    """The settings that are faster here; of each setting, the first of `trials` is its present value.

    What the theory promises at other k counts where `k` is a number.
    """
    if expected is not None and isinstance(k, int):
        yield from _of_k(expected)
    for setting in dict.fromkeys(trial.setting for trial in trials):
        now, *others = (trial for trial in trials if trial.setting == setting)
        best = min((now, *others), key=lambda trial: trial.ms.value)
        if now.ms.value >= WORTH * best.ms.value:
            what = "the largest linear layer (captions may change)"
            if setting == _THREADS:
                what = "forwards"
            elif setting.endswith("encoder_dtype"):
                what = "the audio encoder (captions may change)"
            speedup = now.ms.value / best.ms.value
            yield Suggestion(option=f"--set {setting}={best.value}", speedup=speedup, why=what)


def _of_k(expected: Expected) -> Iterator[Suggestion]:
    def speedup(k: int) -> float:
        per_position = (expected.verification_ratio - 1) / expected.k
        return expected_speedup(expected.acceptance, k, expected.cost_ratio, 1 + per_position * k)

    best = max(range(1, LARGEST_K + 1), key=speedup)
    if speedup(best) < 1:
        why = "lossless decoding: no k makes up for the drafts at this acceptance rate"
        yield Suggestion(option="--mode cloud", speedup=1 / speedup(expected.k), why=why)
    elif speedup(best) >= WORTH * speedup(expected.k):
        why = "lossless decoding, by the formula above"
        yield Suggestion(option=f"-k {best}", speedup=speedup(best) / speedup(expected.k), why=why)


def _in_turns(timed: Mapping[V, Callable[[], float]], repeats: int) -> dict[V, list[float]]:
    """Milliseconds of each, measured in turns; a first turn warms up and does not count."""
    turns = [{name: measure() for name, measure in timed.items()} for _ in range(repeats + 1)]
    return {name: [turn[name] for turn in turns[1:]] for name in timed}


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
