"""The work behind `specdec batch`: what is refused before models are loaded, and a batch from inputs to output."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from specdec_cli.cli import startup
from specdec_cli.config.problems import show
from specdec_cli.errors import ConfigError
from specdec_cli.targets import TABLE, TRANSCRIPTS
from specdec_cli.targets import refuse as refuse_targets

if TYPE_CHECKING:
    from specdec_cli.batch.begun import Begun
    from specdec_cli.batch.output import Asked, Identity, Output
    from specdec_cli.batch.runner import Stop
    from specdec_cli.batch.tasks import Backend, Progress
    from specdec_cli.config import Config
    from specdec_cli.console import Steps
    from specdec_cli.errors import SpecdecError
    from specdec_cli.inputs import Inputs
    from specdec_cli.lexicon import Lexicon

_LONGEST_COMMAND: Final = 300


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how wide to work.

    Attributes:
        batch_size: clips decoded together by one model pair; None: as many as pays.
        workers: threads that read ahead, for each pair.
        ray: whether to work on a cluster.
        address: of the cluster; None: Ray's own choice.
    """

    batch_size: int | None
    workers: int
    ray: bool
    address: str | None


class Batching:
    """A batch from its inputs to its output."""

    def __init__(
        self,
        config: Config,
        lexicon: Lexicon | None,
        inputs: Inputs | None,
        output: Path,
        view: Steps,
        *,
        resume: bool,
        retry_failed: bool,
    ) -> None:
        self._config = config
        self._lexicon = lexicon
        self._inputs = inputs
        self._path = output
        self._view = view
        self._resume = resume
        self._retry_failed = retry_failed

    def run(self, place: Place, limit: int | None, *, fail_fast: bool) -> tuple[Progress, bool]:
        """Captions what is to do; returns the counts, and whether somebody interrupted it.

        Raises:
            ConfigError: a path leads nowhere.
            AudioError: nothing of what is to do can be opened as audio.
        """
        with startup.still_collector(), self._view.loading("PyTorch"):
            from specdec_cli.batch.begun import DIED, Begun
            from specdec_cli.batch.output import Output
            from specdec_cli.batch.plan import Plan
            from specdec_cli.batch.runner import Stop, run_batch
        identity = self._identity()
        with Output(self._path, identity.check if self._resume else None) as output:
            self._require_there(output)
            suspects = [e.retry.path for _, e in output.entries() if e.retry and DIED in (e.message or "")]
            with Begun(self._path, suspects) as begun:
                plan = Plan(self._inputs, output, limit=limit, only_failed=self._retry_failed)
                counts = plan.look_ahead(begun)
                if plan.finished:
                    counts.total = counts.done
                    return counts, False
                with self._backend(identity, place, begun) as backend:
                    if not self._resume:
                        output.clear()
                    stop, told = Stop(), self._view.update
                    with _interruptible(stop, self._view) as interrupted:
                        run_batch(plan, backend, output, stop, told=told, progress=counts, fail_fast=fail_fast)
                    return counts, bool(interrupted)

    def export(self, csv: Path | None, txt_dir: Path | None) -> list[SpecdecError]:
        """Writes all captions of the output in the other forms that were asked for; returns what could not be."""
        from specdec_cli.batch.export import write_csv, write_texts

        if not self._path.is_file():  # interrupted before anything was captioned
            return []
        base = os.getcwd() if self._inputs is None else self._inputs.base
        if csv is not None:
            write_csv(self._path, self._inputs, base, csv)
        return [] if txt_dir is None else write_texts(self._path, base, txt_dir)

    def _require_there(self, output: Output) -> None:
        from specdec_cli.inputs import Key, Paths

        paths = self._inputs.missing if isinstance(self._inputs, Paths) else []
        if gone := [path for path in paths if output.find(Key.of(path)) is None]:
            more = f" and {len(gone) - 1} more" if gone[1:] else ""
            hint = "Check the spelling, and the folder that you are in."
            raise ConfigError(f"There is nothing at {show(gone[0])}{more}.", hint=hint)

    def _identity(self) -> Identity:
        from specdec_cli.batch.output import Identity
        from specdec_cli.captioner import recorded_settings
        from specdec_cli.transcript.terms import Terms

        terms = Terms.of(self._config, recorded_settings(self._config), labels=self._lexicon is not None)
        return Identity(self._path, terms, self._asked())

    def _asked(self) -> Asked:
        from specdec_cli.inputs import Manifest

        inputs, prompt = self._inputs, self._config.prompt
        if inputs is None:  # each line says what it was asked
            return lambda _: None
        if isinstance(inputs, Manifest):
            rows = inputs.rows
            return lambda line: rows[line.key].asked(prompt) if line.key in rows else None
        return lambda _: (prompt.language, prompt.instruction)

    @contextmanager
    def _backend(self, identity: Identity, place: Place, begun: Begun) -> Iterator[Backend]:
        """Where to work, with the models loaded."""
        if place.ray:
            from specdec_cli.batch.cluster import RayBackend

            with RayBackend(
                self._config,
                self._lexicon,
                place.address,
                batch_size=place.batch_size,
                workers=place.workers,
                loading=self._view.loading,
            ) as cluster:
                identity.check_models(cluster.setup.models, cluster.setup.settings)
                yield cluster
            return
        with startup.still_collector():
            from specdec_cli.batch.local import LocalBackend
            from specdec_cli.captioner import Captioner

            captioner = Captioner.load(self._config, loading=self._view.loading)
        if self._lexicon is not None:
            captioner = captioner.labelled(self._lexicon)
        identity.check_models(captioner.setup.models, captioner.setup.settings)
        yield LocalBackend(captioner, batch_size=place.batch_size, workers=place.workers, begun=begun)


@contextmanager
def _interruptible(stop: Stop, view: Steps) -> Iterator[list[int]]:
    """Within the block the first Ctrl-C lets what is running finish, and the second ends the process at once.

    Gives a list that is not empty once somebody has interrupted.
    """
    interrupts: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        interrupts.append(number)
        if len(interrupts) > 1:
            raise KeyboardInterrupt
        stop.ask()
        view.stopping()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


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
    from specdec_cli.inputs import Manifest, Paths, with_list

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
    txt_dir: Path | None,
    *,
    resume: bool,
    retry_failed: bool,
) -> None:
    """Refuses what would fail later, or damage something.

    Raises:
        ConfigError: options contradict each other, or an output is one of the recordings.
        TranscriptError: the output cannot be written, or holds something else.
    """
    from specdec_cli.batch.export import require_rows_of

    if retry_failed and not resume:
        raise ConfigError("--retry-failed needs what --overwrite drops.", hint="Leave one of them out.")
    if retry_failed and not output.is_file():
        raise ConfigError(f"--retry-failed: there is no file {output}.", hint="Name the --output of the earlier run.")
    refuse_targets({"--output": (output, TRANSCRIPTS), "--csv": (csv, TABLE)}, reads)
    if csv is not None:
        require_rows_of(csv, output)
    if txt_dir is not None and txt_dir.exists() and not txt_dir.is_dir():
        raise ConfigError(f"--txt-dir {txt_dir} is not a folder.", hint="Name another one; it will be created.")


def command_line(leave_out: list[str], *more: str) -> str:
    """The command line that this process was given, without some of it and never with --overwrite."""
    arguments = [argument for argument in sys.argv[1:] if argument not in (*leave_out, *more, "--overwrite")]
    command = shlex.join(["specdec", *arguments, *more])
    if len(command) > _LONGEST_COMMAND:
        return f"the same command again{''.join(f', with {flag}' for flag in more)}, and without --overwrite"
    return command
