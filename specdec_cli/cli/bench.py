"""`specdec bench`: what a caption costs on this machine."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from specdec_cli.cli import options
from specdec_cli.cli.command_run import display, emit, load_captioner
from specdec_cli.console.pages import bench_page


@options.takes(options.settings("prompt.language", *options.BLOCKS), options.QUIET)
def bench(
    path: str | None = None,
    repeat: int = 5,
    json: bool = False,
    **given: Any,
) -> int:
    """Measure what captions cost on this machine.

    Times every mode and transformers' generate on the same recordings, in turns.
    """
    resolved = options.resolve(given, {"decoding.mode": "hybrid"})
    with display(given, resolved) as view:
        with view.loading("PyTorch"):
            from specdec_cli.bench.contenders import benchmark, build_result
            from specdec_cli.bench.timing import comparable, files_of, read_clips
        config, files = comparable(resolved.config), files_of(path)
        captioner = load_captioner(config, view, degrades=False)
        read = read_clips(captioner, files)
        view.begin(repeat * len(read))
        timings, notes = benchmark(captioner, read, repeat, view.advance)
        line = shlex.join(["specdec", *sys.argv[1:]])
        result = build_result(line, resolved, captioner, read, timings, notes)
    emit(result, bench_page, json=json)
    return 0
