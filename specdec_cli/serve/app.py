"""The server as an application: its routes, its errors, and which requests are refused before a route."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from prometheus_client import generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specdec_cli import __version__
from specdec_cli.cloud import protocol as wire
from specdec_cli.cloud.http import MalformedError
from specdec_cli.config.locate import is_loopback
from specdec_cli.serve import chat, page
from specdec_cli.serve.api_error import ApiError, event, refusal_of
from specdec_cli.serve.bodies import Bodies, while_connected
from specdec_cli.serve.captions import Captions
from specdec_cli.serve.limits import ServeLimits
from specdec_cli.serve.metrics import Metrics
from specdec_cli.serve.verification import Service

_SWEEP_S: Final = 1.0
_HEALTH: Final = "/healthz"  # answers every request, with or without the token
_GONE: Final = 499  # status if the client left before an answer began
_SESSION: Final = "/v1/sessions/{id_:uuid}"
_ENDING: Final = ApiError(503, "The server is shutting down.", code="shutting_down", headers={"Retry-After": "1"})


class Offer:
    """What a server offers, within one set of limits: verification to remote edges, captions, or both."""

    def __init__(self, limits: ServeLimits, service: Service | None = None, captions: Captions | None = None) -> None:
        self.limits, self.service, self.captions = limits, service, captions
        self.bodies = Bodies(limits)
        self.metrics = Metrics(lambda: 0, lambda: 0) if service is None else service.metrics

    def close(self) -> None:
        """Waits for running forwards, and ends the threads."""
        for part in (self.captions, self.service):
            if part is not None:
                part.close()


class _App(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document. FastAPI does not read the bodies of captions, so it does not know their schemas."""
        document = super().openapi()
        if "components" in document:  # captions are offered
            document["components"]["schemas"].update(chat.body_schemas())
        return document


def create_app(offer: Offer, token: str | None) -> ASGIApp:
    """The server as an ASGI application, which closes `offer` when it is shut down."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(offer.service))
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.to_thread(offer.close)

    failures = (HTTPException, RequestValidationError, MalformedError, ClientDisconnect, Exception)
    app = _App(
        title="specdec serve",
        version=__version__,
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers=dict.fromkeys(failures, _failed),
    )

    @app.get(_HEALTH, include_in_schema=False)
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(offer.metrics.registry), media_type="text/plain; version=0.0.4")

    if offer.service is not None:
        app.include_router(_verification(offer.service, offer.bodies), include_in_schema=False)
    if offer.captions is not None:
        app.include_router(chat.router(offer.captions, offer.bodies, offer.metrics))
        app.include_router(page.router(offer.captions, offer.bodies), include_in_schema=False)
    guarded = _guarded(app, offer, token)
    if not offer.limits.origins:
        return guarded
    return CORSMiddleware(
        guarded,
        allow_origins=offer.limits.origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        allow_private_network=True,
        expose_headers=["Retry-After"],
    )


def _verification(service: Service, bodies: Bodies) -> APIRouter:
    """The routes for remote edges, see `cloud.protocol`."""
    routes = APIRouter()

    @routes.get("/v1/info")
    async def info() -> Response:
        return _answer(service.info)

    @routes.put(_SESSION)
    @routes.post(f"{_SESSION}/verify")
    async def open_or_verify(id_: UUID, request: Request) -> Response:
        body, act = await bodies.read(request), service.open if request.method == "PUT" else service.verify
        try:
            async with while_connected(request):
                return _answer(await service.in_thread(act, id_.hex, bytes(body.content)))
        finally:
            body.release()

    @routes.delete(_SESSION, status_code=204)
    async def forget(id_: UUID) -> None:
        await asyncio.to_thread(service.clips.forget, id_.hex)

    return routes


async def _failed(request: Request, error: Exception) -> Response:
    """The answer if a route raises, or if there is none. Reasons of a verification never quote what was sent."""
    if isinstance(error, ClientDisconnect):  # no client is left to read it
        return Response(status_code=_GONE)
    if isinstance(error, RequestValidationError):
        error = ApiError(404, "there is nothing of that name here", code="unknown_path")
    if isinstance(error, HTTPException) and error.status_code == 404 and "route" not in request.scope:
        error = ApiError(404, "nothing is at this path; /openapi.json lists what is", code="unknown_path")
    refused = refusal_of(error)
    return JSONResponse(refused.body, refused.status_code, refused.headers)


def _guarded(app: ASGIApp, offer: Offer, token: str | None) -> ASGIApp:
    """Refuses requests without the access token, or, if there is none, of other sites' pages; logs and counts all."""
    denied = ApiError(401, "the access token is missing or wrong", code="invalid_api_key")
    if token is None:
        says = "without an access token this server answers at localhost and 127.0.0.1 only, not pages of other sites"
        denied = ApiError(403, f"{says}, unless serve.origins names it", code="another_site")
    refused = JSONResponse(denied.body, denied.status_code)

    def admits(request: Request) -> bool:
        if token is None:
            return _is_own(request, offer.limits)
        return request.url.path == page.PAGE or _has_token(token, request)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the server's lifetime
            await app(scope, partial(_until_cancelled, receive), send)
            return
        started, head = time.perf_counter(), dict[str, Any]()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                head.update(message)
            async with asyncio.timeout(offer.limits.unread_s):
                await send(message)

        scope["path"] = scope["path"].rstrip("/") or "/"
        answering = app if scope["path"] == _HEALTH or admits(Request(scope)) else refused
        try:
            await answering(scope, receive, sending)
        except asyncio.CancelledError:  # uvicorn cancels what is under way when its time to end is over
            await _say_end(head, scope, receive, sending)
        except Exception:  # the application has answered and logged it, or the client does not read
            pass
        # routes, not paths: clients choose paths, and counters have to stay few
        path, status = getattr(scope.get("route"), "path_format", None), head.get("status", _GONE)
        route = f"{scope['method']} {path}" if path and status != 405 else "other"
        seconds, client = time.perf_counter() - started, (scope.get("client") or ("",))[0]
        offer.metrics.requests.labels(route, str(status)).inc()
        offer.metrics.seconds.labels(route).observe(seconds)
        event("request", route=route, status=status, ms=round(seconds * 1e3, 2), client=client)

    return guarded


async def _until_cancelled(receive: Receive) -> Message:
    """The next message about the server's lifetime; after a second signal uvicorn cancels the wait, an end, too."""
    try:
        return await receive()
    except asyncio.CancelledError:
        return {"type": "lifespan.shutdown"}


async def _say_end(head: Message, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a request that the server's end breaks off: with a status, or with the last event of a stream."""
    if not head:
        await JSONResponse(_ENDING.body, _ENDING.status_code, _ENDING.headers)(scope, receive, send)
    elif any(value.startswith(b"text/event-stream") for name, value in head["headers"] if name == b"content-type"):
        await send({"type": "http.response.body", "body": chat.event_of(_ENDING).encode()})


def _has_token(token: str, request: Request) -> bool:
    """Whether the head of a request bears the access token."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # compare_digest takes the same time wherever the two first differ
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())


def _is_own(request: Request, limits: ServeLimits) -> bool:
    """Whether a request comes from this server's own page, an allowed one, or no page at all, by a browser's headers.

    A foreign name that leads to loopback (DNS rebinding) is not a loopback name, and another site's script cannot leave
    out or change `Origin`. Programs other than browsers send no `Origin`.
    """
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    known = origin is None or urlsplit(origin).netloc == host or origin in limits.origins
    return is_loopback(f"http://{host}") and known


def _answer(message: wire.Message) -> Response:
    return Response(message.model_dump_json(), media_type="application/json")


async def _sweep(service: Service | None) -> None:
    while service is not None:
        await asyncio.sleep(_SWEEP_S)
        await asyncio.to_thread(service.clips.sweep)
