"""`specdec doctor`: is everything here that a caption needs?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from specdec_cli.cli import options, startup
from specdec_cli.cli.configured import resolve
from specdec_cli.errors import ConfigError

_STARTS: Final = 3


def doctor(
    config: options.Config = None,
    settings: options.Settings = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not load the models.")] = False,
    timed: Annotated[
        bool, typer.Option("--time", help="Time the parts of a start instead, from the command to the first token.")
    ] = False,
    debug: options.Debug = False,
) -> None:
    """Check the installation, the machine and the configured models; exit code 1 if something is missing."""
    resolved = resolve(config, {}, settings or [])
    if timed:
        _time(config, settings or [], quick=quick, debug=debug)
        return
    from specdec_cli.console import choose_view, print_doctor
    from specdec_cli.doctor import examine

    view = choose_view()
    try:
        loading = view.loading("PyTorch" if quick else "PyTorch and the models")
        with startup.still_collector(), loading:
            checks = list(examine(resolved, load_models=not quick))
    finally:
        view.close()
    print_doctor([(check.name, check.status, check.detail) for check in checks])
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(1)


def _time(config: str | None, settings: Sequence[str], *, quick: bool, debug: bool) -> None:
    if quick:
        raise ConfigError("--quick loads no models, and --time is about loading them.", hint="Leave one of them out.")
    from specdec_cli.bench.start import time_start
    from specdec_cli.console import choose_view
    from specdec_cli.console.start import print_start

    view = choose_view(debug=debug)
    try:
        with view.loading(f"everything {_STARTS} times over, in fresh processes"):
            parts = time_start(config, settings, None, _STARTS)
    finally:
        view.close()
    print_start(parts, _STARTS)
