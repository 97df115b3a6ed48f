"""The page at `/`, and the requests that it makes."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, PlainTextResponse
from markupsafe import Markup
from starlette.exceptions import HTTPException

from specdec_cli.cloud.http import MalformedError, require_few
from specdec_cli.errors import WrongFileError
from specdec_cli.export.formats import text_of
from specdec_cli.pages.offline import asset, environment, module, policy
from specdec_cli.serve.bodies import Bodies
from specdec_cli.serve.captions import Captions
from specdec_cli.transcript.shared import recorded_settings
from specdec_cli.types import LOW_IS_UNSURE, ExportFormat

PAGE: Final = "/"
"""The page's path, which needs no access token: the page holds no data, and prompts for the token itself."""

_FORMATS: Final[dict[str, ExportFormat]] = {"srt": "srt", "TextGrid": "textgrid"}
_SCRIPTS: Final = (
    *("dom.js", "sound.js", "tokens.js", "timeline-of-pieces.js"),
    *("serve-sound.js", "serve-result.js", "serve.js"),
)
"""Joined in this order into one module."""

_REST_BYTES: Final = 4096  # of a request beside its recording
_MOST_LINES: Final = 1 << 14  # of transcripts to export: an hour has fewer pieces
_MOST_SIGNS: Final = 1 << 16  # commas and brackets of one: if each value is wrong, each takes half a kB


def router(captions: Captions, bodies: Bodies) -> APIRouter:
    """The routes of the page, of its first settings, and of its downloads."""
    routes = APIRouter()

    @routes.get(PAGE)
    async def page() -> HTMLResponse:
        return HTMLResponse(*_page())

    @routes.get("/page/settings")
    async def settings() -> dict[str, object]:
        return _settings(captions)

    @routes.post("/page/export/{name}")
    async def export(name: str, request: Request) -> PlainTextResponse:
        if name not in _FORMATS:
            raise HTTPException(404, "there is no such format")
        body = await bodies.read(request)
        try:
            return PlainTextResponse(await asyncio.to_thread(_exported, _FORMATS[name], bytes(body.content)))
        except MalformedError as error:
            raise HTTPException(400, f"The body {error}.") from error
        except WrongFileError as error:
            raise HTTPException(422, error.message) from error
        finally:
            body.release()

    return routes


def _exported(form: ExportFormat, content: bytes) -> str:
    """Transcripts as a file of a format, as `text_of`; MalformedError: no transcripts have so many lines or values."""
    if content.count(b"\n") + content.count(b"\r") > _MOST_LINES:
        raise MalformedError(f"may have {_MOST_LINES} lines")
    for line in content.splitlines():
        require_few(line, _MOST_SIGNS)
    return text_of(form, content)


def _settings(captions: Captions) -> dict[str, object]:
    """Modes and models that are loaded, and the gate of the mode hybrid, if that is one of them."""
    shared, config = captions.loaded.shared, captions.loaded.config
    if "hybrid" in captions.modes:
        config = config.model_copy(update={"decoding": config.decoding.model_copy(update={"mode": "hybrid"})})
    known = recorded_settings(config)
    return {
        "modes": captions.modes,
        "mode": shared.mode,
        "models": [info.line.partition(" · ")[0] for _, info in shared.models if info is not None],
        "most_bytes": captions.limits.body_bytes * 3 // 4 - _REST_BYTES,
        "gate": {
            "name": known["gate"],
            "below": known["gate"] in LOW_IS_UNSURE,
            "threshold": known["threshold"],
            "wake": known["wake"],
        },
    }


@cache
def _page() -> tuple[str, int, dict[str, str]]:
    """Text, status and headers."""
    style, script = asset("report.css", "review.css", "serve.css"), module(*_SCRIPTS)
    text = environment().get_template("serve.html.j2").render(style=Markup(style), script=Markup(script))
    return (
        text,
        200,
        {
            "Content-Security-Policy": f"{policy(script, style)}; connect-src 'self'; frame-ancestors 'none'",
            "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-cache",
        },
    )
