"""The commands and how they end.

Exit codes: 0 all done; 1 a recording or a model failed; 2 the command line or the configuration is wrong;
3 some recordings of a batch or a comparison failed; 130 interrupted; 141 nobody reads stdout any more; 143 terminated.
"""

from __future__ import annotations

import inspect
import io
import os
import signal
import sys
import threading
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from specdec_cli.errors import ConfigError, SpecdecError, typed

_STDOUT, _STDERR = 1, 2
TERMINATED: Final = 143
"""What a shell reports for a program that was asked to end (128 + SIGTERM)."""

COMMANDS: Final = {
    "caption": "Caption recordings, one after the other.",
    "batch": "Caption many recordings, several at a time.",
    "listen": "Caption what a microphone records, an utterance at a time.",
    "compare": "Compare modes on the same recordings: time, forwards, captions, quality.",
    "tune": "Find a gate for your own recordings that closes most of the quality gap with the fewest escalations.",
    "review": "Make a page to listen to captioned recordings and correct their classes, the doubtful ones first.",
    "calibrate": "Fit a calibration to your own recordings, so that of classes given 70% about 70% are right.",
    "bench": "Measure what captions cost on this machine.",
    "export": "Write transcripts in the formats of other tools: Praat, ELAN, subtitles, speaker turns, tables.",
    "plot": "Draw how people speak over the time of a recording, and where the models were unsure.",
    "serve": "Serve the configured cloud model to edges elsewhere.",
    "doctor": "Check the installation, the machine and the configured models.",
    "config": "Show or check a configuration.",
}
"""Command -> the first sentence of its help; its module is imported when it is used."""

_UsageError: Any = typer.BadParameter.__mro__[1]
_STYLE: Final[dict[str, Any]] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


@cache
def load(name: str) -> Any:
    """A command by its name, or the group `config`."""
    from specdec_cli.cli.command import Command
    from specdec_cli.cli.options import OPTIONS

    module = import_module(f"specdec_cli.cli.{name}")
    group = typer.Typer(name=name, add_completion=False, **_STYLE)
    if name == "config":
        group = typer.Typer(name=name, help=COMMANDS[name], add_completion=False, no_args_is_help=True, **_STYLE)
        functions, path = [module.show, module.validate], "specdec config"
    else:
        functions, path = [getattr(module, name)], "specdec"
    for function in functions:
        example = f"Example: {path} {function.__name__} {function.example}"
        if any(OPTIONS[name].setting for name in inspect.signature(function).parameters if name in OPTIONS):
            example += "\n\nDefaults of settings are those of the shipped configuration mini."
        group.command(function.__name__, cls=Command, epilog=example)(function)
    return get_command(group)


class _Commands(TyperGroup):
    """Lists commands by their first sentence, and imports the one that is used."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the library's name
        """Writes the summaries whole."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help or "") for name, command in self.commands.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` name, with the rest of them."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, load(str(name)) if name in COMMANDS else found, rest


app = typer.Typer(
    name="specdec",
    cls=_Commands,
    help="Describe how a person speaks: a small edge model drafts, a large cloud model checks what it is unsure of.",
    epilog="Example: specdec caption recording.wav",
    no_args_is_help=True,
    **_STYLE,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from specdec_cli import __version__

        typer.echo(f"specdec {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


for _name, _summary in COMMANDS.items():
    app.command(_name, help=_summary)(lambda: None)


@app.command("help")
def show_help(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]",
            help="Whose help to show.",
            autocompletion=lambda incomplete: [name for name in COMMANDS if name.startswith(incomplete)],
        ),
    ] = None,
) -> None:
    """Show the help of a command."""
    assert context.parent is not None
    group: Any = context.parent.command
    group.main([*(command or []), "--help"], prog_name="specdec")


def main() -> None:
    """Runs the command line; every error becomes a sentence, a hint and an exit code."""
    debug = "--debug" in sys.argv
    _open_standard_streams()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        with _signals_kept():
            raise SystemExit(app(prog_name="specdec", standalone_mode=False))
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
        else:
            path = error.ctx.command_path if error.ctx else "specdec"
            _report(ConfigError(error.format_message(), hint=f"See {path} --help."), debug)
        raise SystemExit(2) from None
    except Exception as error:
        _report(typed(error), debug)
        raise SystemExit(2 if isinstance(error, ConfigError) else 1) from None


def _open_standard_streams() -> None:
    """Opens what was closed (`2>&-`): else the next file opened, a transcript perhaps, would get stderr's number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or io.TextIOWrapper(io.FileIO(_STDOUT, "w", closefd=False), "utf-8")
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(_STDERR, "w", closefd=False), "utf-8")


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Sends a signal again that arrived while an object was destroyed, where Python drops what a handler raises."""
    before = sys.unraisablehook

    def dropped(unraisable: Any) -> None:
        number = {KeyboardInterrupt: signal.SIGINT, SystemExit: signal.SIGTERM}.get(unraisable.exc_type)
        if number is None:
            before(unraisable)
        else:  # in a moment, when the destructor has ended
            threading.Timer(0.01, interrupt_main, [number]).start()

    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = before


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    """Ends like an interruption does, so that the terminal is given back and lines stay whole."""
    raise SystemExit(TERMINATED)


def _report(error: SpecdecError, debug: bool) -> None:
    from specdec_cli.console.output import print_error

    print_error(error, debug=debug)
    try:
        sys.stdout.flush()
    except OSError:  # what stdout did not take, it would refuse again at exit, with a traceback
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
