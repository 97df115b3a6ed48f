"""`specdec batch`: many recordings, several at a time, to a file that a later run takes up again."""

from __future__ import annotations

import os
import shlex
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from specdec_cli import targets
from specdec_cli.cli import options
from specdec_cli.cli.startup import labelling, load_captioner, require_cloud
from specdec_cli.errors import ConfigError

if TYPE_CHECKING:
    from specdec_cli.batch.output_file import Identity
    from specdec_cli.batch.tasks import Backend, Progress
    from specdec_cli.cli.export import Exports
    from specdec_cli.config import Config
    from specdec_cli.console.view import View
    from specdec_cli.errors import SpecdecError
    from specdec_cli.inputs.manifest import Inputs
    from specdec_cli.labels.calibration import Labelling
    from specdec_cli.prompts import Language
    from specdec_cli.transcript.lines import Line

_LISTED: Final = 5
_REMEMBERED: Final = 500  # transcripts that guesses begin with, the latest of a file
_LONGEST_COMMAND: Final = 300


def batch(
    context: typer.Context,
    output: options.BatchOut,
    paths: options.MorePaths = None,
    edge: options.EdgeModel = None,
    cloud: options.CloudModel = None,
    source: options.ConfigFile = None,
    settings: options.Settings = None,
    language: options.Language = None,
    style: options.Style = None,
    prompt: options.Prompt = None,
    force_prompt: options.ForcePrompt = None,
    segment: options.Segment = None,
    start: options.Start = None,
    end: options.End = None,
    labels: options.Labels = False,
    lexicon: options.LexiconFile = None,
    calibration: options.CalibrationFile = None,
    measure: options.Measure = False,
    recursive: options.Recursive = False,
    pattern: options.Pattern = None,
    manifest: options.ManifestFile = None,
    limit: options.Limit = None,
    retry_failed: options.RetryFailed = False,
    overwrite: options.Overwrite = False,
    exports: options.ExportsAfter = None,
    export_dir: options.ExportFolder = None,
    quiet: options.Quiet = False,
    batch_size: options.BatchSize = "auto",
    in_flight: options.InFlight = "auto",
    workers: options.Workers = None,
    ray: options.Ray = False,
    ray_address: options.RayAddress = None,
    fail_fast: options.FailFast = False,
    mode: options.DecodingMode = None,
    k: options.BlockSize = None,
    gate: options.GateOption = None,
    threshold: options.Threshold = None,
    defer: options.Defer = None,
    accept: options.Accept = None,
    max_new_tokens: options.MaxNewTokens = None,
    degrade: options.Degrade = None,
    lookup: options.LookupFile = None,
    edge_failed: options.EdgeFailed = None,
    debug: options.Debug = False,
) -> int:
    """Caption many recordings, several at a time.

    Run the same command again to go on where it was interrupted.
    """
    from specdec_cli.cli.command_run import exit_code
    from specdec_cli.cli.export import Exports
    from specdec_cli.console.live import choose_view
    from specdec_cli.console.progress import show_failures, show_totals

    resume = not overwrite
    resolved = options.resolve(context)
    size, flight = _clips("--batch-size", batch_size), _clips("--in-flight", in_flight)
    more = Exports.after(exports, export_dir, output)
    own = [path for path in (output, more.folder if more else None) if path is not None]
    inputs = find_inputs(paths or [], manifest, recursive, pattern, own, retry_failed=retry_failed)
    reads = [*(paths or []), manifest, lexicon, calibration, lookup, *resolved.reads]
    refuse(reads, output, resume=resume, retry_failed=retry_failed)
    labelled = labelling(labels, lexicon, calibration)
    with closing(choose_view(quiet=quiet, debug=debug, steps=True)) as view:
        for note in resolved.notes:
            view.say(note)
        job = Batching(
            resolved.config,
            labelled,
            inputs,
            output,
            view,
            resume=resume,
            retry_failed=retry_failed,
            measures=measure,
            batch_size=size,
            in_flight=flight,
            workers=workers or min(os.cpu_count() or 1, 4),
            ray=ray or ray_address is not None,
            ray_address=ray_address,
            lookup=lookup,
        )
        counts, interrupted = job.run(limit, fail_fast=fail_fast)
        unwritten = job.export(more)
    show_totals(view, counts, str(output))
    for error in unwritten[:_LISTED]:
        view.hint(error.message)
    if unwritten[_LISTED:]:
        view.hint(f"{len(unwritten) - _LISTED} more files were not written.")
    if failed := counts.failed or counts.in_part:
        show_failures(view, counts, str(output))
    if counts.may_pass:
        view.hint(f"To caption just those again: {command_line('--retry-failed')}")
    if interrupted:
        view.hint(f"Captions so far are kept, also of single pieces. To go on: {command_line()}")
    return exit_code(interrupted=interrupted, failed=bool(failed or unwritten))


def _clips(option: str, given: str) -> int | None:
    if given == "auto":
        return None
    if given.isdecimal() and int(given) > 0:
        return int(given)
    raise ConfigError(f"{option} takes auto or a whole number from 1, not {given!r}.", hint=f"Try {option} 16.")


@dataclass(frozen=True)
class Batching:
    """A batch from its inputs to its output; fields are the options of the command, with None for auto.

    Without `inputs`, the recordings are those that failed before.
    """

    config: Config
    labelling: Labelling | None
    inputs: Inputs | None
    output: Path
    view: View
    resume: bool
    retry_failed: bool
    measures: bool = False
    batch_size: int | None = None
    in_flight: int | None = None
    workers: int = 1
    ray: bool = False
    ray_address: str | None = None
    lookup: Path | None = None

    def run(self, limit: int | None, *, fail_fast: bool) -> tuple[Progress, bool]:
        """Captions what is to do; returns the counts, and whether Ctrl-C ended it early.

        Raises:
            AudioError: nothing of what is to do can be opened as audio.
        """
        from specdec_cli.batch.output_file import Identity, Output
        from specdec_cli.batch.plan import Plan
        from specdec_cli.cli.command_run import interruptible
        from specdec_cli.console.progress import show_counts
        from specdec_cli.transcript.terms import Terms

        terms = Terms.of(self.config, labels=self.labelling is not None, measured=self.measures)
        identity = Identity(self.output, terms, self._prompting)
        with Output(self.output, identity.check if self.resume else None) as output:
            plan = Plan(self.inputs, output, limit=limit, only_failed=self.retry_failed)
            counts = plan.look_ahead()
            if plan.finished:
                counts.total = counts.done
                return counts, False
            with self._backend(identity) as backend:
                if not self.resume:
                    output.clear()
                with interruptible(partial(self.view.stopping, "finishing what has begun")) as interrupted:
                    plan.run(backend, counts, partial(show_counts, self.view), interrupted, fail_fast=fail_fast)
                return counts, bool(interrupted)

    def export(self, exports: Exports | None) -> list[SpecdecError]:
        """Writes all captions of the output in the formats of --export; returns what could not be written."""
        if exports is None or not self.output.is_file():  # interrupted before anything was captioned
            return []
        from specdec_cli.export.recordings import Stored
        from specdec_cli.format import count

        stored = Stored.read(self.output, os.getcwd() if self.inputs is None else self.inputs.base)
        written = exports.write(stored, inputs=self.inputs)
        self.view.say(f"{count(written.count, 'file')} in {exports.folder}")
        return written.problems

    def _prompting(self, line: Line) -> tuple[Language, str] | None:
        """See `Identity`; None where the line itself says how it was prompted, as those of what failed before do."""
        from specdec_cli.inputs.manifest import Manifest

        if isinstance(self.inputs, Manifest):
            return self.inputs.rows[line.key].language_and_prompt(self.config) if line.key in self.inputs.rows else None
        return None if self.inputs is None else (self.config.prompt.language, self.config.instruction())

    @contextmanager
    def _backend(self, identity: Identity) -> Iterator[Backend]:
        """Where to work, with the models loaded."""
        if self.ray:
            from specdec_cli.batch.cluster import RayBackend

            with RayBackend(
                self.config,
                self.labelling,
                self.ray_address,
                batch_size=self.batch_size,
                workers=self.workers,
                measures=self.measures,
                loading=self.view.loading,
            ) as cluster:
                require_cloud(cluster.setup, degrades=self.config.decoding.degrades)
                identity.check_models(cluster.setup.models, cluster.setup.settings)
                yield cluster
            return
        captioner = load_captioner(self.config, self.view, self.labelling, measures=self.measures)
        from specdec_cli.batch.local import LocalBackend
        from specdec_cli.store import read_lines
        from specdec_cli.transcript.records import Transcript

        identity.check_models(captioner.setup.models, captioner.setup.settings)
        for earlier in filter(None, (self.lookup, self.output if self.resume and self.output.is_file() else None)):
            lines = deque(read_lines(earlier), maxlen=_REMEMBERED)
            captioner.remember(Transcript.from_json(line.raw, str(earlier)) for line in lines if not line.torn)
        yield LocalBackend(captioner, batch_size=self.batch_size, workers=self.workers, in_flight=self.in_flight)


def find_inputs(
    paths: list[str],
    manifest: Path | None,
    recursive: bool,
    pattern: str | None,
    own: list[Path],
    *,
    retry_failed: bool,
) -> Inputs | None:
    """What the command line names; None for what failed before.

    Raises:
        ConfigError: it names nothing, or contradicts itself.
    """
    from specdec_cli.inputs.find import Paths, with_list
    from specdec_cli.inputs.manifest import Manifest

    if manifest is not None and paths:
        raise ConfigError("Recordings come from PATHs or from a --manifest, not from both.", hint="Leave one out.")
    if manifest is not None:
        return Manifest.read(manifest)
    if paths and (given := with_list(paths)):
        without = frozenset(os.path.abspath(path) for path in own)
        found = Paths(given, recursive, pattern, without)
        found.require_one()
        return found
    if retry_failed:
        return None
    raise ConfigError("No recordings are named.", hint="Name files, folders or patterns, or a --manifest.")


def refuse(
    reads: Sequence[str | Path | None],
    output: Path,
    *,
    resume: bool,
    retry_failed: bool,
) -> None:
    """Refuses what would fail later, or damage something.

    Raises:
        ConfigError: options contradict each other, or an output is one of the recordings.
        TranscriptError: the output cannot be written, or holds something else.
    """
    if retry_failed and not resume:
        raise ConfigError("--retry-failed needs what --overwrite drops.", hint="Leave one of them out.")
    if retry_failed and not output.is_file():
        raise ConfigError(f"--retry-failed: there is no file {output}.", hint="Name the --output of the earlier run.")
    targets.refuse({"--output": (output, targets.TRANSCRIPTS)}, reads)


def command_line(*more: str) -> str:
    """The command line that this process was given, with more and never with --overwrite."""
    arguments = [argument for argument in sys.argv[1:] if argument not in (*more, "--overwrite")]
    command = shlex.join(["specdec", *arguments, *more])
    if len(command) > _LONGEST_COMMAND:
        return f"the same command again{''.join(f', with {flag}' for flag in more)}, and without --overwrite"
    return command
