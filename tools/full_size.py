"""Models of published sizes with made-up weights: `python -m tools.full_size 3b+7b --dtype bfloat16`.

Do they fit on this machine, and how near are their steps to what its memory allows?

A step of a large model at batch 1 reads every weight of the decoder and of the output layer once and does little with
it, so that bytes of weights over memory bandwidth is its floor.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import psutil
import torch
import typer
from pydantic import Field

from specdec_cli.bench.build import describe_machine
from specdec_cli.bench.clips import Clip, Models
from specdec_cli.bench.formulas import median
from specdec_cli.bench.memory import MIB, cache_bytes, stored_bytes, weight_bytes
from specdec_cli.bench.result import Machine
from specdec_cli.config.schema import DecodingConfig
from specdec_cli.decoding.build import Pair
from specdec_cli.doctor import test_sound
from specdec_cli.errors import ConfigError
from specdec_cli.metrics.bootstrap import Figures, Interval
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.device import resolve_device
from specdec_cli.models.session import Session
from specdec_cli.run import gpu_mb, peak_rss_mb
from tools.forced import Forced, force, print_forced, shares
from tools.shapes import SHAPES, Shape, build, parameters
from tools.table import print_table, spread_text

ALLOWANCE_MB: Final = 1536
"""Beyond the weights, what libraries, caches, features and working memory may take, MiB."""

DTYPES: Final = ("bfloat16", "float16", "float32", "int8")
_STEPS, _VERIFICATIONS = 8, 4
_LONG_S = 20.0  # when a kind of pass has taken so long, it is not repeated any more
_SOUND_S = 2
_COPIED = 1 << 27  # bytes
_COPIES = 5


class ShapeTime(Figures):
    """A model of a published size, made-up weights."""

    name: str
    weights_mb: float = Field(description="all that is held of it, MiB")
    built_s: float = Field(description="making it, s")
    tower_ms: float = Field(description="audio tower, ms; measured once, cold")
    prefill_ms: float = Field(description="the prompt, ms; measured once, cold")
    prompt_tokens: int
    step_ms: Interval = Field(description="one token, ms")
    verification_ms: Interval = Field(description="k + 1 tokens in one forward, ms")
    read_mb: float = Field(description="weights that a step reads, MiB")
    floor_ms: float = Field(description="read_mb at the bandwidth of a copy, ms")
    of_floor: float = Field(description="step_ms / floor_ms")
    cache_mb: float = Field(description="keys and values of the clip, MiB")


class FullSize(Figures):
    """What was found."""

    date: str = Field(description="UTC, ISO 8601")
    machine: Machine
    dtype: str
    device: str
    k: int
    copy_gb_s: float = Field(description="bytes read and written per second by a large copy, in 10^9")
    shapes: list[ShapeTime]
    forced: list[Forced]
    peak_mb: float | None = Field(description="most memory held, on the GPU if it is there; MiB")
    budget_mb: float = Field(description="what may be held: the weights as first allocated, and an allowance, MiB")
    within: bool | None = Field(description="peak_mb <= budget_mb")


@dataclass(frozen=True, slots=True)
class Order:
    """What to build and measure.

    Attributes:
        shapes: one, or the edge's and the cloud's.
        dtype: a number format or "int8".
        device: name of the device.
        k: tokens drafted per round; a verification scores k + 1 positions.
        acceptances: of the forced drafts, with two shapes.
        rounds: how often to force each.
    """

    shapes: tuple[Shape, ...]
    dtype: str
    device: str
    k: int
    acceptances: Sequence[float]
    rounds: int

    @classmethod
    def parse(cls, shapes: str, dtype: str, device: str, *, k: int, acceptances: Sequence[float], rounds: int) -> Order:
        """The order for `shapes` such as "3b" or "3b+7b".

        Raises:
            ConfigError: there is no such shape, or more than two are named.
        """
        names = shapes.lower().split("+")
        if len(names) > 2 or not set(names) <= SHAPES.keys():
            raise ConfigError(
                f"{shapes} is none of {', '.join(SHAPES)}, nor two of them.",
                hint="For an edge and a cloud: 3b+7b",
            )
        return cls(tuple(SHAPES[name] for name in names), dtype, device, k, acceptances, rounds)


def measure(order: Order, say: Callable[[str], None]) -> FullSize:
    """Builds the models, steps them, and forces drafts where there are two.

    Raises:
        ConfigError: the device does not exist, or its memory cannot hold the weights.
        CheckpointError: a package for the number format is missing.
    """
    device = resolve_device(order.device)
    _require_room(order, device)
    bandwidth = copy_bandwidth(device)
    models, built = [], []
    for shape in order.shapes:
        say(f"building {shape.name}: {parameters(shape) / 1e9:.1f} billion weights, {order.dtype}, on {device}")
        started = time.perf_counter()
        models.append(build(shape, dtype=order.dtype, device=device))
        built.append(time.perf_counter() - started)
    say("stepping")
    times = [_steps(model, order, bandwidth, s) for model, s in zip(models, built, strict=True)]
    forced: list[Forced] = []
    if len(models) == 2:
        say("forcing drafts to pass with the probabilities asked for")
        forced = list(_forced(models[0], models[1], order))
    peak = gpu_mb() if device.type == "cuda" else peak_rss_mb()
    budget = sum(_bytes_in_building(shape, order.dtype) for shape in order.shapes) / MIB + ALLOWANCE_MB
    return FullSize(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=describe_machine(),
        dtype=order.dtype,
        device=str(device),
        k=order.k,
        copy_gb_s=bandwidth / 1e9,
        shapes=times,
        forced=forced,
        peak_mb=peak,
        budget_mb=budget,
        within=None if peak is None else peak <= budget,
    )


def copy_bandwidth(device: torch.device) -> float:
    """Bytes read and written per second when a large tensor is copied; the best of several copies."""
    source = torch.ones(_COPIED // 4, device=device)
    target = torch.empty_like(source)
    best = min(_timed(device, lambda: target.copy_(source)) for _ in range(_COPIES))
    return 2 * _COPIED / best


def step_bytes(model: AudioLM) -> int:
    """Weights that a step reads: decoder layers, last norm and output layer; of the embedding only a row."""
    text, head = model.module.model.language_model, model.module.lm_head
    read = [*text.layers.parameters(), *text.norm.parameters(), *head.parameters()]
    return sum(stored_bytes(parameter) for parameter in read)


def _steps(model: AudioLM, order: Order, bandwidth: float, built_s: float) -> ShapeTime:
    clip = _clip(model)
    block = order.k + 1
    text = [model.processor.eos_ids[0] + 1 + at for at in range(_STEPS + _VERIFICATIONS * block + 1)]
    session = Session(model, clip.edge, len(text))
    session.prefill()
    advance = _advancing(session, model.device)
    advance(text[:1], 1)  # the first one picks kernels
    steps = _repeated(lambda at: advance(text[: at + 2], 1), _STEPS)
    known = len(steps) + 1
    verifications = _repeated(lambda at: advance(text[: known + (at + 1) * block], block), _VERIFICATIONS)
    read, ms = step_bytes(model), median(steps)
    floor_ms = 1e3 * read / bandwidth
    return ShapeTime(
        name=model.name,
        weights_mb=weight_bytes(model.module) / MIB,
        built_s=built_s,
        tower_ms=session.work.encoder_ms,
        prefill_ms=session.work.prefill_ms,
        prompt_tokens=len(session.prompt.ids),
        step_ms=ms,
        verification_ms=median(verifications),
        read_mb=read / MIB,
        floor_ms=floor_ms,
        of_floor=ms.value / floor_ms,
        cache_mb=cache_bytes(session) / MIB,
    )


def _repeated(take: Callable[[int], float], times: int) -> list[float]:
    """Milliseconds of each repetition; fewer of them where they take long."""
    taken: list[float] = []
    while len(taken) < times and sum(taken) < 1e3 * _LONG_S:
        taken.append(take(len(taken)))
    return taken


def _forced(edge: AudioLM, cloud: AudioLM, order: Order) -> Iterator[Forced]:
    clip = Clip("test sound", _SOUND_S, _clip(edge).edge, _clip(cloud).cloud)
    settings = DecodingConfig(mode="lossless", k=order.k, loop_period=0)
    return force(Models.of(Pair.of(edge, cloud)), [clip], settings, order.acceptances, order.rounds)


def _clip(model: AudioLM) -> Clip:
    processor = model.processor
    sound = np.tile(test_sound(processor.sampling_rate).astype(np.float32), _SOUND_S)
    prompt = processor.prompt(sound, "Describe how this person speaks.")
    return Clip("test sound", _SOUND_S, prompt, prompt)


def _advancing(session: Session, device: torch.device) -> Callable[[Sequence[int], int], float]:
    """Makes a pass and returns how many milliseconds it took."""
    return lambda text, positions: 1e3 * _timed(device, lambda: session.logits(text, positions))


def _timed(device: torch.device, work: Callable[[], Any]) -> float:
    """Seconds until `work` is done, on the device too."""
    started = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def _require_room(order: Order, device: torch.device) -> None:
    """Refuses what would push the machine into swapping."""
    needed = sum(_bytes_in_building(shape, order.dtype) for shape in order.shapes) + ALLOWANCE_MB * MIB
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    if needed > free:
        names = "+".join(shape.name for shape in order.shapes)
        raise ConfigError(
            f"{names} needs {needed / 2**30:.1f} GiB on {device}, and {free / 2**30:.1f} GiB are free.",
            hint="Take a smaller shape, or a GPU with enough memory: --device cuda",
        )


def _bytes_in_building(shape: Shape, dtype: str) -> int:
    """Weights as they are first allocated; what is quantised is made of bfloat16."""
    return parameters(shape) * (4 if dtype == "float32" else 2)


def _print(found: FullSize) -> None:
    machine = found.machine
    print(f"{machine.gpu or machine.processor}, {machine.threads} threads, torch {machine.torch}, {found.date}")
    print(f"{found.dtype} on {found.device}, k {found.k}, copies at {found.copy_gb_s:.1f} GB/s, made-up weights")
    figures: dict[str, Callable[[ShapeTime], str]] = {
        "weights, MiB": lambda shape: f"{shape.weights_mb:.0f}",
        "built in, s": lambda shape: f"{shape.built_s:.1f}",
        "audio encoder, ms": lambda shape: f"{shape.tower_ms:.1f}",
        "prefill, ms": lambda shape: f"{shape.prefill_ms:.1f} of {shape.prompt_tokens} tokens",
        "step, ms": lambda shape: spread_text(shape.step_ms),
        "verification, ms": lambda shape: spread_text(shape.verification_ms),
        "floor of a step, ms": lambda shape: f"{shape.floor_ms:.2f} for {shape.read_mb:.0f} MiB",
        "step / floor": lambda shape: f"{shape.of_floor:.2f}",
        "cache, MiB": lambda shape: f"{shape.cache_mb:.1f}",
    }
    rows = [[label, *map(figure, found.shapes)] for label, figure in figures.items()]
    print_table("", ["", *(shape.name for shape in found.shapes)], rows)
    if found.forced:
        print_forced(found.forced)
    if found.peak_mb is not None:
        verdict = "within" if found.within else "ABOVE"
        print(f"peak {found.peak_mb:.0f} MiB, {verdict} the budget of {found.budget_mb:.0f} MiB")


def main(
    shape: Annotated[str, typer.Argument(metavar="3b|7b|EDGE+CLOUD", help="Published sizes.")],
    dtype: Annotated[str, typer.Option(help="bfloat16, float16, float32 or int8.")] = "bfloat16",
    device: Annotated[str, typer.Option(help="Where to put them.")] = "auto",
    k: Annotated[int, typer.Option("-k", min=1, help="Drafted tokens in a block.")] = 5,
    acceptance: Annotated[str, typer.Option(help="Of the forced drafts, with two shapes.")] = "0.6,0.8,0.9",
    rounds: Annotated[int, typer.Option(min=1, help="How often to force each.")] = 5,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of PyTorch.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Build models of published sizes, time their forwards, and force drafts where there are two."""
    if dtype not in DTYPES:
        raise typer.BadParameter(f"--dtype {dtype} is none of {', '.join(DTYPES)}")
    if threads is not None:
        torch.set_num_threads(threads)
    order = Order.parse(shape, dtype, device, k=k, acceptances=shares(acceptance), rounds=rounds)
    found = measure(order, lambda line: typer.echo(line, err=True))
    if json:
        print(found.model_dump_json())
    else:
        _print(found)


if __name__ == "__main__":
    typer.run(main)
