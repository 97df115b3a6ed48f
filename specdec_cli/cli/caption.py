"""`specdec caption`: recordings to captions, one after the other, with a live view."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from specdec_cli.batch.output_file import Identity, Output
from specdec_cli.cli import options
from specdec_cli.cli.command_run import Job, display, labelling, load_captioner
from specdec_cli.cli.export import Exports
from specdec_cli.console.view import View
from specdec_cli.inputs.find import all_unreadable, find_recordings
from specdec_cli.inputs.recording import InputFile, Key
from specdec_cli.targets import TRANSCRIPTS, refuse
from specdec_cli.transcript.terms import Terms

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner


def caption(
    context: typer.Context,
    paths: options.Paths,
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
    output: options.TranscriptsOut = None,
    exports: options.ExportsAfter = None,
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
    resolved = options.resolve(context)
    labelled = labelling(labels, lexicon, calibration)
    files = find_recordings(paths, recursive=recursive, may_be_sound=True)
    items = {file: InputFile(file) for file in files}
    refuse({"--output": (output, TRANSCRIPTS)}, [*files, lexicon, calibration, *resolved.reads])
    more = Exports.after(exports, None, output)
    config = resolved.config
    terms = Terms.of(config, labels=labelled is not None, measured=measure)
    identity = Identity(output or Path(), terms, lambda _: (config.prompt.language, config.instruction()))

    def load(view: View) -> Captioner:
        captioner = load_captioner(config, view, labelled, measures=measure)
        identity.check_models(captioner.setup)
        if not json:
            view.say(resolved.note)
        return captioner

    with (
        display(quiet=quiet, debug=debug, no_live=no_live, json=json) as view,
        Output(output, identity.check) as stored,
    ):
        with Job(
            view, output, lambda line: stored.add(Key.of(line.file), line), json=json, named=len(files) > 1
        ) as job:
            _caption_all(job, items, stored, terms, load)
        written = more is None or output is None or not output.is_file() or more.written(output, view)
        return 1 if job.counts.failed or not written else 0


def _caption_all(
    job: Job, items: dict[str, InputFile], stored: Output, terms: Terms, load: Callable[[View], Captioner]
) -> None:
    """Repeats what is stored and captions the rest, with models that are loaded only if there is something to do."""
    tasks = {file: stored.captioned(item) for file, item in items.items()}
    todo = [task.item for task in tasks.values() if not task.settled]
    refused = all_unreadable(todo)
    captioner = load(job.view) if todo and not refused else None
    for file, task in tasks.items():
        job.repeat(file, stored.transcripts(task))
        job.counts.skipped += sum(mark.final for mark in task.marks)  # nothing to describe
        if file in refused:
            job.keep(file, [(terms.error_line(task.item, refused[file]), refused[file])])
        elif captioner is not None and not task.settled:
            job.keep(file, job.transcripts(captioner, file, captioner.runs(task.item, task.found_in), task.item))
