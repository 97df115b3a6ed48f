"""`specdec caption`: recordings to captions, one after the other, with a live view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdec_cli.cli import options, startup
from specdec_cli.cli.configured import Given, configured

if TYPE_CHECKING:
    from specdec_cli.config import Config
    from specdec_cli.console import View
    from specdec_cli.lexicon import Lexicon

_OUTPUT = "Output"


@configured()
def caption(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH", help="Recordings: audio or video files, folders, patterns; - for a list on stdin."
        ),
    ],
    given: Given,
    labels: options.Labels = False,
    lexicon: options.LexiconFile = None,
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
    debug: bool = False,
) -> None:
    """Caption recordings, one after the other.

    On a terminal a live view shows each round; in a pipe, stdout carries the captions alone.
    """
    resolved = given.resolve()
    config = resolved.config
    words = startup.lexicon_for(labels, lexicon, shown=json or output is not None or not quiet)
    from specdec_cli.console import choose_view
    from specdec_cli.inputs import find_recordings
    from specdec_cli.targets import PICTURE, TRANSCRIPTS, refuse

    files = find_recordings(files)
    refuse({"--output": (output, TRANSCRIPTS), "--svg": (svg, PICTURE)}, [*files, lexicon, *given.reads(resolved)])

    view = choose_view(quiet=quiet, no_live=no_live, json=json, debug=debug)
    try:
        failed = _caption_all(files, config, words, view, output, svg, json=json)
    except KeyboardInterrupt:
        view.interrupted(output)
        raise
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
    if output is None and not json and len(refused := startup.refusals(files)) == len(set(files)):
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
