"""A benchmark for a person to read, on stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from specdec_cli.console.cells import clean, wrap
from specdec_cli.console.output import console_on
from specdec_cli.console.tables import grid, page_width, print_lines, titled
from specdec_cli.console.theme import BAD, DIM, GOOD, STRONG, Signs, signs_for
from specdec_cli.report.figures import count, milliseconds, seconds, share, short
from specdec_cli.report.tables import Cell, Row, measured

if TYPE_CHECKING:
    from specdec_cli.bench.result import Bench, ContenderTime, Expected
    from specdec_cli.metrics.bootstrap import Interval

_NAMES: Final = {
    f"{model}-{step}": f"{model} {name}"
    for model in ("edge", "cloud")
    for step, name in (("tower", "encoder"), ("prefill", "prefill"), ("step", "step"))
} | {"generate-edge": "generate edge", "generate-cloud": "generate cloud", "published-cloud": "its own kernels"}


def _times(value: float) -> str:
    return f"{short(value)}x"


_CAPTIONS: Final[tuple[tuple[str, Callable[[ContenderTime], Interval | None], Callable[[float], str]], ...]] = (
    ("a clip", lambda found: found.clip_ms, milliseconds),
    ("tokens/s", lambda found: found.tokens_per_s, short),
    ("  decoding", lambda found: found.decoding_tokens_per_s, short),
    ("over cloud-only", lambda found: found.to_cloud, _times),
    ("  decoding", lambda found: found.decoding_to_cloud, _times),
    ("over generate", lambda found: found.to_generate, _times),
    ("  its own kernels", lambda found: found.to_published, _times),
    ("loop overhead", lambda found: found.overhead, share),
)


def print_bench(bench: Bench, *, console: Console | None = None) -> None:
    """Print a benchmark to `console`, stdout if None."""
    console = console or console_on()
    print_lines(_page(bench, page_width(console), signs_for(console)), console)


def _page(bench: Bench, width: int, signs: Signs) -> Iterator[Text]:
    def facts(*parts: str) -> list[Text]:
        return wrap(Text(f" {signs.dot} ".join(map(clean, parts)), DIM), width)

    yield from _heading(bench, facts)
    yield from titled("Forwards", "one at a time, apart from the loop: median and its 95% interval", width)
    steps = [
        Row(_NAMES.get(step.name, step.name), (measured(step.ms, milliseconds), Cell(f"{step.tokens:.0f}")))
        for step in bench.steps
    ]
    yield from grid(("time", "tokens at once"), steps, width)
    note = "from the ready prompt to the last token; decoding: after audio encoding and prefill"
    yield from titled("Captions", note, width)
    found = bench.contenders
    rows = [Row(label, tuple(measured(of(each), show) for each in found)) for label, of, show in _CAPTIONS]
    yield from grid([_NAMES.get(each.name, each.name) for each in found], rows, width)
    unequal = [each.name for each in found if each.equal is False]
    if unequal:
        yield Text(f" {signs.fail} tokens differ from those of transformers' generate: {', '.join(unequal)}", BAD)
    elif any(each.equal for each in found):
        yield Text(f" {signs.ok} edge, cloud and lossless: tokens equal to those of transformers' generate", GOOD)
    if bench.expected is not None:
        yield from titled("Expected of lossless", "Leviathan et al. 2023: (1 - a^(k+1)) / (1 - a) / (k c + v)", width)
        yield from _expected(bench.expected, facts)
    yield from titled("Memory", "MiB", width)
    held = bench.memory.model_dump(exclude_none=True)
    yield from facts(*(f"{name.removesuffix('_mb').replace('_', ' ')} {mb:.1f}" for name, mb in held.items()))
    yield from titled("What to change", "ms of forwards, and of the largest linear layer, on this machine", width)
    for setting in dict.fromkeys(trial.setting for trial in bench.trials):
        tried = [f"{trial.value} {trial.ms.value:.3g} ms" for trial in bench.trials if trial.setting == setting]
        yield from facts(setting, *tried)
    if not bench.suggestions:
        yield Text(f" {signs.ok} nothing: no number of threads, number format or k is a tenth faster", GOOD)
    for faster in bench.suggestions:
        yield Text.assemble(" ", (clean(faster.option), STRONG), f"  {_times(faster.speedup)} as fast: {faster.why}")
    for remark in bench.notes:
        yield from facts(remark)


def _heading(bench: Bench, facts: Callable[..., list[Text]]) -> Iterator[Text]:
    machine = bench.machine
    models = [model for model in (bench.models.edge, bench.models.cloud) if model]
    yield from facts(bench.date, f"specdec {machine.specdec}", bench.command)
    yield from facts(
        machine.gpu or machine.processor,
        f"{count(machine.threads, 'thread')} of {machine.cores or '?'}",
        f"{machine.memory_gib:g} GiB",
        f"Python {machine.python}",
        f"torch {machine.torch}",
        f"transformers {machine.transformers}",
    )
    loaded = (f"{model.name} {model.placed}" for model in models)
    blocks = "whole captions drafted" if bench.k == "deferred" else f"k {bench.k}"
    settings = (blocks, f"gate {bench.gate}", bench.language, count(bench.rounds, "round"))
    yield from facts(*loaded, count(len(bench.clips), "clip"), seconds(bench.audio_s), *settings)


def _expected(expected: Expected, facts: Callable[..., list[Text]]) -> Iterator[Text]:
    yield from facts(
        f"a {expected.acceptance:.3f} accepted",
        f"c {expected.cost_ratio:.3f} edge step / cloud step",
        f"v {expected.verification_ratio:.2f} verification / cloud step",
        f"{expected.tokens_per_round:.2f} tokens a round at k {expected.k}",
    )
    found = f"{_times(expected.speedup)} expected, {_times(expected.measured)} measured"
    yield Text(f"decoding {found}; of a whole clip {_times(expected.of_a_clip)} expected")
