"""`specdec bench`: what a caption costs on this machine."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated, Final

import typer

from specdec_cli.cli import options
from specdec_cli.cli.command_run import display, emit, load_captioner
from specdec_cli.config import configs_folder
from specdec_cli.console.pages import bench_page
from specdec_cli.errors import AudioNotFoundError
from specdec_cli.inputs.find import find_recordings

_REPEAT: Final = "Time everything N times over."
_SAMPLES: Final = "A recording, or a folder. Default: the shipped samples."


@options.taking(options.ModelOptions, options.PromptOptions, options.BlockOptions, options.DisplayOptions)
def bench(
    context: typer.Context,
    path: Annotated[str | None, typer.Argument(help=_SAMPLES, metavar="PATH")] = None,
    recursive: options.Recursive = False,
    repeat: Annotated[int, options.of_study("--repeat", metavar="N", help=_REPEAT, min=1)] = 5,
    json: options.Json = False,
) -> int:
    """Measure what captions cost on this machine.

    Times every mode and transformers' generate on the same recordings, in turns.
    """
    resolved = options.resolve(context, {"decoding.mode": "hybrid"})
    files = files_of(path, recursive=recursive)
    with display(context, resolved=resolved) as view:
        with view.loading("PyTorch"):
            from specdec_cli.bench.contenders import benchmark, build_result
            from specdec_cli.bench.timing import comparable, read_clips
        config = comparable(resolved.config)
        captioner = load_captioner(config, view, degrades=False)
        read = read_clips(captioner, files)
        view.begin(repeat * len(read))
        timings, notes = benchmark(captioner, read, repeat, view.advance)
        line = shlex.join(["specdec", *sys.argv[1:]])
        result = build_result(line, resolved, captioner, read, timings, notes)
    emit(result, bench_page, json=json)
    return 0


def files_of(path: str | None, *, recursive: bool = False) -> list[str]:
    """The recordings of a file or folder; without a name the samples of the source tree, if they are there.

    AudioNotFoundError: there is no such file. ConfigError: the folder holds none.
    """
    if path is None:
        samples = configs_folder().parent / "samples"
        return find_recordings([str(samples)]) if samples.is_dir() else []
    if not os.path.lexists(path):
        raise AudioNotFoundError(f"{path} does not exist.", hint="Name a recording, or a folder that holds some.")
    return find_recordings([path], recursive=recursive)
