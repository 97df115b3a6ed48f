"""`specdec config`: what is in force, and whether a file is right."""

from __future__ import annotations

from functools import partial

import typer

from specdec_cli.cli import options
from specdec_cli.console.tables import ONE_LINE, config_page, print_page


def show(
    context: typer.Context,
    edge: options.EdgeModel = None,
    cloud: options.CloudModel = None,
    source: options.ConfigFile = None,
    settings: options.Settings = None,
    yaml: options.Yaml = False,
    debug: options.Debug = False,
) -> None:
    """Print every setting, its value, and where the value comes from."""
    resolved = options.resolve(context)
    if yaml:
        typer.echo(resolved.to_yaml(), nl=False)
    else:
        print_page(partial(config_page, resolved.rows()), piped_width=ONE_LINE)


def validate(
    context: typer.Context,
    source: options.ConfigArgument = None,
    settings: options.Settings = None,
    debug: options.Debug = False,
) -> None:
    """Check a configuration; exit code 2 and what is wrong with it if it is not right."""
    typer.echo(f"{options.resolve(context).label}: valid")
