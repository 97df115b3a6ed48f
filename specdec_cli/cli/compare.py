"""`specdec compare`: modes side by side on the same recordings, with what each costs and how good its captions are."""

# no postponed annotations: see `specdec_cli.cli.options`

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from specdec_cli.cli import options
from specdec_cli.cli.outputs import by_ending
from specdec_cli.cli.set_up import display, load_captioner
from specdec_cli.cli.study import emit, identified, read_references, unopened
from specdec_cli.config import Config
from specdec_cli.console.pages import comparison_page
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError
from specdec_cli.evaluate.comparison import comparison
from specdec_cli.evaluate.modes import in_mode, parse_modes, richest
from specdec_cli.evaluate.running import Runner, StoredRuns, accepting
from specdec_cli.inputs.find import find_recordings
from specdec_cli.inputs.recording import InputFile
from specdec_cli.labels import Lexicon
from specdec_cli.targets import PAGE, TRANSCRIPTS, Targets
from specdec_cli.transcript.shared import SharedFields, loaded_changes
from specdec_cli.types import Mode

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner

_MODES: Final = "Modes to compare, two or more."
_BY: Final = "Give quality by a column of the references, too: speaker, corpus."
_OUTPUT: Final = "Transcripts (.jsonl), which the same command resumes, or the page (.html). Repeatable."


@dataclass(frozen=True, kw_only=True)
class CompareCommand(options.StudyOptions, options.CuttingOptions, options.GateOptions):
    """Without references, captions are compared with those of the cloud alone. The same command with the same
    transcripts again captions only what is missing.
    """

    name: ClassVar[str] = "compare"

    modes: Annotated[str, options.of_study("--mode", metavar="MODE,MODE", help=_MODES)] = "edge,hybrid,lossless,cloud"
    by: Annotated[str | None, options.of_judging("--by", metavar="COLUMN", help=_BY)] = None
    output: Annotated[list[Path] | None, options.out(metavar="FILE", help=_OUTPUT)] = None

    def run(self) -> int:
        """See `Command.run`."""
        wanted = parse_modes(self.modes)
        resolved = self.resolved({"decoding.mode": richest(wanted)})
        if resolved.config.decoding.mode != richest(wanted):
            raise ConfigError("--set decoding.mode is ignored here.", hint="Say which modes to compare with --mode.")
        files = find_recordings(self.paths, recursive=self.recursive, limit=self.limit)
        words, table = read_references(self, resolved.config, files, self.by)
        targets = Targets([*files, self.references, self.lexicon, *resolved.reads], overwrite=self.overwrite)
        stored, page = by_ending(self.output, (TRANSCRIPTS, PAGE), targets)
        configs = {mode: in_mode(resolved.config, mode) for mode in wanted}
        shared = {mode: SharedFields.of(config, words) for mode, config in configs.items()}
        recordings, interrupted = list[InputFile](), False
        message = "interrupted: this is what was done so far"
        with ExitStack() as models, StoredRuns(stored, accepting(shared), overwrite=self.overwrite) as journal:
            try:
                with display(self, resolved=resolved, references=table, interruption=message) as view:
                    recordings = identified(view, files)
                    runner = Runner(shared, journal, view)
                    steps = runner.steps(recordings)
                    captioners = _captioners(resolved.config, configs, words, files, view) if steps else {}
                    for captioner in captioners.values():
                        models.enter_context(captioner)
                    journal.require(
                        lambda run: loaded_changes(run, captioners[run.mode].shared) if run.mode in captioners else None
                    )
                    if steps:
                        view.say("warming up: a first run of every mode, which is not measured")
                    runner.run(recordings, steps, captioners)
            except KeyboardInterrupt:
                interrupted = True
            transcripts = journal.of(recordings)
        if interrupted and all(transcript.error for transcript in transcripts):
            return 130
        seed = resolved.config.judging.seed
        found = comparison(transcripts, words, modes=wanted, references=table, by=self.by, seed=seed)
        if page is not None:
            from specdec_cli.evaluate.page import render

            with view.loading("the page"):
                targets.write(page, render(found, transcripts, words))
        emit(found, comparison_page, json=self.json)
        return 130 if interrupted else unopened(recordings) or int(bool(found.errors))


def _captioners(
    config: Config, configs: Mapping[Mode, Config], words: Lexicon, files: Sequence[str], view: View
) -> "dict[Mode, Captioner]":
    """A captioner for each mode, with models that are loaded once."""
    degrades = all(each.decoding.degrades for mode, each in configs.items() if mode != "edge")
    both = load_captioner(in_mode(config, "hybrid"), view, words, recordings=files, degrades=degrades)
    return {mode: both.variant(each) for mode, each in configs.items()}
