"""`specdec doctor`: is everything here that a caption needs?"""

from __future__ import annotations

from typing import Annotated

import typer

from specdec_cli.cli import options, startup
from specdec_cli.cli.configured import resolve


def doctor(
    config: options.Config = None,
    settings: options.Settings = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not load the models.")] = False,
    _debug: options.Debug = False,
) -> None:
    """Check the installation, the machine and the configured models; exit code 1 if something is missing."""
    resolved = resolve(config, {}, settings or [])
    from specdec_cli.console import choose_view, print_doctor
    from specdec_cli.doctor import examine

    view = choose_view()
    try:
        with startup.still_collector(), view.loading("PyTorch" if quick else "PyTorch and the models"):
            checks = list(examine(resolved, load_models=not quick))
    finally:
        view.close()
    print_doctor([(check.name, check.status, check.detail) for check in checks])
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(1)
