"""`specdec batch`: many recordings, several at a time, to a file that a later run takes up again."""

from __future__ import annotations

import os
import shlex
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from specdec_cli.audio.paths import opened
from specdec_cli.batch.output_file import Identity, Output
from specdec_cli.batch.tasks import Progress, caption_all, drop_hopeless, find_tasks
from specdec_cli.cli import options
from specdec_cli.cli.command_run import display, interruptible, labelling, load_captioner, require_cloud
from specdec_cli.cli.export import Exports
from specdec_cli.config import Config
from specdec_cli.console.progress import show_counts, show_failures, show_totals
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError
from specdec_cli.inputs.find import Paths, with_list
from specdec_cli.inputs.manifest import Inputs, Manifest
from specdec_cli.inputs.opening import Stdin
from specdec_cli.labels.calibration import Labelling
from specdec_cli.prompts import Language
from specdec_cli.store import read_lines
from specdec_cli.targets import TRANSCRIPTS, refuse
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.lines import Line
from specdec_cli.transcript.terms import Terms

if TYPE_CHECKING:
    from specdec_cli.batch.tasks import Backend

_REMEMBERED: Final = 500  # transcripts that guesses begin with, the latest of a file


@options.takes(
    options.settings(*options.PROMPT, *options.CUTS, "decoding.mode", *options.DECODED, "decoding.edge_failed"),
    options.LABELS,
    options.INPUTS,
    options.QUIET,
)
def batch(
    context: typer.Context,
    output: Path,
    paths: list[str] | None = None,
    limit: int | None = None,
    retry_failed: bool = False,
    overwrite: bool = False,
    exports: str | None = None,
    export_dir: Path | None = None,
    batch_size: str = "auto",
    in_flight: str = "auto",
    workers: int | None = None,
    ray: bool = False,
    ray_address: str | None = None,
    fail_fast: bool = False,
    lookup: Path | None = None,
    **given: Any,
) -> int:
    """Caption many recordings, several at a time.

    Run the same command again to go on where it was interrupted.
    """
    resolved = options.resolve(given)
    config, ray = resolved.config, ray or ray_address is not None
    size, flight = _number("--batch-size", batch_size), _number("--in-flight", in_flight)
    if retry_failed and (overwrite or not output.is_file()):
        hint = "Name the --output of the earlier run, without --overwrite."
        raise ConfigError(f"--retry-failed: there is no file {output} to go on with.", hint=hint)
    if ray and (lookup is not None or flight is not None):
        raise ConfigError("--lookup and --in-flight have no effect on a Ray cluster.", hint="Leave them out.")
    more = Exports.after(exports, export_dir, output)
    inputs = None  # what failed before
    if given["manifest"] is not None or paths or not retry_failed:
        own = [path for path in (output, more.folder if more else None) if path is not None]
        inputs = find_inputs(paths or [], given, None if ray else context.with_resource(Stdin()), own)
    reads = [*(paths or []), given["manifest"], given["lexicon"], given["calibration"], lookup, *resolved.reads]
    refuse({"--output": (output, TRANSCRIPTS)}, reads)
    labelled = labelling(**given)
    terms = Terms.of(config, labels=labelled is not None, measured=given["measure"])
    identity = Identity(output, terms, partial(_prompting, config, inputs))
    work = Work(config, labelled, given["measure"], size, flight, workers or min(os.cpu_count() or 1, 4))
    counts, interrupts = Progress(), list[int]()
    with display(given, resolved) as view:
        with Output(output, None if overwrite else identity.check) as stored:
            tasks = find_tasks(inputs, stored, limit=limit, only_failed=retry_failed)
            if tasks := drop_hopeless(tasks, counts):
                earlier = [lookup, None if overwrite or not output.is_file() else output]
                with work.on_ray(view, identity, ray_address) if ray else work.here(view, identity, earlier) as backend:
                    if overwrite:
                        stored.clear()
                    with interruptible(partial(view.stopping, "finishing what has begun")) as interrupts:
                        show = partial(show_counts, view)
                        caption_all(tasks, backend, stored, counts, show, interrupts, fail_fast=fail_fast)
        base = os.getcwd() if inputs is None else inputs.base
        written = more is None or not output.is_file() or more.written(output, view, inputs, base)
        _conclude(view, counts, output, interrupted=bool(interrupts))
    return 130 if interrupts else 1 if counts.failed or not written else 0


def _conclude(view: View, counts: Progress, output: Path, *, interrupted: bool) -> None:
    """Shows what it came to, and how to caption the rest."""
    show_totals(view, counts, output)
    show_failures(view, counts, output)
    if counts.may_pass:
        view.hint(f"To caption just those again: {command_line('--retry-failed')}")
    if interrupted:
        view.hint(f"Captions so far are kept, also of single pieces. To go on: {command_line()}")


@dataclass(frozen=True)
class Work:
    """How a batch captions; `batch_size` and `in_flight` None: as many as pay."""

    config: Config
    labelled: Labelling | None
    measures: bool
    batch_size: int | None
    in_flight: int | None
    workers: int

    @contextmanager
    def here(self, view: View, identity: Identity, earlier: Iterable[Path | None]) -> Iterator[Backend]:
        """On this machine, with the models loaded; guesses begin with the captions of earlier runs."""
        captioner = load_captioner(self.config, view, self.labelled, measures=self.measures)
        from specdec_cli.batch.local import LocalBackend

        identity.check_models(captioner.setup.models, captioner.setup.settings)
        for path in earlier:
            lines = deque(read_lines(path) if path is not None else (), maxlen=_REMEMBERED)
            captioner.remember(Transcript.from_json(line.raw, str(path)) for line in lines if not line.torn)
        yield LocalBackend(captioner, batch_size=self.batch_size, workers=self.workers, in_flight=self.in_flight)

    @contextmanager
    def on_ray(self, view: View, identity: Identity, address: str | None) -> Iterator[Backend]:
        """On a Ray cluster."""
        from specdec_cli.batch.cluster import RayBackend

        with RayBackend(
            self.config,
            self.labelled,
            address,
            batch_size=self.batch_size,
            workers=self.workers,
            measures=self.measures,
            loading=view.loading,
        ) as cluster:
            require_cloud(cluster.setup, degrades=self.config.decoding.degrades)
            identity.check_models(cluster.setup.models, cluster.setup.settings)
            yield cluster


def _number(option: str, given: str) -> int | None:
    """A number of at least 1, None for "auto"; ConfigError if it is neither."""
    if given != "auto" and not (given.isdecimal() and int(given)):
        message = f"{option} takes auto or a whole number from 1, not {given!r}."
        raise ConfigError(message, hint=f"Try {option} 16.")
    return None if given == "auto" else int(given)


def _prompting(config: Config, inputs: Inputs | None, line: Line) -> tuple[Language, str] | None:
    """See `Identity`; None where the line itself says how it was prompted, as those of what failed before do."""
    if isinstance(inputs, Manifest):
        return inputs.rows[line.key].language_and_prompt(config) if line.key in inputs.rows else None
    return None if inputs is None else (config.prompt.language, config.instruction())


def find_inputs(paths: list[str], given: Mapping[str, Any], stdin: Stdin | None, without: Iterable[Path]) -> Inputs:
    """What the command line names; ConfigError if it names nothing, or contradicts itself."""
    manifest: Path | None = given["manifest"]
    if (manifest is None) == (not paths):
        hint = "Name files, folders or patterns; or a --manifest, and not both."
        raise ConfigError("No recordings are named, or in two ways.", hint=hint)
    if manifest is not None:
        return Manifest.read(manifest)
    own = frozenset(map(os.path.abspath, without))
    found = Paths(with_list(paths, stdin), given["recursive"], given["pattern"], own, stdin or opened)
    found.require_one()
    return found


def command_line(*more: str) -> str:
    """The command line that this process was given, with more and never with --overwrite."""
    arguments = [argument for argument in sys.argv[1:] if argument not in (*more, "--overwrite")]
    return shlex.join(["specdec", *arguments, *more])
