"""`specdec doctor`: is everything here that a caption needs?"""

from __future__ import annotations

from contextlib import closing

import typer

from specdec_cli.cli import options
from specdec_cli.console.live import choose_view
from specdec_cli.console.tables import print_doctor
from specdec_cli.diagnosis import examine


def doctor(
    context: typer.Context,
    edge: options.EdgeModel = None,
    cloud: options.CloudModel = None,
    source: options.ConfigFile = None,
    settings: options.Settings = None,
    quick: options.Quick = False,
    debug: options.Debug = False,
) -> int:
    """Check the installation, the machine and the configured models."""
    resolved = options.resolve(context)
    loaded = "PyTorch" if quick else "PyTorch and the models"
    with closing(choose_view()) as view, view.loading(loaded):
        checks = list(examine(resolved, load_models=not quick))
    print_doctor([(check.name, check.status, check.detail) for check in checks])
    return 1 if any(check.status == "fail" for check in checks) else 0
