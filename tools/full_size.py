"""Models of published sizes with made-up weights: `python -m tools.full_size 3b --dtype bfloat16,int4`.

Do they fit on this machine, how near are their steps to what its memory allows, and what do fewer bits and CUDA graphs
save? Number formats take turns, with and without graphs, so that whatever else the machine does meets them alike.

Two shapes, `3b,7b`, are an edge, in each number format, and a cloud: they caption with chosen tokens (`tools.forced`),
with `--rtt 20,50` with the cloud behind the server of `specdec serve` and its relay. Edge and cloud work by turns, so
that neither takes time from the other. `--texts FILE` has them write given captions, a line of token ids each, from any
tokenizer, and `--guesses 0,8` compares numbers of tokens guessed from the captions before; one shape writes alone.

A step of a large model at batch 1 reads every weight of the decoder and of the output layer once and does little with
it, so that bytes of weights over memory bandwidth is its floor.
"""

from __future__ import annotations

import datetime
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, Final

import psutil
import torch
import typer
from pydantic import Field

from specdec_cli.cloud.verify_client import VerifyClient
from specdec_cli.config import Config, EdgeConfig
from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.decoding.block import Draft
from specdec_cli.decoding.remote import RemoteClip
from specdec_cli.errors import ConfigError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.compiled_steps import let_layers_compile
from specdec_cli.models.engine import forward_together
from specdec_cli.models.loading import resolve_device
from specdec_cli.models.processor import test_sound
from specdec_cli.models.session import Session
from specdec_cli.models.slots import Slots
from specdec_cli.stats import Figures, median
from specdec_cli.transcript.recorder import gpu_mb, peak_rss_mb
from specdec_cli.types import Interval
from tools.forced import MODES, Forced, ForcedLM, ForcedLoop, force, numbers, print_forced, read_texts
from tools.link import linked
from tools.memory import MIB, cache_bytes, weight_bytes
from tools.shapes import SHAPES, Shape, allocated, build, parameters
from tools.table import print_table, spread_text
from tools.timing import BenchClip, Machine, describe_machine

ALLOWANCE_MB: Final = 1536
"""Beyond the weights, what libraries, caches, features and working memory may take, MiB."""

DTYPES: Final = ("bfloat16", "float16", "float32", "int4")
TOKENS: Final = 60
"""Of a whole caption."""
_TIMES: Final = {"prefill": 3, "step": 4, "verification": 4, "caption": 2}
_CLIENTS: Final = 4  # of a server
_CALLS: Final = 16  # of each
_TOGETHER: Final = 16  # clips of a joint step
_IN_A_ROW: Final = 4  # steps or verifications that are timed together: a GPU is slow to begin after a pause
_LONG_S = 60.0  # when a kind of pass has taken so long, it is not repeated any more
_SOUND_S = 5
_INSTRUCTION = "Describe how this person speaks. " * 11  # about 300 tokens with the sound
_COPIED = 1 << 27  # bytes
_COPIES = 5


class ShapeTime(Figures):
    """A model of a published size, made-up weights."""

    name: str
    dtype: str
    graphs: bool = Field(description="whether steps and verifications ran over a cache of fixed size, recorded")
    weights_mb: float = Field(description="all that is held of it, MiB")
    built_s: float = Field(description="making it, s")
    tower_ms: Interval = Field(description="audio tower, ms")
    prefill_ms: Interval = Field(description="the prompt, tower included, ms")
    prompt_tokens: int
    caption_ms: Interval | None = Field(description="prefill and 60 steps, ms; null: chosen texts tell instead")
    step_ms: Interval = Field(description="one token, ms")
    verification_ms: Interval = Field(description="k + 1 tokens in one forward, ms")
    together_ms: Interval | None = Field(description="one token of each of 16 clips, ms; null: no recorded forwards")
    read_mb: float = Field(description="weights that a step reads, MiB")
    floor_ms: float = Field(description="read_mb at the bandwidth of a copy, ms")
    of_floor: float = Field(description="step_ms / floor_ms")
    cache_mb: float = Field(description="keys and values of the clip, MiB")


class Served(Figures):
    """A model behind the server of `specdec serve`, on this machine."""

    name: str
    dtype: str
    alone_ms: float = Field(description="a verification of k tokens for one client, its messages included, ms")
    shared_ms: float = Field(description="the same for each of 4 clients at a time, ms")
    share: float = Field(description="alone_ms / shared_ms: the speed of each, of one alone")


class FullSize(Figures):
    """What was found."""

    date: str = Field(description="UTC, ISO 8601")
    machine: Machine
    device: str
    k: int
    copy_gb_s: float = Field(description="bytes read and written per second by a large copy, in 10^9")
    shapes: list[ShapeTime]
    forced: list[Forced]
    served: list[Served] = Field(description="the last model: the cloud, if there are two")
    peak_mb: float | None = Field(description="most memory held, on the GPU if it is there; MiB")
    budget_mb: float = Field(description="what may be held: the weights as first allocated, and an allowance, MiB")
    within: bool | None = Field(description="peak_mb <= budget_mb")


@dataclass(frozen=True, slots=True)
class Order:
    """What to build and measure.

    Attributes:
        shapes: one, or the edge's and the cloud's.
        dtypes: number formats of the first shape, "int4" included; the cloud has the first.
        device: name of the device.
        k: tokens drafted per round; a verification scores k + 1 positions.
        acceptances: of the forced drafts, with two shapes.
        rounds: how often to force each, if no texts are given.
        rtts: round trips to the cloud, ms; none: it is not behind a link.
        graphs: "auto" (on CUDA, beside runs without), "on" (likewise, on a CPU as well), "compiled" (with compiled
            steps) or "off".
        texts: file of token ids to write, and how many of its lines at most; None: what the cloud writes.
        guesses: numbers of tokens guessed from the texts before, each of which is tried.
        short: whether the prompts of chosen texts are short.
    """

    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    device: str
    k: int
    acceptances: Sequence[float]
    rounds: int
    rtts: Sequence[float] = ()
    graphs: str = "auto"
    texts: tuple[str, int] | None = None
    guesses: Sequence[int] = (0,)
    short: bool = False

    @property
    def models(self) -> list[tuple[Shape, str]]:
        """What to build: the first shape in every number format, and the cloud."""
        edge, *cloud = self.shapes
        return [*((edge, dtype) for dtype in self.dtypes), *((shape, self.dtypes[0]) for shape in cloud)]


def shapes_of(text: str, rtts: Sequence[float] = ()) -> tuple[Shape, ...]:
    """The shapes of a text such as "3b" or "3b,7b".

    Raises:
        ConfigError: there is no such shape, more than two are named, or one with a round trip.
    """
    names = text.lower().split(",")
    if len(names) > 2 or not set(names) <= SHAPES.keys():
        hint = "For an edge and a cloud: 3b,7b"
        raise ConfigError(f"{text} is none of {', '.join(SHAPES)}, nor two of them.", hint=hint)
    if rtts and len(names) < 2:
        raise ConfigError(f"A round trip leads to a cloud, and {text} is an edge.", hint="For example: 3b,mini")
    return tuple(SHAPES[name] for name in names)


def measure(order: Order, say: Callable[[str], None]) -> FullSize:
    """Builds the models, steps them, and forces drafts where there are two.

    Raises:
        ConfigError: the device does not exist, or its memory cannot hold the weights.
        CheckpointError: a package for the number format is missing.
    """
    device = resolve_device(order.device)
    _require_room(order, device)
    bandwidth = copy_bandwidth(device)
    runs: list[_Run] = []
    for shape, dtype in order.models:
        say(f"building {shape.name}: {parameters(shape) / 1e9:.1f} billion weights, {dtype}, on {device}")
        started = time.perf_counter()
        model = ForcedLM(build(shape, dtype=dtype, device=device))
        built_s = time.perf_counter() - started
        runs.append(_Run(model, dtype, order.k + 1, built_s, None))
        if order.graphs in ("on", "compiled") or (order.graphs == "auto" and device.type == "cuda"):
            graphs = Slots(model.module, len(model.new_cache(1).layers), compiled=order.graphs == "compiled")
            if graphs.compiled:
                let_layers_compile(model.module)
            graphs.record()
            runs.append(_Run(model, dtype, order.k + 1, built_s, graphs))
    say("prefills, steps and whole captions, in turns")
    written = len(order.shapes) == 2 or order.texts is not None
    for kind, times in _TIMES.items():
        for _ in range(0 if written and kind == "caption" else times):
            for run in runs:
                run.take(kind)
    forced: list[Forced] = []
    if written:
        say("captions with chosen tokens")
        best = list({run.model: run for run in runs}.values())  # with graphs, where there are any
        forced = list(_forced(best, order))
    say(f"{_CLIENTS} clients of a server")
    served = [_served(runs[-1], order)]
    peak = gpu_mb() if device.type == "cuda" else peak_rss_mb()
    budget = _bytes_in_building(order) / MIB + ALLOWANCE_MB
    return FullSize(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=describe_machine(),
        device=str(device),
        k=order.k,
        copy_gb_s=bandwidth / 1e9,
        shapes=[run.result(bandwidth) for run in runs],
        forced=forced,
        served=served,
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
    return weight_bytes(text.layers) + weight_bytes(text.norm) + weight_bytes(head)


class _Run:
    """One model and the times of its passes, ms; each kind of pass may be taken again and again."""

    def __init__(self, model: ForcedLM, dtype: str, block: int, built_s: float, graphs: Slots | None) -> None:
        self.model, self.dtype, self.block, self.built_s, self.graphs = model, dtype, block, built_s, graphs
        self.taken: dict[str, list[float]] = {kind: [] for kind in ("tower", *_TIMES)}
        self._clip = _clip(model).edge
        first = model.processor.eos_ids[0] + 1
        self._text = [first + at for at in range(TOKENS)]
        self._session = self._prefilled()  # the first pass picks kernels, and records what is repeated
        for end in (1, block):
            self._session.logits(self._text[:end], end)

    def take(self, kind: str) -> None:
        """One more pass, unless such passes have taken too long already."""
        if sum(self.taken[kind]) > 1e3 * _LONG_S:
            return
        self.model.slots = self.graphs
        passes, started = 1, time.perf_counter()
        if kind == "prefill":
            self._session = self._prefilled()
            self.taken["tower"].append(self._session.work.encoder_ms)
        elif kind == "caption":
            self._session = self._prefilled()
            self._feed(1, TOKENS)
        else:
            passes = _IN_A_ROW
            self._feed(1 if kind == "step" else self.block, passes)
        self.model.synchronize()
        self.taken[kind].append(1e3 * (time.perf_counter() - started) / passes)

    def result(self, bandwidth: float) -> ShapeTime:
        """What was found; `bandwidth` of copies, bytes/s."""
        read, step = step_bytes(self.model), median(self.taken["step"])
        floor_ms = 1e3 * read / bandwidth
        return ShapeTime(
            name=self.model.name,
            dtype=self.dtype,
            graphs=self.graphs is not None,
            weights_mb=weight_bytes(self.model.module) / MIB,
            built_s=self.built_s,
            tower_ms=median(self.taken["tower"]),
            prefill_ms=median(self.taken["prefill"]),
            prompt_tokens=len(self._clip.ids),
            step_ms=step,
            verification_ms=median(self.taken["verification"]),
            together_ms=median(self._together()) if self.graphs is not None else None,
            caption_ms=median(self.taken["caption"]) if self.taken["caption"] else None,
            read_mb=read / MIB,
            floor_ms=floor_ms,
            of_floor=step.value / floor_ms,
            cache_mb=cache_bytes(self._session) / MIB,
        )

    def _together(self) -> list[float]:
        """Times of joint steps of clips in slots, ms, after one that is not counted."""
        assert self.graphs is not None
        self.model.slots = self.graphs.like(_TOGETHER, compiled=self.graphs.compiled)
        self.model.slots.record()
        sessions = [Session(self.model, self._clip, TOKENS) for _ in range(_TOGETHER)]
        for session in sessions:
            session.prefill()
        taken = []
        for end in range(1, 2 + _TIMES["step"] * _IN_A_ROW):
            started = time.perf_counter()
            forward_together([(session, self._text[:end], 1) for session in sessions])
            self.model.synchronize()
            taken.append(1e3 * (time.perf_counter() - started))
        return taken[1:]

    def _feed(self, size: int, times: int) -> None:
        """So many forwards of `size` tokens each, behind those before."""
        for _ in range(times):
            end = len(self._session.fed) + size
            self._session.logits((self._text * 10)[:end], size)

    def _prefilled(self) -> Session:
        self.model.slots = self.graphs
        session = Session(self.model, self._clip, 10 * TOKENS)
        session.prefill()
        return session


def _forced(runs: Sequence[_Run], order: Order) -> Iterator[Forced]:
    """Whole captions with chosen tokens, the number formats in turns."""
    for run in runs:
        run.model.slots = run.graphs
    edges = runs[: len(order.dtypes)]
    cloud = runs[-1].model if len(order.shapes) == 2 else None
    texts: list[list[int]] | int = order.rounds
    if order.texts is not None:
        barred = {id_ for run in runs for id_ in (*run.model.processor.banned_ids, *run.model.processor.eos_ids)}
        texts = read_texts(*order.texts, barred, min(shape.vocabulary for shape in order.shapes))
    decoding = DecodingConfig(mode="edge" if cloud is None else "lossless", k=order.k)
    for rtt in order.rtts or (None,):
        here = cloud is None or rtt is None
        with nullcontext() if here else linked(cloud, edges[0].model.processor, rtt) as link:  # type: ignore[arg-type]
            loops = []
            for edge in edges:
                config = Config(edge=EdgeConfig(model=edge.model.name), decoding=decoding)
                own, other = (_clip(model, short=order.short).edge for model in (edge.model, cloud or edge.model))
                clip = BenchClip("test sound", _SOUND_S, own, other)
                name = edge.dtype if rtt is None else f"{edge.dtype}, {rtt:g} ms"
                loops.append(ForcedLoop(edge.model, cloud, clip, config, name, link))
            alone = cloud is None
            acceptances = (1.0,) if alone else order.acceptances
            yield from force(loops, acceptances, texts, ("edge",) if alone else MODES, order.guesses)


def _served(run: _Run, order: Order) -> Served:
    """Verifications by a server, for one client and for several at a time."""
    run.model.slots = run.graphs
    model = run.model
    model.choose((), 0)
    alone_ms, shared_ms = (_clients_ms(model, order, clients) for clients in (1, _CLIENTS))
    return Served(name=model.name, dtype=run.dtype, alone_ms=alone_ms, shared_ms=shared_ms, share=alone_ms / shared_ms)


def _clients_ms(model: AudioLM, order: Order, clients: int) -> float:
    """Milliseconds of a verification, over all of so many clients; each has a clip that the server has read."""
    draft = Draft(tuple(range(1, 1 + order.k)))
    config = Config(decoding=DecodingConfig(mode="cloud", guess_tokens=0))
    prompt = _clip(model, short=order.short).cloud
    clip = RemoteClip(lambda: prompt, config, model.processor.vocab_size, ())
    ready = threading.Barrier(clients)

    def work(cloud: VerifyClient) -> float:
        verifier, text = cloud.verifier(clip), list[int]()
        try:
            for number in range(_CALLS + 1):
                if number == 1:  # the first one reads the clip
                    ready.wait()
                    started = time.perf_counter()
                verdict = verifier.verify(text, draft)
                text += [*draft.ids[: verdict.accepted], verdict.token]
            return 1e3 * (time.perf_counter() - started) / _CALLS
        finally:
            verifier.close()

    with linked(model, model.processor, 0.0) as cloud, ThreadPoolExecutor(clients) as pool:
        return statistics.mean(pool.map(work, [cloud] * clients))


def _clip(model: AudioLM, *, short: bool = False) -> BenchClip:
    processor = model.processor
    sound = test_sound(1.0 if short else _SOUND_S, processor.sampling_rate)
    prompt = processor.prompt(sound, "How?" if short else _INSTRUCTION)
    return BenchClip("test sound", _SOUND_S, prompt, prompt)


def _timed(device: torch.device, work: Callable[[], Any]) -> float:
    """Seconds until `work` is done, on the device too."""
    started = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def _require_room(order: Order, device: torch.device) -> None:
    """Refuses what would push the machine into swapping."""
    needed = _bytes_in_building(order) + ALLOWANCE_MB * MIB
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    if needed > free:
        names = ",".join(shape.name for shape in order.shapes)
        raise ConfigError(
            f"{names} needs {needed / 2**30:.1f} GiB on {device}, and {free / 2**30:.1f} GiB are free.",
            hint="Take a smaller shape, or a GPU with enough memory: --device cuda",
        )


def _bytes_in_building(order: Order) -> int:
    """Weights as they are allocated."""
    return sum(allocated(shape, dtype) for shape, dtype in order.models)


def _print(found: FullSize) -> None:
    machine = found.machine
    print(f"{machine.gpu or machine.processor}, {machine.threads} threads, torch {machine.torch}, {found.date}")
    print(f"{found.device}, k {found.k}, copies at {found.copy_gb_s:.1f} GB/s, made-up weights")
    figures: dict[str, Callable[[ShapeTime], str]] = {
        "weights, MiB": lambda shape: f"{shape.weights_mb:.0f}",
        "built in, s": lambda shape: f"{shape.built_s:.1f}",
        f"audio encoder, {_SOUND_S} s, ms": lambda shape: spread_text(shape.tower_ms),
        "prefill, ms": lambda shape: spread_text(shape.prefill_ms),
        "its tokens": lambda shape: f"{shape.prompt_tokens}",
        "step, ms": lambda shape: spread_text(shape.step_ms),
        "verification, ms": lambda shape: spread_text(shape.verification_ms),
        f"step of {_TOGETHER} clips, ms": lambda shape: spread_text(shape.together_ms) if shape.together_ms else "-",
        "their tokens/s": lambda shape: (
            f"{1e3 * _TOGETHER / shape.together_ms.value:.0f}" if shape.together_ms else "-"
        ),
        f"{TOKENS} tokens, ms": lambda shape: spread_text(shape.caption_ms) if shape.caption_ms else "-",
        "floor of a step, ms": lambda shape: f"{shape.floor_ms:.2f} for {shape.read_mb:.0f} MiB",
        "step / floor": lambda shape: f"{shape.of_floor:.2f}",
        "cache, MiB": lambda shape: f"{shape.cache_mb:.1f}",
    }
    rows = [[label, *map(figure, found.shapes)] for label, figure in figures.items()]
    names = [f"{shape.name} {shape.dtype}{' graphs' if shape.graphs else ''}" for shape in found.shapes]
    print_table("", ["", *names], rows)
    if found.forced:
        print_forced(found.forced)
    for each in found.served:
        print(
            f"served {each.name}, {each.dtype}: a verification takes {each.alone_ms:.1f} ms for one client, "
            f"{each.shared_ms:.1f} ms for each of {_CLIENTS}: {each.share:.2f} of the speed of one alone"
        )
    if found.peak_mb is not None:
        verdict = "within" if found.within else "ABOVE"
        print(f"peak {found.peak_mb:.0f} MiB, {verdict} the budget of {found.budget_mb:.0f} MiB")


def main(
    shape: Annotated[str, typer.Argument(metavar="3b|7b|EDGE,CLOUD", help="Published sizes.")],
    dtype: Annotated[str, typer.Option(help=f"Of {', '.join(DTYPES)}; the cloud has the first.")] = "bfloat16",
    device: Annotated[str, typer.Option(help="Where to put them.")] = "auto",
    k: Annotated[int, typer.Option("-k", min=1, help="Drafted tokens in a block.")] = 5,
    acceptance: Annotated[str, typer.Option(help="Of the forced drafts, with two shapes.")] = "0.6,0.8,0.9",
    rounds: Annotated[int, typer.Option(min=1, help="How often to force each.")] = 3,
    graphs: Annotated[str, typer.Option(help="CUDA graphs beside eager ones: auto, on, compiled, off.")] = "auto",
    texts: Annotated[str | None, typer.Option(help="File of captions to write: a line of token ids each.")] = None,
    clips: Annotated[int, typer.Option(min=1, help="How many of them at most.")] = 40,
    guesses: Annotated[str, typer.Option(help="Tokens guessed from the captions before; several are compared.")] = "0",
    short: Annotated[bool, typer.Option("--short", help="Prompts of 1 s of sound in place of 300 tokens.")] = False,
    rtt: Annotated[str | None, typer.Option(help="Round trips to a cloud behind server and relay, ms.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of PyTorch.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Build models of published sizes, time their forwards, and force drafts where there are two."""
    if not {*dtype.split(",")} <= {*DTYPES}:
        raise typer.BadParameter(f"--dtype {dtype} is none of {', '.join(DTYPES)}, nor several of them")
    if threads is not None:
        torch.set_num_threads(threads)
    rtts = numbers(rtt or "")
    order = Order(
        shapes=shapes_of(shape, rtts),
        dtypes=tuple(dtype.split(",")),
        device=device,
        k=k,
        acceptances=numbers(acceptance, most=1.0),
        rounds=rounds,
        rtts=rtts,
        graphs=graphs,
        texts=None if texts is None else (texts, clips),
        guesses=[int(most) for most in numbers(guesses, most=64)],
        short=short,
    )
    found = measure(order, lambda line: typer.echo(line, err=True))
    if json:
        print(found.model_dump_json())
    else:
        _print(found)


if __name__ == "__main__":
    typer.run(main)
