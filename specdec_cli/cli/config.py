"""`specdec config`: shows settings in force, lists the shipped configurations, checks a configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer

from specdec_cli.cli import options
from specdec_cli.config import SETTINGS, ResolvedConfig, shipped_configs
from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import unknown
from specdec_cli.console.tables import ONE_LINE, config_page, print_page


@options.taking(options.ModelOptions)
def show(
    context: typer.Context,
    section: Annotated[str | None, typer.Argument(help="Section to explain, e.g. gate.", metavar="SECTION")] = None,
    everything: Annotated[bool, options.of_output("--all", help="Also settings that are at their defaults.")] = False,
    yaml: Annotated[bool, options.of_output("--yaml", help="Print a configuration file that loads back.")] = False,
    debug: options.Debug = False,
) -> None:
    """Print the settings that are not at their defaults, and where each value comes from.

    With a section, as in `specdec config show gate`, all settings in it and what they mean.
    """
    resolved = options.resolve(context)
    if section is not None and section not in SECTIONS:
        raise unknown(section, "config show")
    if yaml:
        typer.echo(resolved.to_yaml(), nl=False)
    else:
        print_page(partial(config_page, _rows(resolved, section, everything=everything)), piped_width=ONE_LINE)


def list_shipped(debug: options.Debug = False) -> None:
    """List the configurations that --config takes by name."""
    heads = ((name, path.read_text(encoding="utf-8").splitlines()[0]) for name, path in shipped_configs().items())
    rows = [(name, re.sub(r"(?<=\.) [^.]*[^.]$", "", head.removeprefix("# "))) for name, head in heads]
    print_page(partial(config_page, rows), piped_width=ONE_LINE)


def validate(
    context: typer.Context,
    source: Annotated[str | None, typer.Argument(help=options.CONFIG, metavar="NAME|FILE")] = None,
    settings: options.Settings = None,
    debug: options.Debug = False,
) -> None:
    """Check a configuration. If it is wrong, say why and exit with 2."""
    typer.echo(f"{options.resolve(context).label}: valid")


def _rows(resolved: ResolvedConfig, section: str | None, *, everything: bool) -> Iterator[tuple[object, ...]]:
    """Name, value and origin of settings; of a section their meaning, too."""
    for name, value, origin in resolved.rows():
        if section is not None and name.partition(".")[0] == section:
            yield name, value, origin, str(SETTINGS[name].description) if name in SETTINGS else ""
        elif section is None and (everything or origin != "default"):
            yield name, value, origin
