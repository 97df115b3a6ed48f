"""The page of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.text import Text

from specdec_cli.console.cells import Prose
from specdec_cli.console.tables import facts, grid
from specdec_cli.console.theme import BAD, FAIL, GOOD, OK, STRONG
from specdec_cli.evaluate.bootstrap import Interval
from specdec_cli.evaluate.comparison_tables import Cell, FigureRow, measured
from specdec_cli.format import count, milliseconds, seconds, share, short

if TYPE_CHECKING:
    from specdec_cli.bench.contenders import Bench, ContenderTime

_ROWS: Final[tuple[tuple[str, Callable[[ContenderTime], Interval | float | None], Callable[[float], str]], ...]] = (
    ("a clip", lambda found: found.clip_ms, milliseconds),
    ("tokens/s", lambda found: found.tokens_per_s, short),
    ("over cloud-only", lambda found: found.to_cloud, "{:.2f}x".format),
    ("over generate", lambda found: found.to_generate, "{:.2f}x".format),
    ("clips escalated", lambda found: found.woken, share),
    ("rounds escalated", lambda found: found.escalated, share),
    ("cloud's time", lambda found: found.cloud_time, share),
    ("forwards saved", lambda found: found.saved, share),
    ("  on first clips", lambda found: found.saved_cold, share),
    ("loop overhead", lambda found: found.overhead, share),
)


def bench_page(bench: Bench, width: int) -> Iterator[RenderableType]:
    """Where and how it was measured, and what each contender costs."""
    yield from _heading(bench)
    yield from (Text(), Text("Captions from the ready prompt to the last token: median and its 95% interval", STRONG))
    found = bench.contenders
    rows = [FigureRow(label, tuple(_cell(of(each), show) for each in found)) for label, of, show in _ROWS]
    yield from grid([each.name.replace("-", " ") for each in found], rows, width)
    unequal = [each.name for each in found if each.equal is False]
    if unequal:
        yield Text(f" {FAIL} tokens differ from those of transformers' generate: {', '.join(unequal)}", BAD)
    elif any(each.equal for each in found):
        yield Text(f" {OK} edge, cloud and lossless: tokens equal to those of transformers' generate", GOOD)
    yield from map(facts, bench.notes)


def _cell(found: Interval | float | None, show: Callable[[float], str]) -> Cell:
    return Cell(show(found)) if isinstance(found, float) else measured(found, show)


def _heading(bench: Bench) -> Iterator[Prose]:
    machine = bench.machine
    yield facts(bench.date, f"specdec {machine.specdec}", bench.command)
    cores = f"{count(machine.threads, 'thread')} of {machine.cores or '?'}"
    libraries = f"Python {machine.python}", f"torch {machine.torch}", f"transformers {machine.transformers}"
    yield facts(machine.gpu or machine.processor, cores, f"{machine.memory_gib:g} GiB", *libraries)
    loaded = (f"{model.name} {model.placed}" for model in (bench.models.edge, bench.models.cloud) if model)
    blocks = "whole captions drafted" if bench.k == "deferred" else f"k {bench.k}"
    settings = (blocks, f"gate {bench.gate}", bench.language, count(bench.rounds, "round"))
    yield facts(*loaded, count(len(bench.clips), "clip"), seconds(bench.audio_s), *settings)
