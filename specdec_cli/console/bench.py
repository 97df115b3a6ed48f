"""A benchmark for a person to read, on stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from specdec_cli.console.cells import clean
from specdec_cli.console.output import console_on
from specdec_cli.console.tables import PIPED_WIDTH
from specdec_cli.console.theme import BAD, DIM, GOOD, STRONG, Signs, signs_for, written
from specdec_cli.report.figures import NONE, count, milliseconds, seconds

if TYPE_CHECKING:
    from specdec_cli.bench.result import Bench, ContenderTime, Expected, Memory
    from specdec_cli.metrics.bootstrap import Interval

_NAMES: Final = {
    f"{model}-{step}": f"{model} {name}"
    for model in ("edge", "cloud")
    for step, name in (("tower", "audio encoder"), ("prefill", "prefill"), ("step", "step"))
} | {"generate-edge": "generate, edge", "generate-cloud": "generate, cloud", "published-cloud": "its own kernels"}
_WIDEST: Final = 140


def print_bench(bench: Bench, *, console: Console | None = None) -> None:
    """Print a benchmark to `console`, stdout if None."""
    console = console or console_on()
    console.width = min(console.width, _WIDEST) if console.is_terminal else PIPED_WIDTH
    console.print(Group(*_page(bench, signs_for(console))))


def _page(bench: Bench, signs: Signs) -> Iterator[RenderableType]:
    yield from _heading(bench, signs)
    yield _title("Forwards", "one at a time, apart from the loop: median and its 95% interval")
    steps = (
        (_NAMES.get(step.name, step.name), [_with_interval(step.ms, fine_ms), Text(f"{step.tokens:.0f} at once")])
        for step in bench.steps
    )
    yield _table(steps, ("", ""))
    yield _title("Captions", "from the ready prompt to the last token; decoding: after audio encoding and prefill")
    yield _captions(bench.contenders, signs)
    yield from _equality(bench.contenders, signs)
    if bench.expected is not None:
        yield from _expected(bench.expected, signs)
    yield _title("Memory", "MiB")
    yield _memory(bench.memory)
    yield from _advice(bench, signs)
    for note in bench.notes:
        yield Text(f" {signs.dot} {clean(note)}", DIM)


def _heading(bench: Bench, signs: Signs) -> Iterator[Text]:
    machine = bench.machine
    models = [model for model in (bench.models.edge, bench.models.cloud) if model]
    yield _facts(signs, bench.date, f"specdec {machine.specdec}", clean(bench.command))
    yield _facts(
        signs,
        machine.gpu or machine.processor,
        f"{count(machine.threads, 'thread')} of {machine.cores or '?'}",
        f"{machine.memory_gib:g} GiB",
        f"Python {machine.python}",
        f"torch {machine.torch}",
        f"transformers {machine.transformers}",
    )
    yield _facts(
        signs,
        *(" ".join([clean(model.name), model.dtype, model.device]) for model in models),
        *(f"compile {clean(model.compiled)}" for model in models if model.compiled is not None),
        f"k {bench.k}",
        f"gate {bench.gate}",
        count(len(bench.clips), "clip"),
        seconds(bench.audio_s),
        bench.language,
        count(bench.rounds, "round"),
    )


def _facts(signs: Signs, *facts: str) -> Text:
    return Text(f" {signs.dot} ".join(facts), DIM)


def _title(title: str, note: str) -> Text:
    return Text.assemble("\n", (title, STRONG), (f" {note}", DIM))


def _table(rows: Iterable[tuple[str, Sequence[Text]]], columns: Sequence[str]) -> Table:
    """A label and figures in each row, under the names of the columns if they have any."""
    table = Table(box=None, show_header=any(columns), header_style=STRONG, padding=(0, 1))
    table.add_column("", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right")
    for label, cells in rows:
        table.add_row(label, *cells)
    return table


def _captions(found: Sequence[ContenderTime], signs: Signs) -> Table:
    none = Text(written(NONE, signs))

    def row(figure: Callable[[ContenderTime], Interval | None], show: Callable[[float], str]) -> list[Text]:
        return [_with_interval(value, show) if value else none for value in map(figure, found)]

    rows = (
        ("a clip", row(lambda contender: contender.clip_ms, milliseconds)),
        ("tokens/s", row(lambda contender: contender.tokens_per_s, _short)),
        ("  decoding", row(lambda contender: contender.decoding_tokens_per_s, _short)),
        ("over cloud-only", row(lambda contender: contender.to_cloud, _times)),
        ("  decoding", row(lambda contender: contender.decoding_to_cloud, _times)),
        ("over generate", row(lambda contender: contender.to_generate, _times)),
        ("  its own kernels", row(lambda contender: contender.to_published, _times)),
        ("loop overhead", row(lambda contender: contender.overhead, lambda share: f"{100 * share:.1f}%")),
    )
    return _table(rows, [_NAMES.get(contender.name, contender.name) for contender in found])


def _equality(found: Sequence[ContenderTime], signs: Signs) -> Iterator[Text]:
    unequal = [contender.name for contender in found if contender.equal is False]
    if unequal:
        yield Text(f" {signs.fail} tokens differ from those of transformers' generate: {', '.join(unequal)}", BAD)
    elif any(contender.equal for contender in found):
        yield Text(f" {signs.ok} edge, cloud and lossless: tokens equal to those of transformers' generate", GOOD)


def _expected(expected: Expected, signs: Signs) -> Iterator[Text]:
    yield _title("Expected of lossless", "Leviathan et al. 2023: (1 - a^(k+1)) / (1 - a) / (k c + v)")
    yield _facts(
        signs,
        f" a {expected.acceptance:.3f} accepted",
        f"c {expected.cost_ratio:.3f} edge step / cloud step",
        f"v {expected.verification_ratio:.2f} verification / cloud step",
        f"{expected.tokens_per_round:.2f} tokens a round at k {expected.k}",
    )
    found = f"{_times(expected.speedup)} expected, {_times(expected.measured)} measured"
    yield Text(f" decoding {found}; of a whole clip {_times(expected.of_a_clip)} expected")


def _memory(memory: Memory) -> Table:
    figures = {
        "libraries": memory.libraries_mb,
        "weights, edge": memory.edge_weights_mb,
        "weights, cloud": memory.cloud_weights_mb,
        "caches of a clip": memory.caches_mb,
        "the rest": memory.unaccounted_mb,
        "peak": memory.peak_mb,
        "peak of the GPU": memory.gpu_peak_mb,
    }
    rows = ((label, [Text(f"{mb:.1f}")]) for label, mb in figures.items() if mb is not None)
    return _table(rows, ("",))


def _advice(bench: Bench, signs: Signs) -> Iterator[RenderableType]:
    """What was tried, and what of it would be faster."""
    yield _title("What to change", "ms of forwards, and of the largest linear layer, on this machine")
    for setting in dict.fromkeys(trial.setting for trial in bench.trials):
        tried = [f"{trial.value} {fine_ms(trial.ms.value)}" for trial in bench.trials if trial.setting == setting]
        yield _facts(signs, f" {setting}", *tried)
    if not bench.suggestions:
        yield Text(f" {signs.ok} nothing: no number of threads, number format or k is a tenth faster", GOOD)
    for found in bench.suggestions:
        yield Text.assemble(" ", (clean(found.option), STRONG), f"  {_times(found.speedup)} as fast: {found.why}")


def _with_interval(figure: Interval, written: Callable[[float], str]) -> Text:
    """A figure and its interval in brackets, in the figure's own unit."""
    if figure.low is None or figure.high is None:
        return Text(written(figure.value))
    low, high = (written(end).rstrip(" msx%") for end in (figure.low, figure.high))
    return Text.assemble(written(figure.value), (f" ({low}-{high})", DIM))


def fine_ms(value: float) -> str:
    """A time in ms with three figures."""
    return f"{value:.3g} ms" if value < 9.995 else milliseconds(value)


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def _times(value: float) -> str:
    return f"{value:.2f}x"
