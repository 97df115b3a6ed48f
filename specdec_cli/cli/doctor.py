"""`specdec doctor`: is everything here that a caption needs?"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from specdec_cli.cli.command import Given, command
from specdec_cli.cli.startup import still_collector
from specdec_cli.errors import ConfigError

_STARTS: Final = 3


@command(example="--config qwen2.5-omni")
def doctor(given: Given, quick: bool = False, timed: bool = False, debug: bool = False) -> int:
    """Check the installation, the machine and the configured models.

    Exit code 1 if something is missing.
    """
    resolved = given.resolve()
    if timed:
        if quick:
            hint = "Leave one of them out."
            raise ConfigError("--quick loads no models, and --time is about loading them.", hint=hint)
        _time(given, debug=debug)
        return 0
    from specdec_cli.console import choose_view, print_doctor
    from specdec_cli.doctor import examine

    loaded = "PyTorch" if quick else "PyTorch and the models"
    with closing(choose_view()) as view, still_collector(), view.loading(loaded):
        checks = list(examine(resolved, load_models=not quick))
    print_doctor([(check.name, check.status, check.detail) for check in checks])
    return 1 if any(check.status == "fail" for check in checks) else 0


def _time(given: Given, *, debug: bool) -> None:
    from specdec_cli.bench.start import time_start
    from specdec_cli.console import choose_view, print_start

    loaded = f"everything {_STARTS} times over, in fresh processes"
    with closing(choose_view(debug=debug)) as view, view.loading(loaded):
        parts = time_start(given.source, given.settings, None, _STARTS)
    print_start(parts, _STARTS)
