"""Fetches recordings from hosts that `serve.audio_hosts` names, and from nowhere else."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, Final

import httpx

from specdec_cli.errors import ConfigError, first_line
from specdec_cli.serve.api_error import ApiError
from specdec_cli.serve.bodies import Body, require_client
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.text import show

_REDIRECTS: Final = 3  # followed at most, each to an allowed host


def hosts(names: Iterable[str]) -> frozenset[str]:
    """The names and addresses in `serve.audio_hosts`, as URLs have them. Raises ConfigError for anything else."""
    found = frozenset(name.lower().strip("[]") for name in names)
    for name in found:
        if re.fullmatch(r"[\w-]+(\.[\w-]+)*|[\da-f:]+", name) is None:
            raise ConfigError(
                f"serve.audio_hosts: {show(name)} is no host.", hint="Give a name alone: media.example.org"
            )
    return found


def fetched(url: str, limits: ServeLimits, body: Body, left: threading.Event) -> bytes:
    """The bytes of the recording at `url`, which count towards the request's body.

    Raises:
        ApiError: it may not be fetched, or does not arrive in time.
        HTTPException: it is too large.
        ClientDisconnect: `left` is set.
    """
    try:
        return asyncio.run(asyncio.wait_for(_fetched(url, limits, body, left), limits.fetch_s))
    except TimeoutError:
        raise _refused(f"does not send the recording within {limits.fetch_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        raise _refused(f"cannot be read: {first_line(error)}") from error


async def _fetched(url: str, limits: ServeLimits, body: Body, left: threading.Event) -> bytes:
    head = {"User-Agent": "specdec", "Accept-Encoding": "identity"}  # nothing is unpacked
    async with httpx.AsyncClient(headers=head, trust_env=False, timeout=None) as client:
        for _ in range(_REDIRECTS + 1):
            async with client.stream("GET", **await _request_to(url, limits)) as answer:
                if answer.has_redirect_location:
                    url = str(httpx.URL(url).join(answer.headers["Location"]))
                    continue
                if not answer.is_success:
                    raise _refused(f"answers status {answer.status_code}")
                parts = list[bytes]()
                async for part in answer.aiter_raw():
                    require_client(left)
                    body.add(len(part))
                    parts.append(part)
                return b"".join(parts)
    raise _refused(f"leads on more than {_REDIRECTS} times")


async def _request_to(url: str, limits: ServeLimits) -> dict[str, Any]:
    """A request's arguments, with the address to which the host's name leads now. Raises ApiError if not allowed."""
    asked, allowed = httpx.URL(url), limits.audio_hosts
    if asked.scheme not in ("http", "https") or asked.host not in allowed or asked.userinfo:
        takes = f"one at {' or '.join(sorted(allowed))}" if allowed else "it fetches nothing (serve.audio_hosts)"
        says = f"audio_url takes a data URL (data:audio/wav;base64,...); {takes}."
        raise ApiError(400, says, "messages", "unsupported_url")
    found = await asyncio.get_running_loop().getaddrinfo(asked.host, asked.port, type=socket.SOCK_STREAM)
    address = str(found[0][4][0])
    if not ip_address(address).is_global and address not in allowed:
        raise _refused(f"leads to {address}, an address of no public network, which serve.audio_hosts does not name")
    return {
        "url": asked.copy_with(host=address),
        "headers": {"Host": asked.netloc.decode("ascii")},
        "extensions": {"sni_hostname": asked.host},  # the certificate has to be this host's
    }


def _refused(says: str) -> ApiError:
    return ApiError(400, f"The address in audio_url {says}.", "messages", "unsupported_url")
