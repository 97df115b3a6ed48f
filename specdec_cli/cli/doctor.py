"""`specdec doctor`: checks that everything is here that a caption needs."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from specdec_cli.cli import options
from specdec_cli.console.tables import ONE_LINE, doctor_page, print_page
from specdec_cli.console.view import choose_view
from specdec_cli.diagnosis import examine


@options.taking(options.ModelOptions)
def doctor(
    context: typer.Context,
    quick: Annotated[bool, options.of_work("--quick", help="Do not load the models.")] = False,
    debug: options.Debug = False,
) -> int:
    """Check the installation, the machine and the configured models."""
    resolved = options.resolve(context)
    with choose_view() as view, view.loading("PyTorch" if quick else "PyTorch and the models"):
        checks = list(examine(resolved, load_models=not quick))
    rows = [(check.name, check.status, check.detail) for check in checks]
    print_page(partial(doctor_page, rows), piped_width=ONE_LINE)
    return 1 if any(check.status == "fail" for check in checks) else 0
