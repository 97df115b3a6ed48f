"""The command line: the only importer of typer. Each command imports what it needs when it runs."""

from specdec_cli.cli.process import main

__all__ = ["main"]
