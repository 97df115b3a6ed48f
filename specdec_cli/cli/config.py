"""`specdec config`: the settings of a run, and where each value comes from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer

from specdec_cli.cli import options
from specdec_cli.config import SETTINGS, ResolvedConfig, shipped_configs
from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import unknown
from specdec_cli.console.tables import ONE_LINE, config_page, print_page


@options.taking(options.ModelOptions, options.PromptOptions, options.CuttingOptions, options.DecodingOptions)
def show(
    context: typer.Context,
    section: Annotated[str | None, typer.Argument(help="Section to explain, e.g. gate.", metavar="SECTION")] = None,
    everything: Annotated[bool, options.of_output("--all", help="Also settings that are at their defaults.")] = False,
    yaml: Annotated[bool, options.of_output("--yaml", help="Print a configuration file that loads back.")] = False,
    debug: options.Debug = False,
) -> None:
    """Print the settings of a run that are not at their defaults, and where each value comes from.

    It takes the options of a run, and refuses what the run would refuse. With a section, as in
    `specdec config show gate`, it prints all settings in it and what they mean.
    """
    resolved = options.resolve(context)
    if section is not None and section not in SECTIONS:
        raise unknown(section, "config show")
    if yaml:
        typer.echo(resolved.to_yaml(), nl=False)
        return
    print_page(partial(config_page, _rows(resolved, section, everything=everything)), piped_width=ONE_LINE)
    if section is None and not everything:
        typer.echo(f"--config takes a file, or one of: {', '.join(shipped_configs())}", err=True)


def _rows(resolved: ResolvedConfig, section: str | None, *, everything: bool) -> Iterator[tuple[object, ...]]:
    """Name, value and origin of settings; of a section their meaning, too."""
    for name, value, origin in resolved.rows():
        if section is not None and name.partition(".")[0] == section:
            yield name, value, origin, str(SETTINGS[name].description) if name in SETTINGS else ""
        elif section is None and (everything or origin != "default"):
            yield name, value, origin
