"""`specdec compare`: modes side by side on the same recordings, with what each costs and how good its captions are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from specdec_cli.cli import options
from specdec_cli.cli.startup import load_captioner, read_references, require_cloud
from specdec_cli.errors import ConfigError

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.cli.command_run import CommandRun
    from specdec_cli.config import Config
    from specdec_cli.evaluate.stored_runs import StoredRuns
    from specdec_cli.types import Mode


def compare(
    context: typer.Context,
    paths: options.Paths,
    edge: options.EdgeModel = None,
    cloud: options.CloudModel = None,
    source: options.ConfigFile = None,
    settings: options.Settings = None,
    modes: options.Modes = "edge,hybrid,lossless,cloud",
    repeat: options.Repeat = 1,
    recursive: options.Recursive = False,
    limit: options.Limit = None,
    language: options.Language = None,
    style: options.Style = None,
    prompt: options.Prompt = None,
    force_prompt: options.ForcePrompt = None,
    segment: options.Segment = None,
    start: options.Start = None,
    end: options.End = None,
    references: options.ReferenceTable = None,
    file_column: options.FileColumn = None,
    text_column: options.TextColumns = None,
    label_column: options.LabelColumns = None,
    lexicon: options.LexiconFile = None,
    bertscore: options.Bertscore = False,
    eval_seed: options.EvalSeed = 0,
    output: options.TranscriptsOut = None,
    overwrite: options.Overwrite = False,
    json: options.Json = False,
    html: options.HtmlOut = None,
    captions: options.Captions = 2,
    quiet: options.Quiet = False,
    k: options.BlockSize = None,
    gate: options.GateOption = None,
    threshold: options.Threshold = None,
    defer: options.Defer = None,
    accept: options.Accept = None,
    max_new_tokens: options.MaxNewTokens = None,
    degrade: options.Degrade = None,
    debug: options.Debug = False,
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
    work = CommandRun(quiet=quiet, debug=debug, interruption="interrupted: this is what was done so far")
    for note in resolved.notes:
        work.view.say(note)
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
    both = load_captioner(of_both, work.view)
    require_cloud(
        both.setup, degrades=all(config.decoding.degrades for mode, config in configs.items() if mode != "edge")
    )
    captioners = {mode: both.variant(config) for mode, config in configs.items()}
    journal.require_models({mode: captioner.setup for mode, captioner in captioners.items()})
    return captioners
