"""The command line: the only importer of typer. Each command imports what it needs when it runs."""


def main() -> None:
    """The entry point: `specdec_cli.cli.app.main`. Signals are handled from the first import on."""
    from specdec_cli.cli import ending

    with ending.signals():
        from specdec_cli.cli import app

        app.main()
