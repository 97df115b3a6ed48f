"""`specdec batch`: many recordings, several at a time, to a file that a later run takes up again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from specdec_cli.cli import options, startup
from specdec_cli.cli.configured import Given, configured
from specdec_cli.cli.exit_codes import ALL_FAILED, INTERRUPTED, SOME_FAILED
from specdec_cli.errors import ConfigError

_INPUT, _OUTPUT, _WORK = "Input", "Output", "Work"
_LISTED = 5


@configured()
def batch(
    given: Given,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="JSONL", help="Transcripts, one a line.", rich_help_panel=_OUTPUT)
    ],
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH", help="Recordings, folders, patterns; - for a list on stdin.", show_default=False
        ),
    ] = None,
    labels: options.Labels = False,
    lexicon: options.LexiconFile = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Search folders at every depth.", rich_help_panel=_INPUT)
    ] = False,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--glob",
            metavar="PATTERN",
            help="Of folders, take what matches, e.g. '*.wav'. [default: what ends like a recording]",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option(
            "--manifest",
            metavar="FILE",
            help="TSV, CSV or JSONL with a column file, and id, language, prompt if need be.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help="Caption N recordings at most.", rich_help_panel=_INPUT),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume/--overwrite",
            help="Leave out what the output holds, or drop what it holds.",
            rich_help_panel=_OUTPUT,
        ),
    ] = True,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Only what failed before; needs no PATH.", rich_help_panel=_INPUT),
    ] = False,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Captions as a table too.", rich_help_panel=_OUTPUT),
    ] = None,
    txt_dir: Annotated[
        Path | None,
        typer.Option("--txt-dir", metavar="DIR", help="Captions as text files too.", rich_help_panel=_OUTPUT),
    ] = None,
    batch_size: Annotated[
        str, typer.Option("--batch-size", metavar="N|auto", help="Clips decoded together.", rich_help_panel=_WORK)
    ] = "auto",
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="Threads that read recordings ahead. [default: one a core, 4 at most]",
            rich_help_panel=_WORK,
        ),
    ] = None,
    ray: Annotated[
        bool,
        typer.Option(
            "--ray",
            help="Work on the Ray cluster at --ray-address or RAY_ADDRESS, or else on this machine.",
            rich_help_panel=_WORK,
        ),
    ] = False,
    ray_address: Annotated[
        str | None,
        typer.Option("--ray-address", metavar="ADDRESS", help="Of the cluster; implies --ray.", rich_help_panel=_WORK),
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first failure.", rich_help_panel=_WORK)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Failures and errors only.", rich_help_panel=_OUTPUT)
    ] = False,
    debug: bool = False,
) -> None:
    """Caption many recordings, several at a time.

    Run the same command again to go on where it was interrupted. Exit code 0: all have a caption; 3: some have none;
    1: none has; 130: interrupted.
    """
    from specdec_cli.cli.batching import Batching, Place, command_line, find_inputs, refuse
    from specdec_cli.console import choose_steps
    from specdec_cli.inputs import Paths

    resolved = given.resolve()
    config = resolved.config
    size = _batch_size(batch_size)
    own = [path for path in (output, csv, txt_dir) if path is not None]
    inputs = find_inputs(paths or [], manifest, recursive, pattern, own, retry_failed=retry_failed)
    reads = [*(paths or []), manifest, lexicon, *given.reads(resolved)]
    refuse(reads, output, csv, txt_dir, resume=resume, retry_failed=retry_failed)
    words = startup.lexicon_for(labels, lexicon)
    view = choose_steps(quiet=quiet, debug=debug)
    place = Place(size, workers or _default_workers(), ray or ray_address is not None, ray_address)
    job = Batching(config, words, inputs, output, view, resume=resume, retry_failed=retry_failed)
    try:
        counts, interrupted = job.run(place, limit, fail_fast=fail_fast)
        unwritten = job.export(csv, txt_dir)
    finally:
        view.close()
    view.finished(counts)
    for error in unwritten[:_LISTED]:
        view.hint(error.message)
    if unwritten[_LISTED:]:
        view.hint(f"{len(unwritten) - _LISTED} more text files were not written.")
    if not quiet and isinstance(inputs, Paths) and (folders := inputs.unsearched):
        view.hint(f"Folders inside those given were not searched ({folders}); --recursive searches them.")
    if counts.failed:
        view.failures(counts, str(output))
        view.hint(f"To caption just those again: {command_line(paths or [], '--retry-failed')}")
    if interrupted:
        view.hint(f"To go on: {command_line([])}")
        raise typer.Exit(INTERRUPTED)
    if counts.failed or unwritten:
        raise typer.Exit(SOME_FAILED if counts.captioned + counts.skipped else ALL_FAILED)


def _batch_size(given: str) -> int | None:
    if given == "auto":
        return None
    if given.isdecimal() and int(given) > 0:
        return int(given)
    raise ConfigError(f"--batch-size takes auto or a whole number from 1, not {given!r}.", hint="Try --batch-size 16.")


def _default_workers() -> int:
    return min(os.cpu_count() or 1, 4)
