"""`specdec caption`: recordings to captions, one after the other, with a live view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from specdec_cli.batch.watched import WatchedBackend
from specdec_cli.cli import options
from specdec_cli.cli.captioning import Captioning, Printer, conclude_clips, load_to_caption
from specdec_cli.cli.command_run import display


def caption(
    context: typer.Context,
    paths: options.MorePaths = None,
    edge: options.EdgeModel = None,
    cloud: options.CloudModel = None,
    source: options.ConfigFile = None,
    settings: options.Settings = None,
    language: options.Language = None,
    style: options.Style = None,
    prompt: options.Prompt = None,
    force_prompt: options.ForcePrompt = None,
    segment: options.Segment = None,
    strict: options.Strict = None,
    start: options.Start = None,
    end: options.End = None,
    channel: options.Channel = None,
    track: options.Track = None,
    labels: options.Labels = False,
    lexicon: options.LexiconFile = None,
    calibration: options.CalibrationFile = None,
    measure: options.Measure = False,
    recursive: options.Recursive = False,
    pattern: options.Pattern = None,
    manifest: options.ManifestFile = None,
    limit: options.Limit = None,
    retry_failed: options.RetryFailed = False,
    output: options.CaptionsOut = None,
    overwrite: options.Overwrite = False,
    exports: options.ExportsAfter = None,
    export_dir: options.ExportFolder = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    no_live: options.NoLive = False,
    mode: options.DecodingMode = None,
    k: options.BlockSize = None,
    gate: options.GateOption = None,
    threshold: options.Threshold = None,
    defer: options.Defer = None,
    accept: options.Accept = None,
    max_new_tokens: options.MaxNewTokens = None,
    degrade: options.Degrade = None,
    debug: options.Debug = False,
) -> int:
    """Caption recordings, one after the other.

    On a terminal a live view shows each round; in a pipe, stdout carries the captions alone, those of pieces behind
    their start and end in seconds. Flags follow a caption in brackets, as [no_speech]. The same command again captions
    what --output lacks.
    """
    job = Captioning(context)
    shown = None if json else job.resolved
    with display(quiet=quiet, debug=debug, no_live=no_live, json=json, resolved=shown) as view:

        @contextmanager
        def backend() -> Iterator[WatchedBackend]:
            captioner = load_to_caption(
                job.config, view, job.labelling, job.earlier(), measures=measure, runs_long=False
            )
            job.expect(captioner)
            yield WatchedBackend(captioner, view.show)

        ended = False
        try:
            job.run(backend, lambda: False, tell=Printer(view, json=json, named=job.several))
            ended = True
        finally:
            conclude_clips(view, job.counts, output, ended=ended)
        return job.end(view)
