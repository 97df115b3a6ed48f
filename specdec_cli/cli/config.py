"""`specdec config`: what is in force, and whether a file is right."""

from __future__ import annotations

from typing import Annotated

import typer

from specdec_cli.cli import options
from specdec_cli.cli.configured import resolve

app = typer.Typer(
    help="Show or check a configuration.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)

_Source = Annotated[
    str | None, typer.Argument(metavar="[NAME|PATH]", help="Shipped configuration or YAML file. [default: mini]")
]


@app.command()
def show(
    source: _Source = None,
    settings: options.Settings = None,
    yaml: Annotated[bool, typer.Option("--yaml", help="As a configuration file that loads back.")] = False,
) -> None:
    """Print every setting, its value, and where the value comes from."""
    resolved = resolve(source, {}, settings or [])
    if yaml:
        typer.echo(resolved.to_yaml(), nl=False)
        return
    from specdec_cli.console import print_config

    print_config([(row.name, row.value, row.origin) for row in resolved.rows()])


@app.command()
def validate(source: _Source = None, settings: options.Settings = None) -> None:
    """Check a configuration; exit code 2 and all that is wrong with it if it is not right."""
    resolved = resolve(source, {}, settings or [])
    typer.echo(f"{resolved.path}: valid")
