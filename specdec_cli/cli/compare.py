"""`specdec compare`: modes side by side on the same recordings, with what each costs and how good its captions are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from specdec_cli.cli import options
from specdec_cli.cli.startup import load_captioner, read_references
from specdec_cli.errors import ConfigError

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.cli.command_run import CommandRun
    from specdec_cli.config import Config
    from specdec_cli.evaluate.stored_runs import StoredRuns
    from specdec_cli.types import Mode


@options.command(
    *options.PAIR,
    *options.PROMPT,
    *options.CUTS,
    *options.DRAFTS,
    *options.WRITES,
    paths=options.LISTED_PATHS,
)
def compare(
    context: typer.Context,
    paths: list[str],
    modes: str = "edge,hybrid,lossless,cloud",
    repeat: int = 1,
    recursive: bool = False,
    limit: int | None = None,
    references: Path | None = None,
    file_column: str | None = None,
    text_column: list[str] | None = None,
    label_column: list[str] | None = None,
    lexicon: Path | None = None,
    bertscore: bool = False,
    eval_seed: int = 0,
    output: Path | None = None,
    overwrite: bool = False,
    json: bool = False,
    html: Path | None = None,
    captions: int = 2,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Compare modes on the same recordings: time, forwards, captions, quality.

    Needs no references: without them captions are compared with those of the cloud alone. Run the same command with
    the same --output again, and only what is missing is done.
    """
    from specdec_cli.cli.command_run import CommandRun, emit, exit_code
    from specdec_cli.evaluate.modes import in_mode, parse_modes, richest
    from specdec_cli.evaluate.running import Runner
    from specdec_cli.evaluate.stored_runs import StoredRuns
    from specdec_cli.inputs.find import find_recordings
    from specdec_cli.targets import PAGE, TRANSCRIPTS, refuse, write
    from specdec_cli.transcript.terms import Terms

    wanted = parse_modes(modes)
    resolved = options.resolve(context, {"decoding.mode": richest(wanted)}, {"decoding.mode": "--modes"})
    config = resolved.config
    if config.decoding.mode != richest(wanted):
        raise ConfigError("--set decoding.mode is ignored here.", hint="Say which modes to compare with --modes.")
    words, table = read_references(
        references, file_column, text_column, label_column, lexicon, needed=("--bertscore",) if bertscore else ()
    )
    files = find_recordings(paths, recursive=recursive, limit=limit)
    if table is not None:
        table.require_some(files)
    if overwrite and output is None:
        raise ConfigError("--overwrite is about --output, which is not given.", hint="Name a file: --output FILE")
    reads = [*files, references, lexicon, *resolved.reads]
    refuse({"--output": (output, TRANSCRIPTS), "--html": (html, PAGE)}, reads)
    work = CommandRun(
        resolved.notes, quiet=quiet, debug=debug, interruption="interrupted: this is what was done so far"
    )
    recordings = work.identified(files)
    configs = {mode: in_mode(config, mode) for mode in wanted}
    made_with = {mode: Terms.of(of) for mode, of in configs.items()}
    with StoredRuns(output, made_with, overwrite=overwrite) as journal:
        with work:
            runner = Runner(made_with, journal, work)
            steps = runner.steps(recordings, repeat)
            captioners = _captioners(work, configs, in_mode(config, "hybrid"), journal) if steps else {}
            if overwrite:
                journal.clear()
            runner.refuse_unreadable(recordings)
            if steps:
                work.view.say("warming up: a first run of every mode, which does not count")
                runner.warm_up(steps, captioners)
                runner.run(steps, captioners)
        transcripts = journal.of(recordings)
    if work.interrupted and all(transcript.error for transcript in transcripts):
        return work.code()
    from specdec_cli.console.comparison_view import print_comparison
    from specdec_cli.evaluate.comparison import comparison

    found = comparison(
        transcripts,
        words,
        modes=wanted,
        references=table,
        planned=len(recordings),
        bertscore=bertscore,
        seed=eval_seed,
    )
    if html is not None:
        from specdec_cli.evaluate.page import render

        with work.view.loading("the page"):
            by_mode = {mode: [run for run in transcripts if run.mode == mode] for mode in wanted}
            write(html, render(found, by_mode, lexicon=words), PAGE)
    emit(found, print_comparison, json=json, **{} if json else {"captions": captions})
    return exit_code(interrupted=work.interrupted, failed=bool(found.errors))


def _captioners(
    work: CommandRun, configs: Mapping[Mode, Config], of_both: Config, journal: StoredRuns
) -> dict[Mode, Captioner]:
    """A captioner for each mode, of the same loaded models."""
    needed = not all(config.decoding.degrades for mode, config in configs.items() if mode != "edge")
    both = load_captioner(of_both, work.view, needs_cloud=needed)
    captioners = {mode: both.variant(config) for mode, config in configs.items()}
    journal.require_models({mode: captioner.setup for mode, captioner in captioners.items()})
    return captioners
