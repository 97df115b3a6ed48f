"""`specdec batch`: many recordings, several at a time, to a file that a later run takes up again."""

from __future__ import annotations

import os
from pathlib import Path

from specdec_cli.cli import startup
from specdec_cli.cli.command import Given, command
from specdec_cli.cli.options import SETTING_OPTIONS
from specdec_cli.errors import ConfigError

_LISTED = 5


@command(*SETTING_OPTIONS, example="recordings/ -o captions.jsonl --csv captions.csv")
def batch(
    given: Given,
    output: Path,
    paths: list[str] | None = None,
    labels: bool = False,
    lexicon: Path | None = None,
    recursive: bool = False,
    pattern: str | None = None,
    manifest: Path | None = None,
    limit: int | None = None,
    overwrite: bool = False,
    retry_failed: bool = False,
    csv: Path | None = None,
    txt_dir: Path | None = None,
    batch_size: str = "auto",
    workers: int | None = None,
    ray: bool = False,
    ray_address: str | None = None,
    fail_fast: bool = False,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Caption many recordings, several at a time.

    Run the same command again to go on where it was interrupted. Exit code 0: all have a caption; 3: some have none;
    1: none has; 130: interrupted.
    """
    resume = not overwrite
    from specdec_cli.cli.batching import Batching, Place, command_line, find_inputs, refuse
    from specdec_cli.cli.work import exit_code
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
    return exit_code(
        interrupted=interrupted, failed=bool(counts.failed or unwritten), done=bool(counts.captioned + counts.skipped)
    )


def _batch_size(given: str) -> int | None:
    if given == "auto":
        return None
    if given.isdecimal() and int(given) > 0:
        return int(given)
    raise ConfigError(f"--batch-size takes auto or a whole number from 1, not {given!r}.", hint="Try --batch-size 16.")


def _default_workers() -> int:
    return min(os.cpu_count() or 1, 4)
