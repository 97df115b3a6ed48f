"""The commands and how they end.

Exit codes: 0 all done; 1 a recording or a model failed; 2 the command line or the configuration is wrong;
130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from specdec_cli import __version__
from specdec_cli.cli import caption, config, doctor
from specdec_cli.errors import ConfigError, SpecdecError

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
app.command("doctor")(doctor.doctor)
app.add_typer(config.app, name="config")


def _print_version(wanted: bool) -> None:
    if wanted:
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
    """Runs the command line; every error that is specdec's own becomes a sentence, a hint and an exit code."""
    debug = "--debug" in sys.argv
    try:
        app()
    except SpecdecError as error:
        from specdec_cli.console import print_error

        print_error(error, debug=debug)
        raise SystemExit(2 if isinstance(error, ConfigError) else 1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
