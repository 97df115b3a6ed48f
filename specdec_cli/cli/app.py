"""The commands and how they end.

Exit codes: 0 all done; 1 a recording or a model failed; 2 the command line or the configuration is wrong;
3 some recordings of a batch or a comparison failed; 130 interrupted; 141 nobody reads stdout any more; 143 terminated.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from types import FrameType
from typing import Annotated, Final

import typer

from specdec_cli.cli import batch, bench, caption, compare, config, doctor, serve, tune
from specdec_cli.errors import ConfigError, SpecdecError, typed

_STDOUT, _STDERR = 1, 2
TERMINATED: Final = 143
"""What a shell reports for a program that was asked to end (128 + SIGTERM)."""

app = typer.Typer(
    name="specdec",
    help="Describe how a person speaks: a small edge model drafts, a large cloud model checks what it is unsure of.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("caption")(caption.caption)
app.command("batch")(batch.batch)
app.command("compare")(compare.compare)
app.command("tune")(tune.tune)
app.command("bench")(bench.bench)
app.command("serve")(serve.serve)
app.command("doctor")(doctor.doctor)
app.add_typer(config.app, name="config")


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


def main() -> None:
    """Runs the command line; every error becomes a sentence, a hint and an exit code."""
    debug = "--debug" in sys.argv
    _open_standard_streams()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app(prog_name="specdec")
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


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    """Ends like an interruption does, so that the terminal is given back and lines stay whole."""
    raise SystemExit(TERMINATED)


def _report(error: SpecdecError, debug: bool) -> None:
    from specdec_cli.console import print_error

    print_error(error, debug=debug)
    try:
        sys.stdout.flush()
    except OSError:  # what stdout did not take, it would refuse again at exit, with a traceback
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
