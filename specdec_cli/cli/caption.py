"""`specdec caption`: recordings to captions, one after the other, with a live view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdec_cli.cli import options, startup

if TYPE_CHECKING:
    from specdec_cli.config import Config
    from specdec_cli.console import View
    from specdec_cli.lexicon import Lexicon

_OUTPUT = "Output"


def caption(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Recordings: any audio or video file.")],
    config: options.Config = None,
    language: options.Language = None,
    style: options.Style = None,
    prompt: options.Prompt = None,
    segment: options.Segment = None,
    mode: options.Mode = None,
    k: options.K = None,
    gate: options.Gate = None,
    threshold: options.Threshold = None,
    stop_drafting: options.StopDrafting = None,
    accept: options.Accept = None,
    max_new_tokens: options.MaxNewTokens = None,
    min_new_tokens: options.MinNewTokens = None,
    sentences: options.Sentences = None,
    stop: options.Stop = None,
    temperature: options.Temperature = None,
    top_p: options.TopP = None,
    top_k: options.TopK = None,
    seed: options.Seed = None,
    repetition_penalty: options.RepetitionPenalty = None,
    no_repeat_ngram: options.NoRepeatNgram = None,
    labels: options.Labels = False,
    lexicon: options.LexiconFile = None,
    settings: options.Settings = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="JSONL", help="Append transcripts here.", rich_help_panel=_OUTPUT),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print transcripts on stdout instead of captions.", rich_help_panel=_OUTPUT)
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", help="Draw the finished view into this file.", rich_help_panel=_OUTPUT),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Captions and errors only.", rich_help_panel=_OUTPUT)
    ] = False,
    no_live: Annotated[
        bool, typer.Option("--no-live", help="Rounds as plain lines, nothing redrawn.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: options.Debug = False,
) -> None:
    """Caption recordings, one after the other.

    On a terminal a live view shows each round; in a pipe, stdout carries the captions alone.
    """
    resolved = options.resolve(
        config,
        {
            "prompt.language": language,
            "prompt.style": style,
            "prompt.text": prompt,
            "audio.segment_s": segment,
            "decoding.mode": mode,
            "decoding.k": k,
            "gate.name": gate,
            "gate.threshold": threshold,
            "gate.stop_drafting": stop_drafting,
            "acceptance.rule": accept,
            "decoding.max_new_tokens": max_new_tokens,
            "decoding.min_new_tokens": min_new_tokens,
            "decoding.sentences": sentences,
            "decoding.stop_strings": stop,
            "decoding.temperature": temperature,
            "decoding.top_p": top_p,
            "decoding.top_k": top_k,
            "decoding.seed": seed,
            "decoding.repetition_penalty": repetition_penalty,
            "decoding.no_repeat_ngram": no_repeat_ngram,
        },
        settings or [],
    )
    if debug:
        import logging

        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("specdec_cli").setLevel(logging.DEBUG)
    words = startup.lexicon_for(labels, lexicon, shown=json or output is not None or not quiet)
    from specdec_cli.console import choose_view

    view = choose_view(quiet=quiet, no_live=no_live, json=json, debug=debug)
    try:
        failed = _caption_all(files, resolved.config, words, view, output, svg, json=json)
    finally:
        view.close()
    if failed:
        raise typer.Exit(1)


def _caption_all(
    files: list[str],
    config: Config,
    lexicon: Lexicon | None,
    view: View,
    output: Path | None,
    svg: Path | None,
    *,
    json: bool,
) -> int:
    """Loads the models and captions every file; returns how many captions could not be made."""
    if svg is not None:
        startup.refuse_picture(svg, files)
    if output is not None:
        startup.refuse_output(output, files)
    elif not json and len(refused := startup.refusals(files)) == len(set(files)):
        for file, error in refused.items():
            view.failed(file, error)
        return len(refused)
    with startup.still_collector():
        with view.loading("PyTorch"):
            from specdec_cli.captioner import Captioner
            from specdec_cli.cli.job import Job
        captioner = Captioner.load(config, loading=view.loading)
    if lexicon is not None:
        captioner = captioner.labelled(lexicon)
    job = Job(captioner, view, output, json=json, labelled=len(files) > 1, keep_updates=svg is not None)
    try:
        for file in files:
            job.caption(file)
    finally:  # also when interrupted: the person wants to know how far it came
        view.finished_all(job.done, job.failed)
        if svg is not None and job.updates:
            startup.draw(job.updates, svg)
    return job.failed
