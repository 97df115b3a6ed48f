"""The command line: the only importer of typer. Each command imports what it needs when it runs."""


def main() -> None:
    """The entry point: `specdec_cli.cli.app.main`; Ctrl-C may interrupt its imports, too."""
    try:
        from specdec_cli.cli import app

        app.main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
