"""What commands share: the display, models and references that they load, captions and results that they print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import typer
from pydantic import BaseModel

from specdec_cli import interrupts
from specdec_cli.config import Config, ResolvedConfig
from specdec_cli.console.plain import write_line
from specdec_cli.console.tables import print_page
from specdec_cli.console.view import View, choose_view
from specdec_cli.errors import CloudError, ConfigError
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.find import all_unreadable, identify
from specdec_cli.inputs.recording import InputFile
from specdec_cli.labels import Lexicon
from specdec_cli.labels.calibration import Labelling, read_calibration
from specdec_cli.labels.references import References

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.setup import Setup


@contextmanager
def display(
    context: typer.Context,
    *,
    resolved: ResolvedConfig | None = None,
    references: References | None = None,
    interruption: str = "interrupted",
) -> Iterator[View]:
    """The display of the running command, whose options are read by name: of clips if it has --no-live, else of steps.

    First it names the language in force and the columns of the references. At the end it names what was left out of
    files and, after Ctrl-C, shows `interruption`.
    """
    given, clips = context.params, "no_live" in context.params
    how = {"quiet": given.get("quiet", False), "debug": given["debug"]}
    how |= {"no_live": given["no_live"], "json": given["json"]} if clips else {}
    with choose_view(**how, steps=not clips) as view:
        if resolved is not None:
            view.say(resolved.note)
        if references is not None:
            view.say(references.said())
            view.skips.append(references.skips)
        try:
            yield view
        except KeyboardInterrupt:
            view.conclude(interruption, good=False)
            raise
        finally:
            view.tell_skips()


def identified(view: View, files: Sequence[str]) -> list[InputFile]:
    """The recordings with the hashes of their bytes; a copy of another one is left out with a warning."""
    recordings, copies = identify(files)
    for copy, original in copies.items():
        view.warn(f"{copy} holds the same bytes as {original} and is left out")
    return recordings


def emit(found: BaseModel, page: Callable[..., Any], *, json: bool) -> None:
    """Prints a result: one JSON object, or its page."""
    if json:
        write_line(found.model_dump_json(by_alias=True))
    else:
        print_page(partial(page, found))


def load_captioner(
    config: Config,
    view: View,
    labelled: Labelling | None = None,
    *,
    recordings: Iterable[str] = (),
    measures: bool = False,
    degrades: bool | None = None,
    runs_long: bool = True,
) -> Captioner:
    """The captioner of a command; `view` shows what is being loaded. Cuts are found for the given `recordings` alone.

    `degrades`: whether the edge may write without the cloud (None: as configured). `runs_long`: whether compiling pays.
    CloudError: the cloud does not answer, and the edge may not write alone.
    """
    cuts = None
    if (path := config.audio.cuts_path) is not None:  # refused before anything that takes seconds
        with view.loading(f"cuts: {path}"):
            cuts = Cuts.of_config(config.audio)
    if cuts is not None:
        cuts.expect(recordings)
    from specdec_cli.captioner import Captioner

    if config.loads_models:
        with view.loading("PyTorch"):
            interrupts.wait_for(lambda: import_module("specdec_cli.models.loading"))  # takes seconds
    running = config.running_long() if runs_long else config
    captioner = Captioner.load(running, loading=view.loading, cuts=cuts)
    if captioner.cuts is not None:
        view.skips.append(captioner.cuts.skips)
    require_cloud(captioner.setup, degrades=config.decoding.degrades if degrades is None else degrades)
    if labelled is not None:
        captioner = captioner.labelled(*labelled)
    return captioner.measuring() if measures else captioner


def require_cloud(setup: Setup, *, degrades: bool) -> None:
    """Raises CloudError if the cloud does not answer, unless the edge may write without it (`degrades`)."""
    if setup.unanswered and not degrades:
        alone = " With decoding.degrade the edge writes alone." if setup.mode == "lossless" else ""
        hint = f"Start the server, or check cloud.model.{alone}"
        raise CloudError(f"The cloud does not answer: {setup.unanswered[0]}.", hint=hint)


def unopened(recordings: Sequence[InputFile]) -> int:
    """The exit code where none of the recordings can be opened; else 0."""
    statuses = [recording.error.status for recording in recordings if recording.error is not None]
    return max(statuses, default=0) if len(statuses) == len(recordings) else 0


def labelling(context: typer.Context) -> Labelling | None:
    """What --labels, --lexicon and --calibration ask for, None if none is given; ConfigError if a file is unusable."""
    given = context.params
    lexicon, calibration = given["lexicon"], given.get("calibration")
    if not given["labels"] and lexicon is None and calibration is None:
        return None
    return Labelling(Lexicon.load(lexicon), None if calibration is None else read_calibration(calibration))


def lexicon_of(labelled: Labelling | None) -> Lexicon:
    """The lexicon of a run's captions."""
    return Lexicon.shipped() if labelled is None else labelled.lexicon


def read_references(
    context: typer.Context, config: Config, files: Sequence[str] = ()
) -> tuple[Lexicon, References | None]:
    """The lexicon and the references by which the running command judges captions; its options are read by name.

    ConfigError: a file is malformed, a column is named without a table, or the table has none of the `files`.
    """
    given = SimpleNamespace(**context.params)
    lexicon = Lexicon.load(given.lexicon)
    if given.references is None:
        if given.columns:
            raise ConfigError("Columns are named, but there are no references.", hint="Name the table: --references")
        return lexicon, None
    columns = [column.partition("=")[::2] for column in given.columns or ()]
    if wrong := [what for what, column in columns if what not in ("file", "text", *lexicon.attributes) or not column]:
        hint = f"Name file, text or an attribute ({', '.join(lexicon.attributes)}): --column emotion=mood"
        raise ConfigError(f"--column {wrong[0]!r} is not of the form WHAT=COLUMN.", hint=hint)
    if not files and any(what == "text" for what, _ in columns):
        hint = "Leave it out: only compare and tune compare captions with texts."
        raise ConfigError(f"--column text has no effect in specdec {context.info_name}.", hint=hint)
    found = References.read(
        given.references,
        file_column=next((column for what, column in columns if what == "file"), None),
        text_columns=tuple(column for what, column in columns if what == "text"),
        label_columns={what: column for what, column in columns if what in lexicon.attributes},
        lexicon=lexicon,
        strict=config.audio.strict,
        refuse_unknown=config.judging.unknown_label == "refuse",
        label_codes=config.judging.label_codes,
    )
    if refused := all_unreadable(map(InputFile, files)):
        raise next(iter(refused.values()))
    if files:
        found.require_some(files)
    return lexicon, found
