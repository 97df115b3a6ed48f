"""The page at `/`, and which browser requests may reach a server that requires no token."""

from __future__ import annotations

from functools import cache
from typing import Final
from urllib.parse import urlsplit

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from specdec_cli.config.locate import is_loopback
from specdec_cli.pages.offline import asset, environment, policy

PAGE: Final = "/"  # needs no token: the page holds nothing of the server, and asks for the token itself
_SCRIPTS: Final = (
    *("dom.js", "sound.js", "tokens.js", "timeline-of-pieces.js", "theme.js"),
    *("serve-sound.js", "serve-result.js", "serve.js"),
)
"""Joined in this order into one module."""


async def page(_request: Request) -> Response:
    """The page, which talks to this server alone."""
    text, headers = _page()
    return HTMLResponse(text, headers=headers)


@cache
def _page() -> tuple[str, dict[str, str]]:
    style, script = asset("report.css", "serve.css"), asset(*_SCRIPTS)
    text = environment().get_template("serve.html.j2").render(style=Markup(style), script=Markup(script))
    return text, {
        "Content-Security-Policy": f"{policy(script, style)}; connect-src 'self'; frame-ancestors 'none'",
        "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
    }


def is_own(request: Request) -> bool:
    """Whether a request may come from this server's own page, or from no page, as far as a browser says.

    A name of the internet that leads to loopback (DNS rebinding) is no loopback name, and another site's script cannot
    leave out or change `Origin`. Programs other than browsers send none.
    """
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    return is_loopback(f"http://{host}") and (origin is None or urlsplit(origin).netloc == host)
