"""`specdec batch`: many recordings, several at a time, to a file that a later run takes up again."""

from __future__ import annotations

import os
import shlex
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from specdec_cli.batch.output_file import Identity, Output
from specdec_cli.batch.tasks import Progress, Work, caption_all, drop_hopeless, find_tasks
from specdec_cli.cli import options
from specdec_cli.cli.command_run import display, labelling, load_captioner, require_cloud
from specdec_cli.cli.ending import interruptible
from specdec_cli.cli.export import Exports
from specdec_cli.config import Config
from specdec_cli.config.problems import show
from specdec_cli.console.progress import show_counts, show_failures, show_totals
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError
from specdec_cli.inputs.find import Paths, with_list
from specdec_cli.inputs.manifest import Inputs, Manifest
from specdec_cli.prompts import Language
from specdec_cli.store import read_lines
from specdec_cli.targets import TRANSCRIPTS, refuse
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.lines import Line
from specdec_cli.transcript.terms import Terms

if TYPE_CHECKING:
    from specdec_cli.batch.tasks import Backend

_MOST_CLIPS: Final = 1024  # each is a thread
_REMEMBERED: Final = 500  # transcripts that guesses begin with, the latest of a file


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
    resolved = options.resolve(context)
    config, ray = resolved.config, ray or ray_address is not None
    size, flight = _number("--batch-size", batch_size), _number("--in-flight", in_flight)
    if retry_failed and (overwrite or not output.is_file()):
        hint = "Name the --output of the earlier run, without --overwrite."
        raise ConfigError(f"--retry-failed: there is no file {output} to go on with.", hint=hint)
    if ray and (lookup is not None or flight is not None):
        raise ConfigError("--lookup and --in-flight have no effect on a Ray cluster.", hint="Leave them out.")
    more = Exports.after(exports, export_dir, output)
    own = frozenset(os.path.abspath(path) for path in (output, more.folder if more else None) if path is not None)
    inputs = None  # what failed before
    if manifest is not None or paths or not retry_failed:
        inputs = find_inputs(
            paths or [], manifest, recursive=recursive, pattern=pattern, without=own, may_be_sound=not ray
        )
    reads = [*(paths or []), manifest, lexicon, calibration, lookup, *resolved.reads]
    refuse({"--output": (output, TRANSCRIPTS)}, reads)
    labelled = labelling(labels, lexicon, calibration)
    terms = Terms.of(config, labels=labelled is not None, measured=measure)
    identity = Identity(output, terms, partial(_prompting, config, inputs))
    earlier = [lookup, None if overwrite or not output.is_file() else output]
    work = Work(config, labelled, measure, size, flight, workers or min(os.cpu_count() or 1, 4))
    counts, interrupted = Progress(), False
    with display(quiet=quiet, debug=debug, resolved=resolved) as view:
        with Output(output, None if overwrite else identity.check) as stored, ExitStack() as stack:
            tasks = find_tasks(inputs, stored, limit=limit, only_failed=retry_failed)
            if tasks := drop_hopeless(tasks, counts):
                on_cluster = stack.enter_context(on_ray(work, view, ray_address)) if ray else None
                backend = on_cluster or here(work, view, earlier)
                identity.check_models(backend.setup)
                if overwrite:
                    stored.clear()
                stopping = partial(view.stopping, "finishing what has begun")
                with interruptible(stopping, polled=True) as interruption:
                    show = partial(show_counts, view)
                    caption_all(tasks, backend, stored, counts, show, interruption.check, fail_fast=fail_fast)
                interrupted = interruption.asked
        base = os.getcwd() if inputs is None else inputs.base
        written = more is None or not output.is_file() or more.written(output, view, inputs, base)
        _conclude(view, counts, output, interrupted=interrupted)
    return 130 if interrupted else 1 if counts.failed or not written else 0


def _conclude(view: View, counts: Progress, output: Path, *, interrupted: bool) -> None:
    """Shows what it came to, and how to caption the rest."""
    show_totals(view, counts, output)
    show_failures(view, counts, output)
    if counts.may_pass:
        view.hint(f"To caption just those again: {command_line('--retry-failed')}")
    if interrupted:
        view.hint(f"Captions so far are kept, also of single pieces. To go on: {command_line()}")


def here(work: Work, view: View, earlier: Iterable[Path | None]) -> Backend:
    """On this machine, with the models loaded; guesses begin with the captions of earlier runs."""
    files = [(path, deque(read_lines(path), maxlen=_REMEMBERED)) for path in earlier if path is not None]
    captioner = load_captioner(work.config, view, work.labelling, measures=work.measures)
    from specdec_cli.batch.local import LocalBackend

    for path, lines in files:
        captioner.remember(Transcript.from_json(line.raw, str(path)) for line in lines if not line.torn)
    return LocalBackend(captioner, batch_size=work.batch_size, workers=work.workers, in_flight=work.in_flight)


@contextmanager
def on_ray(work: Work, view: View, address: str | None) -> Iterator[Backend]:
    """On a Ray cluster."""
    from specdec_cli.batch.cluster import cluster

    with cluster(work, address, view.loading) as backend:
        require_cloud(backend.setup, degrades=work.config.decoding.degrades)
        yield backend


def _number(option: str, given: str) -> int | None:
    """A number from 1 to `_MOST_CLIPS`, None for "auto"; ConfigError if it is neither."""
    if given != "auto" and not (given.isdecimal() and len(given) < 8 and 1 <= int(given) <= _MOST_CLIPS):
        message = f"{option} takes auto or a whole number from 1 to {_MOST_CLIPS}, not {show(given)}."
        raise ConfigError(message, hint=f"Try {option} 16.")
    return None if given == "auto" else int(given)


def _prompting(config: Config, inputs: Inputs | None, line: Line) -> tuple[Language, str] | None:
    """See `Identity`; None where the line itself says how it was prompted, as those of what failed before do."""
    if isinstance(inputs, Manifest):
        return inputs.rows[line.key].language_and_prompt(config) if line.key in inputs.rows else None
    return None if inputs is None else (config.prompt.language, config.instruction())


def find_inputs(
    paths: list[str],
    manifest: Path | None,
    *,
    recursive: bool,
    pattern: str | None,
    without: frozenset[str],
    may_be_sound: bool,
) -> Inputs:
    """What the command line names; ConfigError if it names nothing, or contradicts itself."""
    if (manifest is None) == (not paths):
        hint = "Name files, folders or patterns; or a --manifest, and not both."
        raise ConfigError("No recordings are named, or in two ways.", hint=hint)
    if manifest is not None:
        return Manifest.read(manifest)
    found = Paths(with_list(paths, may_be_sound=may_be_sound), recursive, pattern, without)
    found.require_one()
    return found


def command_line(*more: str) -> str:
    """The command line that this process was given, with more options and never with --overwrite."""
    command, *arguments = sys.argv[1:]
    options, names = arguments, list[str]()  # what stands behind -- is a name, whatever it begins with
    if "--" in arguments:
        at = arguments.index("--")
        options, names = arguments[:at], arguments[at:]
    kept = [argument for argument in options if argument not in (*more, "--overwrite")]
    return shlex.join(["specdec", command, *kept, *more, *names])
