"""What commands set up: the display, and the models that they load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from specdec_cli.cli.options import DisplayOptions, WatchingOptions
from specdec_cli.config import Config, ResolvedConfig
from specdec_cli.console.view import View, choose_view
from specdec_cli.errors import CloudError
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.labels import Lexicon

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.labels.references import References
    from specdec_cli.transcript.shared import SharedFields


@contextmanager
def display(
    command: DisplayOptions,
    *,
    resolved: ResolvedConfig | None = None,
    references: References | None = None,
    interruption: str = "interrupted",
) -> Iterator[View]:
    """The display of a command: of clips if it has the options for them, else of steps.

    First it names the language in force and the columns of the references. At the end it names what was left out of
    files and, after Ctrl-C, shows `interruption`.
    """
    how = {"quiet": command.quiet, "debug": command.debug, "steps": True}
    if isinstance(command, WatchingOptions):
        how |= {"no_live": command.no_live, "json": command.json, "steps": False}
    with choose_view(**how) as view:
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


def load_captioner(
    config: Config,
    view: View,
    lexicon: Lexicon,
    *,
    recordings: Iterable[str] = (),
    degrades: bool | None = None,
    runs_long: bool = True,
) -> Captioner:
    """The captioner of a command, whose transcripts have classes and measured figures.

    Args:
        view: shows what is being loaded.
        lexicon: finds the classes.
        recordings: for which alone cuts are found.
        degrades: whether the edge may write without the cloud; None: as configured.
        runs_long: whether compiling pays.

    Raises:
        CloudError: the cloud does not answer, and the edge may not write alone.
    """
    cuts = None
    if (path := config.audio.cuts_path) is not None:  # refused before anything that takes seconds
        with view.loading(f"cuts: {path}"):
            cuts = Cuts.of_config(config.audio)
    if cuts is not None:
        cuts.expect(recordings)
    with view.loading("PyTorch"):  # takes seconds; in a thread, a twentieth more CPU time
        from specdec_cli.captioner import Captioner
    running = config.running_long() if runs_long else config
    captioner = Captioner.load(running, loading=view.loading, cuts=cuts)
    if captioner.reader.cuts is not None:
        view.skips.append(captioner.reader.cuts.skips)
    require_cloud(captioner.shared, degrades=config.decoding.degrades if degrades is None else degrades)
    return captioner.labelled(lexicon).measuring()


def require_cloud(shared: SharedFields, *, degrades: bool) -> None:
    """Raises CloudError if the cloud does not answer, unless the edge may write without it (`degrades`)."""
    if shared.unanswered and not degrades:
        alone = " With decoding.fallback: on the edge writes alone." if shared.mode == "lossless" else ""
        hint = f"Start the server, or check cloud.model.{alone}"
        raise CloudError(f"The cloud does not answer: {shared.unanswered[0]}.", hint=hint)
