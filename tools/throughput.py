"""What a batch gains over one clip after the other, and where its time goes: `python -m tools.throughput`.

All ways take turns over the same groups of recordings, in one process and in an order that rotates. Times by part are
CPU seconds of the thread that did the work, so what other processes do does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from statistics import median
from typing import Final

import psutil
import torch

from specdec_cli.batch.local import LocalBackend
from specdec_cli.batch.tasks import Outcome, Task
from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.inputs import InputFile, Paths
from tools.meter import PARTS, Clock, Meter

SIZES: Final = (1, 10, 100, 1000)
"""Clips of the batches whose cost and memory are compared."""

_WARM_UP: Final = 4


@dataclass(frozen=True, slots=True)
class Way:
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
class Took:
    """What captioning some recordings took.

    Attributes:
        way: name of the way.
        clips, tokens: how many recordings, and how many tokens their captions have.
        wall_s: seconds by the clock.
        cpu_s: CPU seconds of the process.
        parts: CPU seconds by part, see `meter.PARTS`; what is left of `cpu_s` is transcripts and everything else.
        rss_mb: resident memory behind it, MiB.
    """

    way: str
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


def ways(threads: int) -> list[Way]:
    """The batch, and each mode one clip after the other, with one thread and with all of them."""
    several = [Way("hybrid, batch", "hybrid", True, threads)]
    for count in sorted({1, threads}):
        noun = "thread" if count == 1 else "threads"
        several += [Way(f"{mode}, one by one, {count} {noun}", mode, False, count) for mode in ("hybrid", "edge")]
    return several


class Bench:
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

    def run(self, way: Way, files: Sequence[str]) -> Took:
        """Captions `files` in one way. Recordings that cannot be captioned cost time and give no tokens."""
        captioner = self._captioners[way.mode]
        # A batch computes with one thread per clip and in several clips' threads at once; alone, all threads of a
        # product belong to the clip.
        clock: Clock = time.thread_time if way.batch or way.threads == 1 else time.process_time
        with _threads(way.threads), Meter(captioner, clock) as meter:
            wall, cpu = time.perf_counter(), time.process_time()
            tokens = self._together(captioner, files) if way.batch else sum(_alone(captioner, file) for file in files)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        rss = psutil.Process().memory_info().rss / 2**20
        return Took(way.name, len(files), tokens, wall, cpu, dict(meter.seconds), rss)

    def _together(self, captioner: Captioner, files: Sequence[str]) -> int:
        outcomes: list[int] = []

        def deliver(outcome: Outcome) -> None:
            outcomes.append(sum(line.totals.tokens for line in outcome.lines if line.totals))

        backend = LocalBackend(captioner, batch_size=self._batch_size, workers=self._workers)
        backend.run((Task(InputFile(file)) for file in files), deliver, lambda: False)
        return sum(outcomes)


def take_turns(bench: Bench, files: Sequence[str], several: Sequence[Way], group: int) -> Iterator[Took]:
    """Every way over every group of `group` recordings, in an order that rotates, after a warm-up."""
    for way in several:
        bench.run(way, files[:_WARM_UP])
    for turn, start in enumerate(range(0, len(files), group)):
        first = turn % len(several)
        for way in (*several[first:], *several[:first]):
            yield bench.run(way, files[start : start + group])


def grow(bench: Bench, files: Sequence[str], way: Way, sizes: Sequence[int] = SIZES) -> Iterator[Took]:
    """One way over more and more recordings; where there are too few they come again."""
    for size in sizes:
        yield bench.run(way, list(islice(cycle(files), size)))


def ratios(took: Sequence[Took], way: str, baseline: str) -> list[float]:
    """Tokens/s of one way over another's, for every group that both went through."""
    pairs = zip([t for t in took if t.way == way], [t for t in took if t.way == baseline], strict=True)
    return [ours.tokens_per_s / theirs.tokens_per_s for ours, theirs in pairs]


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _alone(captioner: Captioner, file: str) -> int:
    return sum(line.totals.tokens for line in captioner.captions(file) if line.totals)


def _table(took: Sequence[Took], several: Sequence[Way]) -> Iterator[str]:
    """Tokens/s with the slowest and fastest group, and CPU milliseconds a clip by part."""
    heads = [*(part for part in PARTS), "rest"]
    yield f"{'':34}{'tokens/s':>10}{'slowest':>9}{'fastest':>9}{'CPU ms':>8}" + "".join(f"{h:>13}" for h in heads)
    for way in several:
        runs = [t for t in took if t.way == way.name]
        clips, pace = sum(t.clips for t in runs), [t.tokens_per_s for t in runs]
        cpu = sum(t.cpu_s for t in runs)
        parts = [sum(t.parts.get(part, 0.0) for t in runs) for part in PARTS]
        row = [*parts, cpu - sum(parts)]
        mean = sum(t.tokens for t in runs) / sum(t.wall_s for t in runs)
        yield (
            f"{way.name:34}{mean:10.1f}{min(pace):9.1f}{max(pace):9.1f}{1e3 * cpu / clips:8.1f}"
            + "".join(f"{1e3 * seconds / clips:13.1f}" for seconds in row)
        )


def _sizes(grown: Sequence[Took]) -> Iterator[str]:
    yield f"{'clips':>6}{'ms a clip':>11}{'CPU ms a clip':>15}{'tokens/s':>10}{'RSS MiB':>9}"
    for t in grown:
        wall, cpu = (1e3 * seconds / t.clips for seconds in (t.wall_s, t.cpu_s))
        yield f"{t.clips:6}{wall:11.1f}{cpu:15.1f}{t.tokens_per_s:10.1f}{t.rss_mb:9.0f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.throughput", description=__doc__)
    parser.add_argument("--data", required=True, metavar="DIR", help="folder of recordings, searched at every depth")
    parser.add_argument("--clips", type=int, default=200, help="recordings to take, evenly over the folder")
    parser.add_argument("--group", type=int, default=50, help="recordings that one way captions before the next turn")
    parser.add_argument("--config", default="mini", help="shipped configuration or a YAML file")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of PyTorch")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="clips of batches that grow; empty: none")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    return parser


def main() -> None:
    """The command."""
    given = _parser().parse_args()
    found = sorted(found.path for found in Paths([str(given.data)], recursive=True))
    files = [found[index * len(found) // given.clips] for index in range(min(given.clips, len(found)))]
    bench, several = Bench(given.config, workers=min(os.cpu_count() or 1, 4)), ways(given.threads)
    took = list(take_turns(bench, files, several, given.group))
    grown = list(grow(bench, files, several[0], [int(size) for size in given.sizes.split(",") if size]))
    if given.json:
        json.dump({"turns": [asdict(t) for t in took], "sizes": [asdict(t) for t in grown]}, sys.stdout)
        return
    print(*_table(took, several), sep="\n")
    for way in several[1:]:
        found_ratios = ratios(took, several[0].name, way.name)
        spread = f"{min(found_ratios):.2f} to {max(found_ratios):.2f} over {len(found_ratios)} groups"
        print(f"{several[0].name} / {way.name}: {median(found_ratios):.2f} ({spread})")
    print(*_sizes(grown), sep="\n")


if __name__ == "__main__":
    main()
