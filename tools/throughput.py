"""What a batch gains over one clip after the other, and where its time goes: `python -m tools.throughput`.

All variants take turns over the same groups of recordings, in one process and in an order that rotates. Times by part
are CPU seconds of the thread that did the work, so what other processes do does not count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from json import dumps
from statistics import median
from typing import Annotated, Final

import psutil
import torch
import typer

from specdec_cli.batch.local import LocalBackend
from specdec_cli.batch.tasks import Outcome, Task
from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.inputs.find import Paths
from specdec_cli.inputs.recording import InputFile
from tools.meter import PARTS, Clock, Meter
from tools.table import print_table

_WARM_UP: Final = 4


@dataclass(frozen=True, slots=True)
class Variant:
    """How a group of recordings is captioned.

    Attributes:
        name: for tables.
        mode: of decoding.
        batch: together, or one after the other.
        threads: of PyTorch.
    """

    name: str
    mode: str
    batch: bool
    threads: int


@dataclass(frozen=True, slots=True)
class Timing:
    """What captioning some recordings took.

    Attributes:
        variant: name of the variant.
        clips, tokens: how many recordings, and how many tokens their captions have.
        wall_s: seconds by the clock.
        cpu_s: CPU seconds of the process.
        parts: CPU seconds by part, see `meter.PARTS`; what is left of `cpu_s` is transcripts and everything else.
        rss_mb: resident memory after it, MiB.
    """

    variant: str
    clips: int
    tokens: int
    wall_s: float
    cpu_s: float
    parts: dict[str, float]
    rss_mb: float

    @property
    def tokens_per_s(self) -> float:
        """Tokens of the captions / seconds by the clock."""
        return self.tokens / self.wall_s


def variants(threads: int) -> list[Variant]:
    """The batch, and each mode one clip after the other, with one thread and with all of them."""
    several = [Variant("hybrid, batch", "hybrid", True, threads)]
    for count in sorted({1, threads}):
        noun = "thread" if count == 1 else "threads"
        several += [Variant(f"{mode}, one by one, {count} {noun}", mode, False, count) for mode in ("hybrid", "edge")]
    return several


class Runner:
    """Captions recordings in several ways with one loaded pair.

    Args:
        config: name or path of the configuration; its mode does not matter.
        batch_size: clips decoded together; None: as many as pays.
        workers: threads that read ahead of a batch.
    """

    def __init__(self, config: str, *, batch_size: int | None = None, workers: int = 2) -> None:
        self._hybrid = Captioner.load(config, {"decoding.mode": "hybrid"})
        edge = load_config(config, flags={"decoding.mode": "edge"}).config
        self._captioners = {"hybrid": self._hybrid, "edge": self._hybrid.variant(edge)}
        self._batch_size = batch_size
        self._workers = workers

    def run(self, variant: Variant, files: Sequence[str]) -> Timing:
        """Captions `files`. Recordings that cannot be captioned cost time and give no tokens."""
        captioner = self._captioners[variant.mode]
        # A batch computes with one thread per clip and in several clips' threads at once; alone, all threads of a
        # product belong to the clip.
        clock: Clock = time.thread_time if variant.batch or variant.threads == 1 else time.process_time
        with _threads(variant.threads), Meter(captioner, clock) as meter:
            wall, cpu = time.perf_counter(), time.process_time()
            tokens = self._together(captioner, files) if variant.batch else _one_by_one(captioner, files)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        rss = psutil.Process().memory_info().rss / 2**20
        return Timing(variant.name, len(files), tokens, wall, cpu, dict(meter.seconds), rss)

    def _together(self, captioner: Captioner, files: Sequence[str]) -> int:
        outcomes: list[int] = []

        def deliver(outcome: Outcome) -> None:
            outcomes.append(sum(line.totals.tokens for line in outcome.lines if line.totals))

        backend = LocalBackend(captioner, batch_size=self._batch_size, workers=self._workers)
        backend.run((Task(InputFile(file)) for file in files), deliver, lambda: False)
        return sum(outcomes)


def take_turns(runner: Runner, files: Sequence[str], several: Sequence[Variant], group: int) -> Iterator[Timing]:
    """Every variant over every group of `group` recordings, in an order that rotates, after a warm-up."""
    for variant in several:
        runner.run(variant, files[:_WARM_UP])
    for turn, start in enumerate(range(0, len(files), group)):
        first = turn % len(several)
        for variant in (*several[first:], *several[:first]):
            yield runner.run(variant, files[start : start + group])


def grow(runner: Runner, files: Sequence[str], variant: Variant, sizes: Sequence[int]) -> Iterator[Timing]:
    """One variant over more and more recordings; where there are too few they come again."""
    for size in sizes:
        yield runner.run(variant, list(islice(cycle(files), size)))


def ratios(timings: Sequence[Timing], variant: str, baseline: str) -> list[float]:
    """Tokens/s of one variant over another's, for every group that both went through."""
    pairs = zip(
        [t for t in timings if t.variant == variant], [t for t in timings if t.variant == baseline], strict=True
    )
    return [ours.tokens_per_s / theirs.tokens_per_s for ours, theirs in pairs]


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _one_by_one(captioner: Captioner, files: Sequence[str]) -> int:
    return sum(line.totals.tokens for file in files for line in captioner.captions(file) if line.totals)


def _print_variants(timings: Sequence[Timing], several: Sequence[Variant]) -> None:
    """Tokens/s with the slowest and fastest group, and CPU milliseconds a clip by part."""
    rows = []
    for variant in several:
        runs = [run for run in timings if run.variant == variant.name]
        clips, cpu_s = sum(run.clips for run in runs), sum(run.cpu_s for run in runs)
        parts = [sum(run.parts.get(part, 0.0) for run in runs) for part in PARTS]
        mean = sum(run.tokens for run in runs) / sum(run.wall_s for run in runs)
        speeds = [mean, *(pick(run.tokens_per_s for run in runs) for pick in (min, max))]
        milliseconds = [1e3 * seconds / clips for seconds in (cpu_s, *parts, cpu_s - sum(parts))]
        rows.append([variant.name, *(f"{figure:.1f}" for figure in (*speeds, *milliseconds))])
    print_table("", ["", "tokens/s", "slowest", "fastest", "CPU ms", *PARTS, "rest"], rows)


def _print_sizes(grown: Sequence[Timing]) -> None:
    rows = [
        [
            str(run.clips),
            f"{1e3 * run.wall_s / run.clips:.1f}",
            f"{1e3 * run.cpu_s / run.clips:.1f}",
            f"{run.tokens_per_s:.1f}",
            f"{run.rss_mb:.0f}",
        ]
        for run in grown
    ]
    print_table("", ["clips", "ms a clip", "CPU ms a clip", "tokens/s", "RSS MiB"], rows)


def main(
    data: Annotated[str, typer.Option(metavar="DIR", help="Folder of recordings, searched at every depth.")],
    clips: Annotated[int, typer.Option(min=1, help="Recordings to take, evenly over the folder.")] = 200,
    group: Annotated[int, typer.Option(min=1, help="Recordings of a variant before the next one's turn.")] = 50,
    config: Annotated[str, typer.Option(help="Shipped configuration or a YAML file.")] = "mini",
    threads: Annotated[int | None, typer.Option(min=1, help="Of PyTorch. [default: as many as it takes]")] = None,
    sizes: Annotated[str, typer.Option(help="Clips of batches that grow; empty: none.")] = "1,10,100,1000",
    json: Annotated[bool, typer.Option("--json", help="Print what was measured as JSON.")] = False,
) -> None:
    """Caption the same recordings in a batch and one by one, in turns, and compare time and memory."""
    found = sorted(found.path for found in Paths([str(data)], recursive=True))
    files = [found[index * len(found) // clips] for index in range(min(clips, len(found)))]
    runner = Runner(config, workers=min(os.cpu_count() or 1, 4))
    several = variants(threads or torch.get_num_threads())
    timings = list(take_turns(runner, files, several, group))
    grown = list(grow(runner, files, several[0], [int(size) for size in sizes.split(",") if size]))
    if json:
        print(dumps({"turns": [asdict(run) for run in timings], "sizes": [asdict(run) for run in grown]}))
        return
    _print_variants(timings, several)
    for variant in several[1:]:
        over = ratios(timings, several[0].name, variant.name)
        spread = f"{min(over):.2f} to {max(over):.2f} over {len(over)} groups"
        print(f"{several[0].name} / {variant.name}: {median(over):.2f} ({spread})")
    _print_sizes(grown)


if __name__ == "__main__":
    typer.run(main)
