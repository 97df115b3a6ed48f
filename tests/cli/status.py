"""How a command ends when it runs in this process. Imports no PyTorch."""

from collections.abc import Callable
from contextlib import nullcontext
from unittest.mock import patch

from specdec_cli.cli import main


def exit_code(command: Callable[[], object] = main, *, own_process: bool = False) -> int:
    """Runs a command on sys.argv; what a shell would see as its status.

    Args:
        command: specdec's, or another one.
        own_process: signals end the command, as for a user. Else they are left to whoever runs this process: they are
            meant for the tests, which would otherwise go on with the next one.
    """
    try:
        if own_process:
            command()
        else:
            with patch("specdec_cli.cli.ending.signals", nullcontext):
                command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
