"""`specdec bench`: what a caption costs on this machine, and what would make it faster."""

from __future__ import annotations

import shlex
import sys

from specdec_cli.cli.command import Given, command
from specdec_cli.cli.startup import still_collector


@command(
    "language",
    "k",
    "gate",
    "threshold",
    "defer",
    "wake",
    "stop_drafting",
    "max_new_tokens",
    example="--clips recordings/",
)
def bench(
    given: Given,
    clips: str | None = None,
    rounds: int = 5,
    json: bool = False,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Measure what captions cost on this machine.

    Times single forwards, every mode and transformers' generate, and finds faster settings for this machine.
    """
    from specdec_cli.cli.work import Work, emit

    resolved = given.resolve({"decoding.mode": "hybrid"})
    with Work(quiet=quiet, debug=debug) as work:
        with work.libraries():
            from specdec_cli.bench.advice import try_dtypes, try_encoders, try_threads
            from specdec_cli.bench.build import build_result
            from specdec_cli.bench.clips import Models, files_of, read_clips
            from specdec_cli.bench.memory import account, resident_mb
            from specdec_cli.bench.run import benchmark, comparable
            from specdec_cli.bench.timing import block_of
            from specdec_cli.captioner import Captioner
            from specdec_cli.decoding.length import capacity
        config, files = comparable(resolved.config), files_of(clips)
        libraries_mb = resident_mb()
        with still_collector():
            captioner = Captioner.load(config, loading=work.view.loading)
        models, read = Models.of(captioner.pair), read_clips(captioner, files)
        work.view.begin(rounds * len(read))
        found = benchmark(captioner, read, rounds, work.view.advance)
        memory = account(models, read[0], capacity(config.decoding), libraries_mb)
        work.view.say("timing numbers of threads and number formats")
        text = found.timings["cloud"][0].ids
        k = block_of(config.decoding, len(text))
        trials = [*try_threads(models, read[0], text, k), *try_dtypes(models, k)]
        trials += try_encoders({"edge": (models.edge, read[0].edge), "cloud": (models.cloud, read[0].cloud)})
        line = shlex.join(["specdec", *sys.argv[1:]])
        result = build_result(line, resolved, captioner, read, found, trials, memory)
    if work.interrupted:
        return work.code(done=False)
    from specdec_cli.console.bench import print_bench

    emit(result, print_bench, json=json)
    return 0
