"""`specdec config`: what is in force, and whether a file is right."""

from __future__ import annotations

from functools import partial
from typing import Any

import typer

from specdec_cli.cli import options
from specdec_cli.console.tables import ONE_LINE, config_page, print_page


@options.takes(options.settings())
def show(yaml: bool = False, **given: Any) -> None:
    """Print every setting, its value, and where the value comes from."""
    resolved = options.resolve(given)
    if yaml:
        typer.echo(resolved.to_yaml(), nl=False)
    else:
        print_page(partial(config_page, resolved.rows()), piped_width=ONE_LINE)


@options.takes({"set": list[str] | None})
def validate(config: str | None = None, **given: Any) -> None:
    """Check a configuration; exit code 2 and what is wrong with it if it is not right."""
    typer.echo(f"{options.resolve(given | {'config': config}).label}: valid")
