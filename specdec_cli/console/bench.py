"""A benchmark for a person to read, on stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean, hanging, padded
from specdec_cli.console.compare import PIPED_WIDTH, PROSE_WIDTH, WIDEST
from specdec_cli.console.compare_figures import Wording, percentage, short
from specdec_cli.console.figures import count, milliseconds, seconds
from specdec_cli.console.grid import Cell, Row, render
from specdec_cli.console.tables import stdout_console
from specdec_cli.console.theme import BAD, DIM, GOOD, STRONG, UNICODE, Signs, signs_for

if TYPE_CHECKING:
    from specdec_cli.bench.result import Bench, ContenderTime, Expected, Machine, Memory, Overhead
    from specdec_cli.compare.result import Spread
    from specdec_cli.transcript.schema import ModelInfo

_LABELS: Final = {
    "edge-tower": "edge audio encoder",
    "edge-prefill": "edge prefill",
    "edge-step": "edge step",
    "cloud-tower": "cloud audio encoder",
    "cloud-prefill": "cloud prefill",
    "cloud-step": "cloud step",
    "verification": "verification",
    "edge": "edge-only",
    "cloud": "cloud-only",
    "generate-edge": "generate (edge)",
    "generate-cloud": "generate (cloud)",
    "generate-assisted": "generate (assisted)",
}
_COLUMNS: Final = {"generate-edge": "gen. edge", "generate-cloud": "gen. cloud", "generate-assisted": "assisted"}
_FIRST: Final = 32  # cells of a row's label, gap included
_COLUMN: Final = 20

Cells = Sequence[tuple[str, str]]
"""The columns of a row: a figure, and its interval or what else goes with it."""


def print_bench(bench: Bench, *, console: Console | None = None) -> None:
    """Print a benchmark.

    Args:
        bench: what was found.
        console: where to print, stdout if None.
    """
    console = console or stdout_console()
    width = min(console.width, WIDEST) if console.is_terminal else PIPED_WIDTH
    for line in _Page(bench, width, signs_for(console)).lines():
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


class _Page:
    def __init__(self, bench: Bench, width: int, signs: Signs) -> None:
        self._bench = bench
        self._width = width
        self._signs = signs
        self._wording = Wording(unicode=signs is UNICODE)

    def lines(self) -> Iterator[Text]:
        """All of it."""
        yield from self._heading()
        yield from self._steps()
        yield from self._contenders()
        yield from self._speedups()
        if self._bench.expected is not None:
            yield from self._expected(self._bench.expected)
        yield from self._memory(self._bench.memory)
        for note in self._bench.notes:
            yield from hanging(Text(f" {self._signs.dot}"), Text(clean(note), DIM), 3, min(self._width, PROSE_WIDTH))

    def _heading(self) -> Iterator[Text]:
        bench = self._bench
        yield from self._facts(bench.date, f"specdec {bench.machine.specdec}", clean(bench.command))
        yield from self._facts(*machine_facts(bench.machine))
        named = [model for model in (bench.models.edge, bench.models.cloud) if model]
        yield from self._facts(
            *[_told(model) for model in named],
            f"k {bench.k}",
            f"gate {bench.gate}",
            count(len(bench.clips), "clip"),
            seconds(bench.audio_s),
            bench.language,
            count(bench.rounds, "round"),
        )

    def _facts(self, *facts: str) -> Iterator[Text]:
        yield from hanging(Text(), Text(f" {self._signs.dot} ".join(facts), DIM), 0, self._width)

    def _title(self, title: str, note: str, *columns: str) -> Iterator[Text]:
        yield Text()
        yield from hanging(Text(), Text.assemble((title, STRONG), (f" {note}" if note else "", DIM)), 0, self._width)
        if columns:
            heads = [padded(Text(name, DIM), _COLUMN, right=True) for name in columns]
            yield Text.assemble(" " * _FIRST, *heads)

    def _row(self, label: str, cells: Cells) -> Text:
        parts = [
            padded(Text.assemble(value, (f" {more}" if more else "", DIM)), _COLUMN, right=True)
            for value, more in cells
        ]
        return Text.assemble(padded(Text(f" {label}"), _FIRST), *parts)

    def _steps(self) -> Iterator[Text]:
        yield from self._title("Forwards", "one at a time, apart from the loop: median and its 95% interval")
        for step in self._bench.steps:
            what = f"{step.tokens:.0f} at once" if step.name not in ("edge-tower", "cloud-tower") else ""
            yield self._row(_LABELS[step.name], [spread_cell(step.ms, fine_ms), (what, "")])

    def _contenders(self) -> Iterator[Text]:
        yield from self._title(
            "Captions", "from the ready prompt to the last token; decoding: after audio encoding and prefill"
        )
        found = self._bench.contenders

        def row(label: str, cell: Callable[[ContenderTime], Cell]) -> Row:
            return Row(label, tuple(map(cell, found)))

        def overhead(which: Callable[[Overhead], Spread]) -> Callable[[ContenderTime], Cell]:
            none = Cell(self._wording.none)
            return lambda contender: self._wording.share(which(contender.overhead)) if contender.overhead else none

        rows = [
            row("a clip", lambda contender: self._cell(contender.clip_ms, milliseconds)),
            row("tokens/s", lambda contender: self._cell(contender.tokens_per_s, short)),
            row("  decoding", lambda contender: self._cell(contender.decoding_tokens_per_s, short)),
            row("loop overhead", overhead(lambda part: part.total)),
            row("  decoding", overhead(lambda part: part.decoding)),
        ]
        yield from render([_COLUMNS.get(contender.name, contender.name) for contender in found], rows, self._width)
        yield from self._equalities()

    def _cell(self, spread: Spread, written: Callable[[float], str]) -> Cell:
        ends = self._wording.range(spread, lambda value: written(value).removesuffix(" ms"))
        return Cell(written(spread.value), spread=ends)

    def _equalities(self) -> Iterator[Text]:
        for contender in self._bench.contenders:
            if contender.equals is not None and not contender.equal:
                other = _LABELS.get(contender.equals, contender.equals)
                line = f"{_LABELS.get(contender.name, contender.name)} wrote other tokens than {other}"
                yield Text(f" {self._signs.fail} {line}", BAD)
        held = [contender for contender in self._bench.contenders if contender.equals is not None]
        if held and all(contender.equal for contender in held):
            yield Text(f" {self._signs.ok} tokens equal to transformers' generate wherever they have to be", GOOD)

    def _speedups(self) -> Iterator[Text]:
        yield from self._title("Speed-ups", "on the same clip in the same round", "a clip", "decoding")
        for speedup in self._bench.speedups:
            label = f"{speedup.name} / {speedup.against.replace('generate-', 'generate ')}"
            cells = [spread_cell(speedup.total, _times), spread_cell(speedup.decoding, _times)]
            yield self._row(label, cells)

    def _expected(self, expected: Expected) -> Iterator[Text]:
        yield from self._title("Expected of lossless", "Leviathan et al. 2023: (1 - a^(k+1)) / (1 - a) / (k c + v)")
        yield from self._facts(
            f" a {expected.acceptance:.3f} accepted",
            f"c {expected.cost_ratio:.3f} edge step / cloud step",
            f"v {expected.verification_ratio:.2f} verification / cloud step",
            f"{expected.tokens_per_round:.2f} tokens a round at k {expected.k}",
        )
        yield from self._facts(
            f" decoding {_times(expected.speedup)} expected, {_times(expected.measured)} measured, "
            f"{percentage(expected.missing)} missing",
            f"of a whole clip {_times(expected.of_a_clip)}, as drafting speeds up neither encoding nor prefill",
        )

    def _memory(self, memory: Memory) -> Iterator[Text]:
        yield from self._title("Memory", "MiB")
        rows: list[tuple[str, float | None]] = [
            ("libraries", memory.libraries_mb),
            ("weights, edge", memory.edge_weights_mb),
            ("weights, cloud", memory.cloud_weights_mb),
            ("cache, edge", memory.edge_cache_mb),
            ("cache, cloud", memory.cloud_cache_mb),
            ("features", memory.features_mb),
            ("scores", memory.logits_mb),
            ("the rest", memory.unaccounted_mb),
            ("peak", memory.peak_mb),
            ("peak of the GPU", memory.gpu_peak_mb),
        ]
        for label, value in rows:
            if value is not None:
                more = f"(of a whole prompt: {memory.prompt_logits_mb:.1f})" if label == "scores" else ""
                yield Text.assemble(self._row(label, [(f"{value:.1f}", "")]), (f"  {more}" if more else "", DIM))


def machine_facts(machine: Machine) -> list[str]:
    """What figures depend on: the machine, and the versions that matter."""
    return [
        machine.gpu or machine.processor,
        f"{count(machine.threads, 'thread')} of {machine.cores or '?'}",
        f"{machine.memory_gib:g} GiB",
        f"Python {machine.python}",
        f"torch {machine.torch}",
        f"transformers {machine.transformers}",
    ]


def spread_cell(spread: Spread, written: Callable[[float], str]) -> tuple[str, str]:
    """A figure and its interval in brackets, in the figure's own unit."""
    if spread.low is None or spread.high is None:
        return written(spread.value), ""
    low, high = (written(end).rstrip(" msx%") for end in (spread.low, spread.high))
    return written(spread.value), f"({low}-{high})"


def _told(model: ModelInfo) -> str:
    compiled = "" if model.compiled is None else f" compile {clean(model.compiled)}"
    return f"{clean(model.name)} {model.dtype} {model.device}{compiled}"


def fine_ms(value: float) -> str:
    """A time in ms with three figures."""
    return f"{value:.2f} ms" if value < 9.995 else milliseconds(value)


def _times(value: float) -> str:
    return f"{value:.2f}x"
