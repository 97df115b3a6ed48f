"""What `caption`, `batch` and `listen` share: what they ask for, what they print, and how they end."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from specdec_cli import interrupts
from specdec_cli.captioning.job import Job, Sink
from specdec_cli.captioning.output_file import Output
from specdec_cli.captioning.tasks import Outcome, Progress
from specdec_cli.cli.options import CaptioningOptions, RecordingOptions
from specdec_cli.cli.outputs import Outputs
from specdec_cli.cli.set_up import load_captioner
from specdec_cli.config import ResolvedConfig
from specdec_cli.console.plain import print_caption, write_line
from specdec_cli.console.progress import show_totals, warn_no_speech
from specdec_cli.console.view import View
from specdec_cli.errors import DEGRADED_STATUS, ConfigError, as_specdec_error
from specdec_cli.format import count, marked, shares
from specdec_cli.inputs.find import Inputs, Paths, require_not_all_text, with_list
from specdec_cli.labels import Lexicon
from specdec_cli.targets import Targets
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.shared import SharedFields

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.run import Run


class Recordings(CaptioningOptions, RecordingOptions):
    """The options of `caption` and `batch`."""


class Asked(NamedTuple):
    """What a command asks for: its settings, the job, and where captions go."""

    resolved: ResolvedConfig
    job: Job
    outputs: Outputs


def job_of(command: Recordings, output: Path | None, *, may_be_sound: bool = True) -> Asked:
    """The job that a command asks for, with its settings and its outputs.

    `may_be_sound`: whether stdin may hold a recording. Raises ConfigError or TranscriptError for options that cannot be
    met, before anything is loaded or written.
    """
    if output is None:
        require_stdout()
    resolved = command.resolved()
    reads = [*(command.paths or ()), command.manifest, command.lexicon, *resolved.reads]
    targets = Targets(reads, overwrite=command.overwrite)
    outputs = Outputs.of(output, command.exports, targets, command.export_dir)
    transcripts = outputs.transcripts
    if command.retry_failed and (command.overwrite or transcripts is None or not transcripts.is_file()):
        hint = "Name the --output of the earlier run, without --overwrite."
        raise ConfigError(f"--retry-failed: there is no file {transcripts} to resume.", hint=hint)
    if command.overwrite and output is None:
        raise ConfigError("--overwrite needs --output, which is not given.", hint="Name a file: --output FILE")
    inputs: Inputs | None = None  # the recordings that failed before
    if command.manifest is not None or command.paths or not command.retry_failed:
        inputs = _inputs(command, outputs, may_be_sound, strict=resolved.config.audio.strict)
    job = Job(
        config=resolved.config,
        lexicon=Lexicon.read(command.lexicon),
        inputs=inputs,
        transcripts=transcripts,
        overwrite=command.overwrite,
        limit=command.limit,
        only_failed=command.retry_failed,
    )
    if outputs.file is not None:
        form = outputs.file.suffix.lstrip(".").lower()
        outputs.require_one(job.several, f"Name a table (.csv), or a folder of files: -o FILE.jsonl --export {form}")
    return Asked(resolved, job, outputs)


def _inputs(command: Recordings, outputs: Outputs, may_be_sound: bool, *, strict: bool) -> Inputs:
    """The recordings that the command line names; ConfigError if it names none, or in two ways."""
    if (command.manifest is None) == (not command.paths):
        says = "Recordings are named in two ways." if command.paths else "No recordings are named."
        raise ConfigError(says, hint="Name files, folders or patterns; or a --manifest, and not both.")
    if command.manifest is not None:
        from specdec_cli.inputs.manifest import read_manifest

        return read_manifest(command.manifest, strict=strict)
    own = (outputs.transcripts, outputs.file, outputs.folder)
    given = with_list(command.paths or [], may_be_sound=may_be_sound)
    require_not_all_text(given)
    found = Paths(given, command.recursive, frozenset(os.path.abspath(path) for path in own if path is not None))
    found.require_recordings()
    return found


def require_stdout() -> None:
    """Raises ConfigError if captions are to be printed, and stdout is closed."""
    if not sys.stdout.writable():
        raise ConfigError("Standard output is closed, and captions go there.", hint="Name a file: --output FILE")


class LoadedBackend:
    """The base of backends on this machine (see `Backend`): entering it loads the models.

    Attributes:
        captioner: with these models, within the block. It guesses from the transcripts that are resumed.
    """

    runs_long: ClassVar[bool] = False  # whether compiling pays
    captioner: Captioner

    def __init__(self, job: Job, view: View) -> None:
        self.job, self.view = job, view

    def __enter__(self) -> Self:
        job, earlier = self.job, list(self.job.earlier())  # refused before anything that takes seconds
        recordings, runs_long = job.recordings, self.runs_long
        self.captioner = load_captioner(job.config, self.view, job.lexicon, recordings=recordings, runs_long=runs_long)
        for transcript in earlier:
            self.captioner.remember(transcript)
        return self

    def __exit__(self, *_: object) -> None:
        self.captioner.close()

    def watched(self, outcome: Outcome, run: Run) -> Outcome:
        """Decodes a clip: reads `run.updates()` and shows each. The outcome has its transcript or its error."""
        try:
            for update in run.updates():
                self.view.show(update)
            return replace(outcome, line=run.finish())
        except Exception as unforeseen:
            interrupts.check()  # which may have ended a call
            error = as_specdec_error(unforeseen)
            return replace(outcome, line=run.failed(error), error=error)

    @property
    def shared(self) -> SharedFields:
        """See `Backend`."""
        return self.captioner.shared


class Printer(Sink):
    """Prints captions on stdout, a line each, also those of earlier runs, and shows failures.

    Args:
        view: shows the failures.
        json: print transcripts instead of captions.
        named: write the file's name before each caption.
        cut: also write the start, end and speaker of the only piece of a recording, as those of several.
    """

    def __init__(self, view: View, *, json: bool, named: bool, cut: bool) -> None:
        super().__init__()
        self._view, self._json, self._named, self._cut = view, json, named, cut
        self._last: object = None

    def take(self, outcome: Outcome, stored: Output) -> None:
        """Prints an outcome, after the captions that `stored` has of the same recording."""
        begins, self._last = self._last != outcome.item.key, outcome.item.key
        if begins and (outcome.line is None or outcome.captioned):
            for transcript in stored.transcripts(stored.find(outcome.item)):
                self._print(outcome.item.path, transcript)
        if outcome.line is not None:
            if outcome.error is not None:
                self._view.failed(outcome.item.path, outcome.error)
            self._print(outcome.item.path, outcome.line)
            if outcome.line.whole is not None and (found := shares(outcome.line.whole)):
                self._view.conclude(f"{outcome.item.path} as a whole: {found}")

    def _print(self, file: str, transcript: Transcript) -> None:
        if not sys.stdout.writable():  # which was closed on purpose, as captions go to a file
            return
        if self._json:
            write_line(transcript.to_json())
        elif transcript.caption is not None:
            columns, speaker = [file] if self._named else [], ""
            if transcript.pieces is not None or (self._cut and transcript.start_s is not None):
                columns += [f"{transcript.start_s or 0.0:.2f}", f"{transcript.end_s or 0.0:.2f}"]
                speaker = f"{transcript.speaker}: " if transcript.speaker else ""
            flags = (*transcript.flags, *(("degraded",) if transcript.degraded else ()))
            text = marked(speaker + transcript.caption, " ".join(flags))
            print_caption(text, before=columns, shown=self._view.form == "live")


def conclude_clips(view: View, counts: Progress, outputs: Outputs, *, ended: bool) -> None:
    """Shows the totals of clips that were shown one by one, if they are several; `ended`: not interrupted."""
    several = counts.skipped or counts.pieces + counts.failed >= (2 if ended else 1)
    if view.form != "errors" and several:
        show_totals(view, counts, outputs.named)
    elif view.form == "errors":
        warn_no_speech(view, counts)


def warn_of_names(view: View, job: Job, sink: Sink) -> None:
    """Shows what was left out of a manifest, and that it has other people than transcripts made before."""
    if job.inputs is not None and not isinstance(job.inputs, Paths):
        view.skips.append(job.inputs.skips)
    if sink.moved:
        view.say(f"{count(sink.moved, 'recording')} done before under another name: {job.transcripts} has the new")
    if sink.renamed:
        differ = f"the manifest has another speaker or text of {count(sink.renamed, 'recording')} done before"
        view.warn(f"{differ}: {job.transcripts} keeps its own; --overwrite captions all anew")


def status(sink: Sink, *, written: bool) -> int:
    """The exit code of a run that was not interrupted; `written`: whether all exports were."""
    counts = sink.counts
    if sink.refused or counts.failed or not written:
        return sink.refused or 1
    if counts.degraded:
        return DEGRADED_STATUS if counts.answered else 3
    return 0


def command_line(*more: str) -> str:
    """The command line of this process with more options, and without --overwrite."""
    arguments = sys.argv[1:]
    names_at = arguments.index("--") if "--" in arguments else len(arguments)
    options, names = arguments[:names_at], arguments[names_at:]  # behind -- all are names, whatever they begin with
    kept = [argument for argument in options if argument not in (*more, "--overwrite")]
    return shlex.join(["specdec", *kept, *more, *names])
