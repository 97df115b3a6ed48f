"""`specdec config`: the settings of a run, and where each value comes from."""

# no postponed annotations: see `specdec_cli.cli.options`

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import typer

from specdec_cli.cli import options
from specdec_cli.config import SETTINGS, ResolvedConfig, shipped_configs
from specdec_cli.config.schema import SECTIONS
from specdec_cli.config.settings import unknown
from specdec_cli.console.tables import ONE_LINE, config_page, print_page


@dataclass(frozen=True, kw_only=True)
class ShowCommand(options.CuttingOptions, options.RunOptions):
    """It takes the options of a run, and refuses what the run would refuse. Settings at their defaults are left out;
    with a section, as in `specdec config show gate`, it prints all of them and what they mean.
    """

    name: ClassVar[str] = "config show"

    section: Annotated[str | None, typer.Argument(help="Section to explain, e.g. gate.", metavar="SECTION")] = None
    everything: Annotated[bool, options.of_output("--all", help="Also settings that are at their defaults.")] = False
    yaml: Annotated[bool, options.of_output("--yaml", help="Print a configuration file that loads back.")] = False

    def run(self) -> int:
        """See `Command.run`."""
        resolved = self.resolved()
        if self.section is not None and self.section not in SECTIONS:
            raise unknown(self.section, "config show")
        if self.yaml:
            typer.echo(resolved.to_yaml(), nl=False)
            return 0
        print_page(partial(config_page, self._rows(resolved)), piped_width=ONE_LINE)
        if self.section is None and not self.everything:
            typer.echo(f"--config takes a file, or one of: {', '.join(shipped_configs())}", err=True)
        return 0

    def _rows(self, resolved: ResolvedConfig) -> Iterator[tuple[object, ...]]:
        """Name, value and origin of settings; of a section their meaning, too."""
        for name, value, origin in resolved.rows():
            if self.section is not None and name.partition(".")[0] == self.section:
                yield name, value, origin, str(SETTINGS[name].description) if name in SETTINGS else ""
            elif self.section is None and (self.everything or origin != "default"):
                yield name, value, origin
