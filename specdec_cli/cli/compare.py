"""`specdec compare`: modes side by side on the same recordings, with what each costs and how good its captions are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_cli.cli.command import Given, command
from specdec_cli.cli.options import FLAG_NAMES, SETTING_OPTIONS
from specdec_cli.cli.startup import read_references, still_collector
from specdec_cli.errors import ConfigError

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.cli.work import Work
    from specdec_cli.compare.journal import Journal
    from specdec_cli.config import Config
    from specdec_cli.types import Mode


_OTHERS = ("mode", "refuse_no_speech")  # settings that a comparison chooses itself, or that would empty it


@command(*(name for name in SETTING_OPTIONS if name not in _OTHERS), example="recordings/ --limit 20 --html page.html")
def compare(
    paths: list[str],
    modes: str = "edge,hybrid,lossless,cloud",
    recursive: bool = False,
    limit: int | None = None,
    repeat: int = 1,
    *,
    given: Given,
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
    captions: int = 10,
    quiet: bool = False,
    debug: bool = False,
) -> int:
    """Compare modes on the same recordings: time, forwards, captions, quality.

    Needs no references: without them captions are compared with those of the cloud alone. Run the same command with
    the same --output again, and only what is missing is done.
    """
    from specdec_cli.cli.work import Work, emit, exit_code
    from specdec_cli.compare.journal import Journal
    from specdec_cli.compare.plan import in_mode, parse_modes, richest, terms
    from specdec_cli.compare.runner import Runner
    from specdec_cli.inputs.find import find_recordings
    from specdec_cli.targets import PAGE, TRANSCRIPTS, refuse

    wanted = parse_modes(modes)
    spelled = {**FLAG_NAMES, "decoding.mode": "--modes"}
    resolved = given.resolve({"decoding.mode": richest(wanted)}, spelled=spelled)
    config = resolved.config
    if config.decoding.mode != richest(wanted):
        raise ConfigError("--set decoding.mode is ignored here.", hint="Say which modes to compare with --modes.")
    words, table = read_references(
        references, file_column, text_column, label_column, lexicon, needed=("--bertscore",) if bertscore else ()
    )
    files = find_recordings(paths, recursive=recursive, limit=limit)
    if overwrite and output is None:
        raise ConfigError("--overwrite is about --output, which is not given.", hint="Name a file: --output FILE")
    reads = [*files, references, lexicon, *resolved.reads]
    refuse({"--output": (output, TRANSCRIPTS), "--html": (html, PAGE)}, reads)
    work = Work(quiet=quiet, debug=debug, interruption="interrupted: this is what was done so far")
    recordings = work.identified(files)
    configs = {mode: in_mode(config, mode) for mode in wanted}
    made_with = terms(configs)
    with Journal(output, made_with, overwrite=overwrite) as journal:
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
        return work.code(done=False)
    from specdec_cli.compare.build import by_mode, comparison
    from specdec_cli.console.compare import print_comparison

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
        from specdec_cli.report.page import write_report

        with work.view.loading("the page"):
            write_report(html, found, by_mode(transcripts, wanted), lexicon=words)
    emit(found, print_comparison, json=json, **{} if json else {"captions": captions})
    return exit_code(interrupted=work.interrupted, failed=bool(found.errors), done=bool(found.clips))


def _captioners(work: Work, configs: Mapping[Mode, Config], of_both: Config, journal: Journal) -> dict[Mode, Captioner]:
    """A captioner for each mode, of the same loaded models."""
    with work.libraries():
        from specdec_cli.captioner import Captioner
    with still_collector():
        both = Captioner.load(of_both, loading=work.view.loading)
    captioners = {mode: both.variant(config) for mode, config in configs.items()}
    journal.require_models({mode: captioner.setup for mode, captioner in captioners.items()})
    return captioners
