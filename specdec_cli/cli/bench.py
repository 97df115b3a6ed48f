"""`specdec bench`: what a caption costs on this machine, against transformers' own generate on the same clips."""

from __future__ import annotations

import shlex
import sys

from specdec_cli.cli import startup
from specdec_cli.cli.command import Given, command


@command("language", "k", "gate", "threshold", "stop_drafting", "max_new_tokens", example="--clips recordings/")
def bench(
    given: Given,
    clips: str | None = None,
    rounds: int = 5,
    json: bool = False,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Measure what captions cost on this machine.

    Times the models' steps, the loop around them, and tokens/s of every mode and of transformers' generate.
    """
    from specdec_cli.cli.work import Work, emit

    resolved = given.resolve({"decoding.mode": "hybrid"})
    with Work(quiet=quiet, debug=debug) as work:
        with work.libraries():
            from specdec_cli.bench.build import Subject, build_result
            from specdec_cli.bench.clips import Models, files_of, read_clips
            from specdec_cli.bench.memory import account, resident_mb
            from specdec_cli.bench.run import Benchmark, comparable
            from specdec_cli.bench.steps import block_of
            from specdec_cli.captioner import Captioner
            from specdec_cli.decoding.length import capacity
        config, files = comparable(resolved.config), files_of(clips)
        libraries_mb = resident_mb()
        with startup.still_collector():
            captioner = Captioner.load(config, loading=work.view.loading)
        models, read = Models.of(captioner.pair), read_clips(captioner, files)
        benchmark = Benchmark(captioner, read)
        work.view.say("warming up: a first run of every contender, which does not count")
        benchmark.warm_up()
        work.view.begin(benchmark.turns(rounds))
        found = benchmark.run(rounds, lambda _: work.view.advance())
        memory = account(models, read, capacity(config.decoding), block_of(config.decoding.k), libraries_mb)
        line = shlex.join(["specdec", *sys.argv[1:]])
        result = build_result(Subject(line, str(resolved.path), captioner, read, rounds), found, memory)
    if work.interrupted:
        return work.code(done=False)
    from specdec_cli.console.bench import print_bench

    emit(result, print_bench, json=json)
    return 0
