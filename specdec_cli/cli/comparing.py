"""One comparison from the recordings to the page: what is refused, what is run, what is printed, how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_cli.cli import startup
from specdec_cli.cli.exit_codes import ALL_FAILED, INTERRUPTED, SOME_FAILED
from specdec_cli.console.output import write_line
from specdec_cli.console.progress import choose_steps
from specdec_cli.errors import ConfigError, SpecdecError
from specdec_cli.targets import PAGE, TRANSCRIPTS, refuse

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.cli.judging import Judging
    from specdec_cli.compare.journal import Journal, Terms
    from specdec_cli.compare.recordings import Recording
    from specdec_cli.compare.result import Comparison
    from specdec_cli.compare.runner import Runner, Step
    from specdec_cli.config import Config
    from specdec_cli.console.progress import QuietSteps
    from specdec_cli.transcript import Transcript
    from specdec_cli.types import Mode


@dataclass(frozen=True, slots=True)
class Request:
    """A comparison as asked for; `config` is that of the mode which uses most settings."""

    config: Config
    modes: tuple[Mode, ...]
    paths: tuple[str, ...]
    recursive: bool
    limit: int | None
    repeats: int
    judging: Judging
    output: Path | None
    overwrite: bool
    json: bool
    html: Path | None
    captions: int
    reads: tuple[Path | None, ...]


def identified(files: Sequence[str], view: QuietSteps) -> list[Recording]:
    """The recordings by their bytes; one that another one equals is left out, and said to be."""
    from specdec_cli.compare.recordings import identify

    recordings, copies = identify(files)
    for copy, original in copies.items():
        view.say(f"{copy} holds the same bytes as {original} and is left out")
    return recordings


class Comparing:
    """Carries out a request.

    Args:
        request: what was asked for.
        quiet: show no progress.
        debug: show tracebacks.
    """

    def __init__(self, request: Request, *, quiet: bool, debug: bool) -> None:
        self._request = request
        self._view: QuietSteps = choose_steps(quiet=quiet, debug=debug)

    def run(self) -> int:
        """The exit code: 0, 1 if nothing could be compared, 3 if some of it, 130 if interrupted.

        Raises:
            ConfigError: something in the request cannot be.
            CheckpointError: a model cannot be loaded.
            TranscriptError, ReportError: a file cannot be written or read.
        """
        request = self._request
        lexicon, references = request.judging.read()
        recordings = self._recordings()
        journal, interrupted = self._captioned(recordings)
        transcripts = journal.of(recordings)
        if interrupted and all(transcript.error for transcript in transcripts):
            return INTERRUPTED
        from specdec_cli.compare.build import comparison

        found = comparison(
            transcripts,
            lexicon,
            modes=request.modes,
            references=references,
            planned=len(recordings),
            bertscore=request.judging.bertscore,
            seed=request.judging.seed,
        )
        self._show(found, transcripts)
        if interrupted:
            return INTERRUPTED
        if not found.errors:
            return 0
        return SOME_FAILED if found.clips else ALL_FAILED

    def _recordings(self) -> list[Recording]:
        """Everything to compare, after what cannot succeed was refused."""
        from specdec_cli.compare.recordings import find_recordings

        request = self._request
        files = find_recordings(request.paths, recursive=request.recursive, limit=request.limit)
        if request.overwrite and request.output is None:
            raise ConfigError("--overwrite is about --output, which is not given.", hint="Name a file: --output FILE")
        refuse({"--output": (request.output, TRANSCRIPTS), "--html": (request.html, PAGE)}, [*files, *request.reads])
        return identified(files, self._view)

    def _captioned(self, recordings: Sequence[Recording]) -> tuple[Journal, bool]:
        """What there is after captioning what was missing, and whether that was interrupted."""
        request = self._request
        with startup.still_collector(), self._view.loading("PyTorch"):
            from specdec_cli.compare.journal import Journal, read_journal
            from specdec_cli.compare.plan import in_mode, terms
            from specdec_cli.compare.runner import Runner
        wanted = terms({mode: in_mode(request.config, mode) for mode in request.modes})
        again = request.output is not None and not request.overwrite
        journal = Journal(request.output, read_journal(request.output, wanted) if again and request.output else ())
        runner = Runner(wanted, journal, _Watch(self._view))
        steps = runner.steps(recordings, request.repeats)
        captioners = self._captioners(wanted, journal) if steps else {}
        if request.overwrite and request.output is not None:
            request.output.unlink(missing_ok=True)
        runner.refuse_unreadable(recordings)
        return journal, self._interrupted(runner, steps, captioners)

    def _captioners(self, wanted: Mapping[Mode, Terms], journal: Journal) -> dict[Mode, Captioner]:
        """Every mode on the same loaded models."""
        with startup.still_collector():
            from specdec_cli.captioner import Captioner
            from specdec_cli.compare.plan import in_mode

            both = Captioner.load(in_mode(self._request.config, "hybrid"), loading=self._view.loading)
        captioners = {mode: both.variant(in_mode(self._request.config, mode)) for mode in wanted}
        journal.require_models({mode: captioner.setup for mode, captioner in captioners.items()})
        return captioners

    def _interrupted(self, runner: Runner, steps: Sequence[Step], captioners: Mapping[Mode, Captioner]) -> bool:
        """Captions what there is to caption; whether somebody stopped it."""
        try:
            if steps:
                self._view.say("warming up: a first run of every mode, which does not count")
                runner.warm_up(steps, captioners)
                self._view.begin(len(steps))
                runner.run(steps, captioners)
        except KeyboardInterrupt:
            self._view.say("interrupted: this is what was done so far")
            return True
        finally:
            self._view.close()
        return False

    def _show(self, found: Comparison, transcripts: Sequence[Transcript]) -> None:
        request = self._request
        if request.html is not None:
            from specdec_cli.compare.build import by_mode
            from specdec_cli.report import write_report

            with self._view.loading("the page"):
                write_report(request.html, found, by_mode(transcripts, request.modes))
        if request.json:
            write_line(found.model_dump_json())
            return
        from specdec_cli.console.compare import print_comparison

        print_comparison(found, captions=request.captions)


class _Watch:
    """Passes on what the runner does."""

    def __init__(self, view: QuietSteps) -> None:
        self._view = view

    def begins(self, step: Step) -> None:
        self._view.step(f"{step.mode} {step.recording.path}")

    def done(self, _step: Step) -> None:
        self._view.advance()

    def failed(self, file: str, error: SpecdecError) -> None:
        self._view.failed(file, error)
