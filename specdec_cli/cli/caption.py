"""`specdec caption`: recordings to captions, one after the other, with a live view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from specdec_cli.batch.local import WatchedBackend
from specdec_cli.cli import options
from specdec_cli.cli.captioning import Captioning, Printer, conclude_clips
from specdec_cli.cli.command_run import display


@options.taking(options.RecordingOptions, options.CuttingOptions, *options.CAPTIONING)
def caption(
    context: typer.Context,
    output: options.CaptionsOut = None,
    json: options.Json = False,
    no_live: options.NoLive = False,
) -> int:
    """Caption recordings, one after the other.

    On a terminal a live view shows each round. In a pipe, stdout carries captions alone; the start and end of a piece,
    in seconds, stand before its caption, and flags behind it in brackets, as [no_speech]. Run the same command again
    to caption what --output lacks.
    """
    job = Captioning(context)
    with display(context, resolved=None if json else job.resolved) as view:

        @contextmanager
        def backend() -> Iterator[WatchedBackend]:
            yield WatchedBackend(job.load(view, runs_long=False), view.show)

        ended = False
        try:
            printer = Printer(view, json=json, named=job.several, cut=job.config.audio.segment is not None)
            job.run(backend, lambda: False, tell=printer)
            ended = True
        finally:
            conclude_clips(view, job.counts, output, ended=ended)
        return job.end(view)
