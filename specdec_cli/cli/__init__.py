"""The command line: the only importer of typer. Each command imports what it needs when it runs."""

import os

# Before PyTorch is imported: OpenMP threads that wait for work would spin, and beside a busy process a clip would take
# 20 s instead of 0.5 s.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def main() -> None:
    """The entry point: `specdec_cli.cli.app.main`, whose imports may be interrupted too."""
    try:
        from specdec_cli.cli import app

        app.main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
