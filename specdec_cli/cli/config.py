"""`specdec config`: what is in force, and whether a file is right."""

from __future__ import annotations

import typer

from specdec_cli.cli.command import Given, command


@command(example="mini --yaml", source=True)
def show(given: Given, yaml: bool = False) -> None:
    """Print every setting, its value, and where the value comes from."""
    resolved = given.resolve()
    if yaml:
        typer.echo(resolved.to_yaml(), nl=False)
        return
    from specdec_cli.console.tables import print_config

    print_config(list(resolved.rows()))


@command(example="my.yaml", source=True)
def validate(given: Given) -> None:
    """Check a configuration; exit code 2 and all that is wrong with it if it is not right."""
    typer.echo(f"{given.resolve().path}: valid")
