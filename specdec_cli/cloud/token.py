"""Bearer tokens come out of environment variables, so that none stands in a file or in a list of processes."""

from __future__ import annotations

import os

from specdec_cli.errors import ConfigError


def read_token(variable: str | None, asked_by: str) -> str | None:
    """The token in an environment variable; None if none is named.

    Args:
        variable: its name.
        asked_by: the setting or flag that names it, for messages.

    Raises:
        ConfigError: it is not set, or not what a header can hold.
    """
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        what = "holds no token" if token else "is not set"
        raise ConfigError(f"{asked_by} is {variable}, but that variable {what}.", hint=f"export {variable}=...")
    return token
