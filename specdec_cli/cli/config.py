"""`specdec config`: what is in force, and whether a file is right."""

from __future__ import annotations

import typer

from specdec_cli.cli import options


@options.command(*options.PAIR)
def show(
    context: typer.Context,
    yaml: bool = False,
) -> None:
    """Print every setting, its value, and where the value comes from."""
    resolved = options.resolve(context)
    if yaml:
        typer.echo(resolved.to_yaml(), nl=False)
        return
    from specdec_cli.console.tables import print_config

    print_config(list(resolved.rows()))


@options.command(source=options.CONFIG_ARGUMENT)
def validate(
    context: typer.Context,
    source: str | None = None,  # noqa: ARG001 - `resolve` reads both
    settings: list[str] | None = None,  # noqa: ARG001
) -> None:
    """Check a configuration; exit code 2 and all that is wrong with it if it is not right."""
    typer.echo(f"{options.resolve(context).label}: valid")
