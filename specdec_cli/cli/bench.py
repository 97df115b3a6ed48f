"""`specdec bench`: what a caption costs on this machine, and what would make it faster."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from specdec_cli.cli import startup
from specdec_cli.cli.configured import Given, configured
from specdec_cli.console.output import write_line
from specdec_cli.console.progress import choose_steps

if TYPE_CHECKING:
    from specdec_cli.bench.result import Bench
    from specdec_cli.config import ResolvedConfig
    from specdec_cli.console.progress import QuietSteps

_WHAT: Final = "What is measured"
_OUTPUT: Final = "Output"


@configured("language", "k", "gate", "threshold", "stop_drafting", "max_new_tokens")
def bench(
    given: Given,
    clips: Annotated[
        str | None,
        typer.Option(
            "--clips",
            metavar="PATH",
            help="A recording, or a folder of them. [default: the samples of the source tree, else test sound]",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=1, help="Times through all clips.", rich_help_panel=_WHAT)
    ] = 5,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=_OUTPUT)] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, errors only.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: bool = False,
) -> None:
    """Time single forwards, every mode and transformers' generate, and find faster settings for this machine."""
    resolved = given.resolve({"decoding.mode": "hybrid"})
    view = choose_steps(quiet=quiet, debug=debug)
    try:
        found = _measured(resolved, clips, rounds, view)
    finally:
        view.close()
    if json:
        write_line(found.model_dump_json(by_alias=True))
        return
    from specdec_cli.console.bench import print_bench

    print_bench(found)


def _measured(resolved: ResolvedConfig, named: str | None, rounds: int, view: QuietSteps) -> Bench:
    """Loads the models and measures.

    Raises:
        ConfigError: the recordings, the settings or the pair do not suit a benchmark.
        AudioError: a recording cannot be captioned.
        CheckpointError: a model cannot be loaded.
    """
    with startup.still_collector(), view.loading("PyTorch"):
        from specdec_cli.bench.advice import try_dtypes, try_threads
        from specdec_cli.bench.build import build_result
        from specdec_cli.bench.clips import Models, files_of, read_clips
        from specdec_cli.bench.memory import account, resident_mb
        from specdec_cli.bench.run import benchmark, comparable
        from specdec_cli.bench.steps import block_of
        from specdec_cli.captioner import Captioner
        from specdec_cli.decoding.length import capacity
    config, files = comparable(resolved.config), files_of(named)
    libraries_mb = resident_mb()
    with startup.still_collector():
        captioner = Captioner.load(config, loading=view.loading)
    models, clips, k = Models.of(captioner.pair), read_clips(captioner, files), block_of(config.decoding.k)
    view.begin(rounds * len(clips))
    found = benchmark(captioner, clips, rounds, view.advance)
    memory = account(models, clips[0], capacity(config.decoding), libraries_mb)
    view.say("timing numbers of threads and number formats")
    trials = [*try_threads(models, clips[0], found.timings["cloud"][0].ids, k), *try_dtypes(models, k)]
    command = shlex.join(["specdec", *sys.argv[1:]])
    return build_result(command, resolved, captioner, clips, found, trials, memory)
