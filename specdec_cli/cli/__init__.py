"""The command line: the only importer of typer. Each command imports what it needs when it runs."""

from specdec_cli.cli.app import main

__all__ = ["main"]
