"""Models of published sizes with made-up weights: `python -m tools.full_size 3b --dtype bfloat16,int4`.

Do they fit on this machine, how near are their steps to what its memory allows, and what do fewer bits and CUDA graphs
save? Number formats take turns, with and without graphs, so that whatever else the machine does meets them alike.

A step of a large model at batch 1 reads every weight of the decoder and of the output layer once and does little with
it, so that bytes of weights over memory bandwidth is its floor.

Two shapes, `3b,7b`, are an edge, in each number format, and a cloud, and caption with chosen tokens: the cloud chooses
the text, and the edge the same with a wrong token in its place with probability 1 - a (seeded), of which it is unsure.
So a verified token is accepted with probability a, independently of all others, as the formulas of speculative decoding
assume, and in hybrid mode an entropy gate escalates exactly the blocks with a wrong token. The two work by turns, so
that neither takes time from the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import psutil
import torch
import typer

from specdec_cli.config import Config
from specdec_cli.config.decoding_schema import DecodingConfig, GateConfig
from specdec_cli.decoding.block import Block
from specdec_cli.decoding.pair import Pair
from specdec_cli.errors import ConfigError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.compiled_steps import let_layers_compile
from specdec_cli.models.loading import resolve_device
from specdec_cli.models.processor import Prompt, test_sound
from specdec_cli.models.session import Session
from specdec_cli.models.slots import Slots
from specdec_cli.stats import median
from specdec_cli.types import Finished, Mode
from tools.made_up import SHAPES, ChosenLM, allocated, build, weight_bytes
from tools.report import machine, print_table, spread_text

MIB: Final = 2**20
ALLOWANCE_MB: Final = 1536
"""Beyond the weights, what libraries, caches, features and working memory may take, MiB."""
DTYPES: Final = ("bfloat16", "float16", "float32", "int4")
TOKENS: Final = 60
"""Of a whole caption."""
TEXT: Final = [1000 + at for at in range(TOKENS)]
MODES: Final[tuple[Mode, ...]] = ("cloud", "lossless", "hybrid")
_TIMES: Final = {"prefill": 3, "step": 4, "verification": 4, "caption": 2}
_IN_A_ROW: Final = 4  # steps or verifications that are timed together: a GPU is slow to begin after a pause
_LONG_S = 60.0  # when a kind of pass has taken so long, it is not repeated any more
_SOUND_S = 5
_INSTRUCTION = "Describe how this person speaks. " * 11  # about 300 tokens with the sound
_UNSURE_NATS: Final = 0.5  # entropy of a token that the edge is unsure of, at least; of a sure one it is 0
_COPIED = 1 << 27  # bytes
_COPIES = 5


class Passes:
    """One model, with or without recorded forwards, and the times of its passes, ms."""

    def __init__(self, model: ChosenLM, dtype: str, k: int, graphs: Slots | None) -> None:
        self.model, self.block, self.graphs = model, k + 1, graphs
        self.name = f"{model.name} {dtype}{' graphs' if graphs else ''}"
        self.taken: dict[str, list[float]] = {kind: [] for kind in _TIMES}
        self.prompt = prompt_of(model)
        self._session = self._prefilled()  # the first pass picks kernels, and records what is repeated
        for end in (1, self.block):
            self._session.logits(TEXT[:end], end)

    def take(self, kind: str) -> None:
        """One more pass, unless such passes have taken too long already."""
        if sum(self.taken[kind]) > 1e3 * _LONG_S:
            return
        self.model.slots = self.graphs
        passes, started = 1, time.perf_counter()
        if kind == "prefill":
            self._session = self._prefilled()
        elif kind == "caption":
            self._session = self._prefilled()
            self._feed(1, TOKENS)
        else:
            passes = _IN_A_ROW
            self._feed(1 if kind == "step" else self.block, passes)
        self.model.synchronize()
        self.taken[kind].append(1e3 * (time.perf_counter() - started) / passes)

    def figures(self, bandwidth: float) -> dict[str, str]:
        """Label -> figure; `bandwidth` of copies, bytes/s."""
        read, times = step_bytes(self.model), {kind: median(taken) for kind, taken in self.taken.items() if taken}
        spread = {kind: spread_text(found) for kind, found in times.items()}
        floor_ms = 1e3 * read / bandwidth
        return {
            "weights, MiB": f"{weight_bytes(self.model.module) / MIB:.0f}",
            "prefill, ms": spread["prefill"],
            "its tokens": f"{len(self.prompt.ids)}",
            "step, ms": spread["step"],
            "verification, ms": spread["verification"],
            f"{TOKENS} tokens, ms": spread.get("caption", "-"),
            "floor of a step, ms": f"{floor_ms:.2f} for {read / MIB:.0f} MiB",
            "step / floor": f"{times['step'].value / floor_ms:.2f}",
        }

    def _feed(self, size: int, times: int) -> None:
        """So many forwards of `size` tokens each, behind those before."""
        for _ in range(times):
            end = len(self._session.fed) + size
            self._session.logits((TEXT * 10)[:end], size)

    def _prefilled(self) -> Session:
        self.model.slots = self.graphs
        session = Session(self.model, self.prompt, 10 * TOKENS)
        session.logits(())
        return session


def step_bytes(model: AudioLM) -> int:
    """Weights that a step reads: decoder layers, last norm and output layer; of the embedding only a row."""
    text, head = model.module.model.language_model, model.module.lm_head
    return weight_bytes(text.layers) + weight_bytes(text.norm) + weight_bytes(head)


def prompt_of(model: AudioLM) -> Prompt:
    """The prompt of a sound."""
    return model.processor.prompt(test_sound(_SOUND_S, model.processor.sampling_rate), _INSTRUCTION)


def caption(edge: ChosenLM, cloud: ChosenLM, mode: Mode, k: int, acceptance: float, seed: int) -> list[float]:
    """Captions the sound with chosen tokens.

    Returns tokens per second after the prefills, the drafted tokens that the cloud accepted, and those that it
    verified: after the first rejected one it verifies none (Leviathan et al. 2023).
    """
    drawn = torch.rand(TOKENS, generator=torch.Generator().manual_seed(seed))
    wrong = [at for at, chance in enumerate(drawn.tolist()) if chance >= acceptance]
    prompts = prompt_of(edge), prompt_of(cloud)
    edge.choose([id_ + (at in wrong) for at, id_ in enumerate(TEXT)], len(prompts[0].ids), wrong)
    cloud.choose(TEXT, len(prompts[1].ids))
    decoding = DecodingConfig(
        mode=mode, k=k, max_new_tokens=TOKENS, loop_period=0, fallback="off", guess_tokens=0, sound=()
    )
    gate = GateConfig(name="entropy", threshold=_UNSURE_NATS) if mode == "hybrid" else GateConfig()
    loop = Pair.of(edge, cloud).new_loop(Config(decoding=decoding, gate=gate), (prompts[0], lambda: prompts[1]))
    *events, finished = loop.events()
    assert isinstance(finished, Finished)
    if list(finished.token_ids) != TEXT:
        raise RuntimeError(f"{mode} wrote {finished.token_ids}")
    escalated = [event for event in events if isinstance(event, Block) and event.escalated]
    reading_ms = sum(work.reading_ms for work in (finished.edge, finished.cloud) if work is not None)
    accepted = sum(event.accepted for event in escalated)
    verified = sum(min(event.accepted + 1, len(event.draft_ids)) for event in escalated)
    return [1e3 * TOKENS / (finished.total_ms - reading_ms), accepted, verified]


def captioned(edges: Sequence[Passes], cloud: Passes, acceptances: Sequence[float], rounds: int) -> Iterator[list[str]]:
    """A row for each acceptance, edge and mode, in turns."""
    for each in (*edges, cloud):
        each.model.slots = each.graphs
    for acceptance in acceptances:
        runs: dict[tuple[str, Mode], list[list[float]]] = {}
        for seed in range(rounds):
            for edge in edges:
                for mode in MODES:
                    run = caption(edge.model, cloud.model, mode, cloud.block - 1, acceptance, seed)
                    runs.setdefault((edge.name, mode), []).append(run)
        for (name, mode), own in runs.items():
            speeds, accepted, verified = zip(*own, strict=True)
            share = f"{sum(accepted) / sum(verified):.2f}" if mode == "lossless" else "-"
            yield [name, mode, f"{acceptance:g}", share, spread_text(median(speeds))]


def copy_bandwidth(device: torch.device) -> float:
    """Bytes read and written per second when a large tensor is copied; the best of several copies."""
    source = torch.ones(_COPIED // 4, device=device)
    target, times = torch.empty_like(source), list[float]()
    for _ in range(_COPIES):
        started = time.perf_counter()
        target.copy_(source)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return 2 * _COPIED / min(times)


def require_room(models: Sequence[tuple[str, str]], device: torch.device) -> None:
    """Refuses what would push the machine into swapping: ConfigError."""
    needed = sum(allocated(*model) for model in models) + ALLOWANCE_MB * MIB
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    if needed > free:
        names = ", ".join(" ".join(model) for model in models)
        raise ConfigError(
            f"{names} needs {needed / 2**30:.1f} GiB on {device}, and {free / 2**30:.1f} GiB are free.",
            hint="Take a smaller shape, or a GPU with enough memory: --device cuda",
        )


def main(
    shape: Annotated[str, typer.Argument(metavar="3b|7b|EDGE,CLOUD", help="Published sizes.")],
    dtype: Annotated[str, typer.Option(help=f"Of {', '.join(DTYPES)}; the cloud has the first.")] = "bfloat16",
    device: Annotated[str, typer.Option(help="Where to put them.")] = "auto",
    k: Annotated[int, typer.Option("-k", min=1, help="Drafted tokens in a block.")] = 5,
    acceptance: Annotated[str, typer.Option(help="Of drafted tokens, with two shapes.")] = "0.6,0.8,0.9",
    rounds: Annotated[int, typer.Option(min=1, help="Captions at each acceptance.")] = 3,
    graphs: Annotated[str, typer.Option(help="CUDA graphs beside eager ones: auto, on, compiled, off.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of PyTorch.")] = None,
) -> None:
    """Build models of published sizes, time their forwards, and caption with chosen tokens where there are two."""
    (edge, *cloud), formats = shape.lower().split(","), dtype.split(",")
    if len(cloud) > 1 or not {edge, *cloud} <= SHAPES.keys():
        raise typer.BadParameter(f"{shape} is none of {', '.join(SHAPES)}, nor two of them, such as 3b,7b")
    if not {*formats} <= {*DTYPES}:
        raise typer.BadParameter(f"--dtype {dtype} is none of {', '.join(DTYPES)}, nor several of them")
    if threads is not None:
        torch.set_num_threads(threads)
    models = [*((edge, each) for each in formats), *((each, formats[0]) for each in cloud)]
    place = resolve_device(device)
    require_room(models, place)
    bandwidth = copy_bandwidth(place)
    runs: list[Passes] = []
    best: list[Passes] = []  # of each model, with graphs where there are any
    for name, each in models:
        model = build(name, each, place)
        runs.append(Passes(model, each, k, None))
        if graphs in ("on", "compiled") or (graphs == "auto" and place.type == "cuda"):
            slots = Slots(model.module, len(model.new_cache(1).layers), compiled=graphs == "compiled")
            if slots.compiled:
                let_layers_compile(model.module)
            slots.record()
            runs.append(Passes(model, each, k, slots))
        best.append(runs[-1])
    for kind, times in _TIMES.items():
        for _ in range(0 if cloud and kind == "caption" else times):
            for run in runs:
                run.take(kind)
    print(f"{machine()}; {place}, k {k}, copies at {bandwidth / 1e9:.1f} GB/s, made-up weights")
    figures = [run.figures(bandwidth) for run in runs]
    rows = [[label, *(each[label] for each in figures)] for label in figures[0]]
    print_table("", ["", *(run.name for run in runs)], rows)
    if cloud:
        shares = [float(each) for each in acceptance.split(",")]
        columns = ["", "mode", "a", "accepted", "tokens/s"]
        print_table(
            "Captions with chosen tokens, after the prefills", columns, captioned(best[:-1], best[-1], shares, rounds)
        )


if __name__ == "__main__":
    typer.run(main)
