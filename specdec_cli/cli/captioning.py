"""What `caption`, `batch` and `listen` share: they find recordings, resume an output, caption, print and count."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import typer

from specdec_cli.batch.output_file import Output, accepting
from specdec_cli.batch.tasks import Outcome, Progress, Stopped, Wholes, caption_all, find_tasks, without_models
from specdec_cli.cli import options
from specdec_cli.cli.command_run import labelling, lexicon_of, load_captioner
from specdec_cli.cli.export import Exports
from specdec_cli.cli.outputs import CaptionsFile
from specdec_cli.config import Config
from specdec_cli.console.plain import print_caption, write_line
from specdec_cli.console.progress import show_totals, warn_no_speech
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError
from specdec_cli.format import count, marked, shares
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.find import Paths, require_sounds, with_list
from specdec_cli.inputs.manifest import Inputs, Manifest
from specdec_cli.journal import read_lines
from specdec_cli.prompts import Language
from specdec_cli.targets import Targets
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.lines import Line
from specdec_cli.transcript.terms import Terms, loaded_changes

if TYPE_CHECKING:
    from specdec_cli.batch.tasks import Backend
    from specdec_cli.captioner import Captioner

_REMEMBERED: Final = 500  # the latest transcripts of a file, from which tokens are guessed


class Captioning:
    """Captions the recordings of the running command with any backend, resumes its output, and writes exports.

    The command's options are read by name. `may_be_sound`: whether stdin may hold a recording. Raises ConfigError or
    TranscriptError for options that cannot be met, before anything is loaded or written.
    """

    def __init__(self, context: typer.Context, *, may_be_sound: bool = True) -> None:
        self.resolved, self.counts = options.resolve(context), Progress()
        self.config = self.resolved.config
        self._given = request = SimpleNamespace(**context.params)
        tables = (request.manifest, request.lexicon, request.calibration)
        reads = [*(request.paths or ()), *tables, *self.resolved.reads]
        self._targets = Targets(reads, overwrite=request.overwrite)
        self.target = CaptionsFile.of(request.output, self._targets)
        self._resumes = self.target.resumable and request.output.is_file() and not request.overwrite
        if request.retry_failed and self.target.format is not None:
            hint = "Name the transcripts of the earlier run: --output FILE.jsonl"
            raise ConfigError(f"--retry-failed: {request.output} is an export, which no run resumes.", hint=hint)
        if request.retry_failed and not self._resumes:
            hint = "Name the --output of the earlier run, without --overwrite."
            raise ConfigError(f"--retry-failed: there is no file {request.output} to resume.", hint=hint)
        if request.overwrite and request.output is None:
            raise ConfigError("--overwrite needs --output, which is not given.", hint="Name a file: --output FILE")
        transcripts = request.output if self.target.resumable else None
        self._exports = Exports.after(request.exports, request.export_dir, transcripts, self._targets)
        self._inputs: Inputs | None = None  # None: the recordings that failed before
        if request.manifest is not None or request.paths or not request.retry_failed:
            self._inputs = self._find_inputs(may_be_sound)
        formats = self.target.path.suffix.lstrip(".").lower() if self.target.path is not None else ""
        hint = f"Write a folder beside transcripts: --output FILE.jsonl --export {formats}"
        self.target.require_one(self.target.format is not None and self.several, hint)
        self.labelling = labelling(context)
        self._terms = Terms.of(self.config, lexicon_of(self.labelling), self.labelling is not None)
        self._refused = 0  # exit code if no recording could be opened; then nothing was written
        self._moved = 0  # recordings done before that have another name by now
        self._renamed = 0  # recordings done before of which the manifest has another speaker or text

    def run(
        self,
        backend: Callable[[], AbstractContextManager[Backend]],
        stopped: Stopped,
        *,
        tell: Callable[[Outcome, Output], None] = lambda *_: None,
        report: Callable[[], None] = lambda: None,
    ) -> None:
        """Captions what the output lacks; the backend is entered only if there is something to do.

        Args:
            stopped: whether nothing more is to be begun.
            tell: called with every outcome, before it is written.
            report: called when an outcome is in the output and in the counts.
        """
        request, counts, wholes = self._given, self.counts, Wholes()
        accepts = accepting(self._terms, partial(_prompting, self.config, self._inputs))

        def keep(outcome: Outcome, *, write: bool = True) -> None:
            outcome = wholes.complete(outcome, lambda: stored.transcripts(stored.find(outcome.item)))
            tell(outcome, stored)
            if write and outcome.line is not None:
                stored.add(outcome.item.key, outcome.line)
            counts.add(outcome)
            report()

        with (
            self.target.journal(self._inputs) as journal,
            Output(journal, accepts, overwrite=request.overwrite) as stored,
        ):
            self._moved = 0 if self._inputs is None else stored.follow(self._inputs)
            audio = self.config.audio
            cuts = Cuts.of_config(audio) if audio.cuts_path is not None and audio.cuts_path.is_dir() else None
            tasks = find_tasks(self._inputs, stored, limit=request.limit, only_failed=request.retry_failed, cuts=cuts)
            counts.total = len(tasks)
            # a file of cuts and channels may name speakers, too
            if isinstance(self._inputs, Manifest) and audio.cuts_path is None and audio.channel != "each":
                self._renamed = sum(task.renamed for task in tasks)
            if (outcomes := without_models(tasks, self._terms)) is not None:
                if not any(task.marks for task in tasks):
                    self._refused = max((outcome.error.status for outcome in outcomes if outcome.error), default=0)
                for task, outcome in zip(tasks, outcomes, strict=True):
                    keep(outcome, write=not (self._refused or task.marks))
                return
            with backend() as entered:
                counts.started = time.monotonic()  # so that the rate leaves loading out
                stored.require(lambda line: loaded_changes(line.head, entered.setup, ("dtype", "weights")))
                caption_all(tasks, entered, stopped, keep)

    def end(self, view: View, *, interrupted: bool = False) -> int:
        """Writes the exports; returns the exit code."""
        if isinstance(self._inputs, Manifest):
            view.skips.append(self._inputs.skips)
        if self._moved:
            view.say(
                f"{count(self._moved, 'recording')} done before under another name: {self._given.output} has the new"
            )
        if self._renamed:
            differ = f"the manifest has another speaker or text of {count(self._renamed, 'recording')} done before"
            view.warn(f"{differ}: {self._given.output} keeps its own; --overwrite captions all anew")
        output, base = self._given.output, os.getcwd() if self._inputs is None else self._inputs.base
        written = True
        if self._exports is not None and output is not None and output.is_file():
            written = self._exports.written(output, view, self._inputs, base)
        if interrupted:
            return 130
        return self._refused or int(self.counts.failed > 0 or not written)

    @property
    def recordings(self) -> tuple[str, ...]:
        """The paths of all recordings that the command names."""
        return tuple(item.path for item in self._inputs or ())

    @property
    def several(self) -> bool:
        """Whether more than one recording is asked for."""
        return self._inputs is None or len(list(islice(iter(self._inputs), 2))) > 1

    def load(self, view: View, *, runs_long: bool) -> Captioner:
        """A captioner that guesses from the output that it resumes, and finds cuts for the given recordings alone."""
        request = self._given
        earlier = request.output if self._resumes else None
        lines = [] if earlier is None else deque(read_lines(earlier), maxlen=_REMEMBERED)
        captioner = load_captioner(
            self.config,
            view,
            self.labelling,
            recordings=self.recordings,
            measures=request.measure,
            runs_long=runs_long,
        )
        captioner.remember(Transcript.from_json(line.raw, str(earlier)) for line in lines if not line.torn)
        return captioner

    def _find_inputs(self, may_be_sound: bool) -> Inputs:
        """The recordings that the command line names; ConfigError if it names none, or in two ways."""
        request = self._given
        if (request.manifest is None) == (not request.paths):
            says = "Recordings are named in two ways." if request.paths else "No recordings are named."
            raise ConfigError(says, hint="Name files, folders or patterns; or a --manifest, and not both.")
        if request.manifest is not None:
            return Manifest.read(request.manifest, strict=self.config.audio.strict)
        folder = self._exports.folder if self._exports else None
        own = frozenset(os.path.abspath(path) for path in (request.output, folder) if path is not None)
        given = with_list(request.paths or [], may_be_sound=may_be_sound)
        require_sounds(given)
        found = Paths(given, request.recursive, request.pattern, own)
        found.require_recordings()
        return found


@dataclass
class Printer:
    """Prints captions on stdout, a line each, also those of earlier runs, and shows failures.

    Attributes:
        json: print transcripts instead of captions.
        named: write the file's name before each caption.
        cut: also write the start, end and speaker of the only piece of a recording, as those of several.
    """

    view: View
    json: bool
    named: bool
    cut: bool = False
    _last: object = field(default=None, init=False)

    def __call__(self, outcome: Outcome, stored: Output | None = None) -> None:
        """Prints an outcome, after the captions that `stored` has of the same recording."""
        begins, self._last = self._last != outcome.item.key, outcome.item.key
        if stored is not None and begins and (outcome.line is None or outcome.captioned):
            for transcript in stored.transcripts(stored.find(outcome.item)):
                self._print(outcome.item.path, transcript)
        if outcome.line is not None:
            if outcome.error is not None:
                self.view.failed(outcome.item.path, outcome.error)
            self._print(outcome.item.path, outcome.line)
            if outcome.line.whole is not None and (found := shares(outcome.line.whole)):
                self.view.conclude(f"{outcome.item.path} as a whole: {found}")

    def _print(self, file: str, transcript: Transcript) -> None:
        if self.json:
            write_line(transcript.to_json())
        elif transcript.caption is not None:
            columns, speaker = [file] if self.named else [], ""
            if transcript.pieces is not None or (self.cut and transcript.start_s is not None):
                columns += [f"{transcript.start_s or 0.0:.2f}", f"{transcript.end_s or 0.0:.2f}"]
                speaker = f"{transcript.speaker}: " if transcript.speaker else ""
            flags = (*transcript.flags, *(("degraded",) if transcript.degraded else ()))
            text = marked(speaker + transcript.caption, " ".join(flags))
            print_caption(text, before=columns, shown=self.view.form == "live")


def conclude_clips(view: View, counts: Progress, output: Path | None, *, ended: bool) -> None:
    """Shows the totals of clips that were shown one by one, if they are several; `ended`: not interrupted."""
    several = counts.skipped or counts.pieces + counts.failed >= (2 if ended else 1)
    if view.form != "errors" and several:
        show_totals(view, counts, output)
    elif view.form == "errors":
        warn_no_speech(view, counts)


def command_line(*more: str) -> str:
    """The command line of this process with more options, and without --overwrite."""
    arguments = sys.argv[1:]
    names_at = arguments.index("--") if "--" in arguments else len(arguments)
    options, names = arguments[:names_at], arguments[names_at:]  # behind -- all are names, whatever they begin with
    kept = [argument for argument in options if argument not in (*more, "--overwrite")]
    return shlex.join(["specdec", *kept, *more, *names])


def _prompting(config: Config, inputs: Inputs | None, line: Line) -> tuple[Language, str] | None:
    """Language and instruction of a line's clip in this run; None if the line's own count. See `accepting`."""
    if isinstance(inputs, Manifest):
        return inputs.rows[line.key].language_and_prompt(config) if line.key in inputs.rows else None
    return None if inputs is None else (config.prompt.language, config.instruction())
