"""How a server elsewhere is connected to: which certificates count, and what never happens on the way."""

from __future__ import annotations

import asyncio
import random
import ssl

import httpx

from specdec_cli.errors import ConfigError

_MOST_CONNECTIONS = 64
_KEPT_S = 60.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


def connect(url: str, token: str | None, ca_file: str | None, content_type: str) -> httpx.AsyncClient:
    """Connections to one server, kept open.

    It has no time limits of its own: httpx's count for a single read or write only, and the caller's are for all of a
    request. It takes no proxies from the environment and follows no redirects: what is sent goes to the configured
    address and nowhere else.

    Args:
        url: of the server.
        token: bearer token, or None.
        ca_file: certificates to trust in place of the public ones, or None.
        content_type: of the bodies.

    Raises:
        ConfigError: the certificates cannot be read.
    """
    headers = {"User-Agent": "specdec", "Content-Type": content_type}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        verify: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca_file) if ca_file else True
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cloud.ca_file {ca_file} cannot be read: {error}", hint="Give a PEM file.") from error
    return httpx.AsyncClient(
        base_url=url,
        headers=headers,
        verify=verify,
        timeout=None,
        trust_env=False,
        follow_redirects=False,
        limits=httpx.Limits(
            max_connections=_MOST_CONNECTIONS,
            max_keepalive_connections=_MOST_CONNECTIONS,
            keepalive_expiry=_KEPT_S,
        ),
    )


class Pauses:
    """Pauses between the tries of one request: each about twice the one before, and no two clients' alike."""

    def __init__(self) -> None:
        self._next_s = _FIRST_PAUSE_S

    async def wait(self) -> None:
        """The next one."""
        await asyncio.sleep(self._next_s * random.uniform(0.5, 1.0))
        self._next_s = min(2 * self._next_s, _LONGEST_PAUSE_S)


def sentence(error: Exception) -> str:
    """What went wrong, in one line; its kind where it does not say."""
    return " ".join(str(error).split()) or type(error).__name__
