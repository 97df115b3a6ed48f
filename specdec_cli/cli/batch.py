"""`specdec batch`: many recordings, several at a time, to a file that a later run takes up again."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specdec_cli import targets
from specdec_cli.cli.command import Given, command
from specdec_cli.cli.options import SETTING_OPTIONS
from specdec_cli.cli.startup import labelling, load_captioner
from specdec_cli.config.problems import show
from specdec_cli.errors import ConfigError

if TYPE_CHECKING:
    from specdec_cli.batch.begun import Note
    from specdec_cli.batch.lines import Line
    from specdec_cli.batch.output import Identity, Output
    from specdec_cli.batch.tasks import Backend, Progress
    from specdec_cli.cli.export import Exports
    from specdec_cli.confidence.calibration import Labelling
    from specdec_cli.config import Config
    from specdec_cli.console.progress import Steps
    from specdec_cli.errors import SpecdecError
    from specdec_cli.inputs.manifest import Inputs
    from specdec_cli.prompts import Language

_LISTED: Final = 5
_LONGEST_COMMAND: Final = 300


@command(*SETTING_OPTIONS, example="recordings/ -o captions.jsonl --csv captions.csv")
def batch(
    given: Given,
    output: Path,
    paths: list[str] | None = None,
    labels: bool = False,
    lexicon: Path | None = None,
    calibration: Path | None = None,
    measure: bool = False,
    recursive: bool = False,
    pattern: str | None = None,
    manifest: Path | None = None,
    limit: int | None = None,
    overwrite: bool = False,
    retry_failed: bool = False,
    csv: Path | None = None,
    exports: str | None = None,
    export_dir: Path | None = None,
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
    from specdec_cli.cli.export import Exports
    from specdec_cli.cli.work import exit_code
    from specdec_cli.console.progress import choose_steps
    from specdec_cli.inputs.find import Paths

    resume = not overwrite
    resolved = given.resolve()
    size = _batch_size(batch_size)
    more = Exports.after(exports, export_dir, output)
    own = [path for path in (output, csv, more.folder if more else None) if path is not None]
    inputs = find_inputs(paths or [], manifest, recursive, pattern, own, retry_failed=retry_failed)
    reads = [*(paths or []), manifest, lexicon, calibration, *resolved.reads]
    refuse(reads, output, csv, resume=resume, retry_failed=retry_failed)
    labelled = labelling(labels, lexicon, calibration)
    with closing(choose_steps(quiet=quiet, debug=debug)) as view:
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
            workers=workers or min(os.cpu_count() or 1, 4),
            ray=ray or ray_address is not None,
            ray_address=ray_address,
        )
        counts, interrupted = job.run(limit, fail_fast=fail_fast)
        unwritten = job.export(csv, more)
    view.finished(counts)
    for error in unwritten[:_LISTED]:
        view.hint(error.message)
    if unwritten[_LISTED:]:
        view.hint(f"{len(unwritten) - _LISTED} more files were not written.")
    if not quiet and isinstance(inputs, Paths) and (folders := inputs.unsearched):
        view.hint(f"Folders inside those given were not searched ({folders}); --recursive searches them.")
    if counts.failed:
        view.failures(counts, str(output))
        view.hint(f"To caption just those again: {command_line(paths or [], '--retry-failed')}")
    if interrupted:
        view.hint(f"Captions so far are kept, also of single pieces. To go on: {command_line([])}")
    some = bool(counts.captioned or counts.skipped or counts.tokens)
    return exit_code(interrupted=interrupted, failed=bool(counts.failed or unwritten), done=some)


def _batch_size(given: str) -> int | None:
    if given == "auto":
        return None
    if given.isdecimal() and int(given) > 0:
        return int(given)
    raise ConfigError(f"--batch-size takes auto or a whole number from 1, not {given!r}.", hint="Try --batch-size 16.")


@dataclass(frozen=True)
class Batching:
    """A batch from its inputs to its output.

    Attributes:
        labelling: what transcripts are labelled with; None: not asked for.
        inputs: the recordings; None: what failed before.
        resume: keep what the output holds.
        retry_failed: take only what failed before.
        measures: measure figures of each clip.
        batch_size: clips decoded together by one model pair; None: as many as pays.
        workers: threads that read ahead, for each pair.
        ray_address: of the cluster, with `ray`; None: Ray's own choice.
    """

    config: Config
    labelling: Labelling | None
    inputs: Inputs | None
    output: Path
    view: Steps
    resume: bool
    retry_failed: bool
    measures: bool = False
    batch_size: int | None = None
    workers: int = 1
    ray: bool = False
    ray_address: str | None = None

    def run(self, limit: int | None, *, fail_fast: bool) -> tuple[Progress, bool]:
        """Captions what is to do; returns the counts, and whether somebody interrupted it.

        Raises:
            ConfigError: a path leads nowhere.
            AudioError: nothing of what is to do can be opened as audio.
        """
        from specdec_cli.batch.begun import DIED, Note
        from specdec_cli.batch.output import Identity, Output
        from specdec_cli.batch.plan import Plan
        from specdec_cli.batch.runner import run_batch
        from specdec_cli.cli.work import interruptible
        from specdec_cli.transcript.terms import Terms

        terms = Terms.of(self.config, labels=self.labelling is not None, measured=self.measures)
        identity = Identity(self.output, terms, self._asked)
        with Output(self.output, identity.check if self.resume else None) as output:
            self._require_there(output)
            suspects = [e.retry.path for _, e in output.entries() if e.retry and DIED in (e.message or "")]
            with Note(self.output, suspects) as begun:
                plan = Plan(self.inputs, output, limit=limit, only_failed=self.retry_failed)
                counts = plan.look_ahead(begun)
                if plan.finished:
                    counts.total = counts.done
                    return counts, False
                with self._backend(identity, begun) as backend:
                    if not self.resume:
                        output.clear()
                    with interruptible(self.view.stopping) as interrupted:
                        told = self.view.update
                        run_batch(plan, backend, output, interrupted, told=told, progress=counts, fail_fast=fail_fast)
                    return counts, bool(interrupted)

    def export(self, csv: Path | None, exports: Exports | None = None) -> list[SpecdecError]:
        """Writes all captions of the output in the other forms that were asked for; returns what could not be."""
        if (csv is None and exports is None) or not self.output.is_file():  # interrupted before anything was captioned
            return []
        from specdec_cli.export.recordings import Stored
        from specdec_cli.export.table import table_rows
        from specdec_cli.report.figures import count

        stored = Stored.read(self.output, os.getcwd() if self.inputs is None else self.inputs.base)
        if csv is not None:
            targets.write(csv, table_rows(stored, self.inputs), targets.TABLE)
        if exports is None:
            return []
        written = exports.write(stored, inputs=self.inputs)
        self.view.say(f"{count(written.count, 'file')} in {exports.folder}")
        return written.problems

    def _require_there(self, output: Output) -> None:
        from specdec_cli.inputs.find import Paths
        from specdec_cli.inputs.recording import Key

        paths = self.inputs.missing if isinstance(self.inputs, Paths) else []
        if gone := [path for path in paths if output.find(Key.of(path)) is None]:
            more = f" and {len(gone) - 1} more" if gone[1:] else ""
            hint = "Check the spelling, and the folder that you are in."
            raise ConfigError(f"There is nothing at {show(gone[0])}{more}.", hint=hint)

    def _asked(self, line: Line) -> tuple[Language, str] | None:
        """See `Identity`; None where the line itself says what it was asked, as those of what failed before do."""
        from specdec_cli.inputs.manifest import Manifest

        prompt = self.config.prompt
        if isinstance(self.inputs, Manifest):
            return self.inputs.rows[line.key].asked(prompt) if line.key in self.inputs.rows else None
        return None if self.inputs is None else (prompt.language, prompt.instruction)

    @contextmanager
    def _backend(self, identity: Identity, begun: Note) -> Iterator[Backend]:
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
                identity.check_models(cluster.setup.models, cluster.setup.settings)
                yield cluster
            return
        captioner = load_captioner(self.config, self.view, self.labelling, measures=self.measures)
        from specdec_cli.batch.local import LocalBackend

        identity.check_models(captioner.setup.models, captioner.setup.settings)
        yield LocalBackend(captioner, batch_size=self.batch_size, workers=self.workers, begun=begun)


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
        found = Paths(given, recursive, pattern, frozenset(os.path.abspath(path) for path in own))
        found.require_one()
        return found
    if retry_failed:
        return None
    raise ConfigError("No recordings are named.", hint="Name files, folders or patterns, or a --manifest.")


def refuse(
    reads: Sequence[str | Path | None],
    output: Path,
    csv: Path | None,
    *,
    resume: bool,
    retry_failed: bool,
) -> None:
    """Refuses what would fail later, or damage something.

    Raises:
        ConfigError: options contradict each other, or an output is one of the recordings.
        TranscriptError: the output cannot be written, or holds something else.
    """
    from specdec_cli.export.table import require_rows_of

    if retry_failed and not resume:
        raise ConfigError("--retry-failed needs what --overwrite drops.", hint="Leave one of them out.")
    if retry_failed and not output.is_file():
        raise ConfigError(f"--retry-failed: there is no file {output}.", hint="Name the --output of the earlier run.")
    targets.refuse({"--output": (output, targets.TRANSCRIPTS), "--csv": (csv, targets.TABLE)}, reads)
    if csv is not None:
        require_rows_of(csv, output)


def command_line(leave_out: list[str], *more: str) -> str:
    """The command line that this process was given, without some of it and never with --overwrite."""
    arguments = [argument for argument in sys.argv[1:] if argument not in (*leave_out, *more, "--overwrite")]
    command = shlex.join(["specdec", *arguments, *more])
    if len(command) > _LONGEST_COMMAND:
        return f"the same command again{''.join(f', with {flag}' for flag in more)}, and without --overwrite"
    return command
