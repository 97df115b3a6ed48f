"""`specdec bench`: what a caption costs on this machine."""

from __future__ import annotations

import shlex
import sys

import typer

from specdec_cli.cli import options
from specdec_cli.cli.startup import load_captioner


@options.command(*options.PAIR, "prompt.language", *options.DRAFTS, "decoding.max_new_tokens")
def bench(
    context: typer.Context,
    path: str | None = None,
    repeat: int = 5,
    json: bool = False,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Measure what captions cost on this machine.

    Times every mode and transformers' generate on the same recordings, in turns.
    """
    from specdec_cli.cli.command_run import CommandRun, emit

    resolved = options.resolve(context, {"decoding.mode": "hybrid"})
    with CommandRun(resolved.notes, quiet=quiet, debug=debug) as work:
        with work.libraries():
            from specdec_cli.bench.contenders import build_result
            from specdec_cli.bench.measuring import benchmark, comparable, files_of, read_clips
        config, files = comparable(resolved.config), files_of(path)
        captioner = load_captioner(config, work.view, needs_cloud=True)
        read = read_clips(captioner, files)
        work.view.begin(repeat * len(read))
        timings, notes = benchmark(captioner, read, repeat, work.view.advance)
        line = shlex.join(["specdec", *sys.argv[1:]])
        result = build_result(line, resolved, captioner, read, timings, notes)
    if work.interrupted:
        return work.code()
    from specdec_cli.console.bench_table import print_bench

    emit(result, print_bench, json=json)
    return 0
