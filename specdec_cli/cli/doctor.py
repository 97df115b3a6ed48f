"""`specdec doctor`: is everything here that a caption needs?"""

from __future__ import annotations

from typing import Annotated

import typer

from specdec_cli.cli import options


def doctor(
    config: options.Config = None,
    settings: options.Settings = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not load the models.")] = False,
    _debug: options.Debug = False,
) -> None:
    """Check the installation, the machine and the configured models; exit code 1 if something is missing."""
    from specdec_cli.console import print_doctor
    from specdec_cli.doctor import examine

    checks = list(examine(options.resolve(config, {}, settings or []), load_models=not quick))
    print_doctor([(check.name, check.status, check.detail) for check in checks])
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(1)
