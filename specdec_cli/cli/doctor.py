"""`specdec doctor`: is everything here that a caption needs?"""

from __future__ import annotations

from contextlib import closing

from specdec_cli.cli.command import Given, command
from specdec_cli.cli.startup import still_collector


@command(example="--config qwen2.5-omni")
def doctor(given: Given, quick: bool = False) -> int:
    """Check the installation, the machine and the configured models.

    Exit code 1 if something is missing.
    """
    resolved = given.resolve()
    from specdec_cli.console.live import choose_view
    from specdec_cli.console.tables import print_doctor
    from specdec_cli.doctor import examine

    loaded = "PyTorch" if quick else "PyTorch and the models"
    with closing(choose_view()) as view, still_collector(), view.loading(loaded):
        checks = list(examine(resolved, load_models=not quick))
    print_doctor([(check.name, check.status, check.detail) for check in checks])
    return 1 if any(check.status == "fail" for check in checks) else 0
