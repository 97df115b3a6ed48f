"""The routes of the server, what they answer, and which requests are refused before a route."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final

from prometheus_client import generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specdec_cli.cloud import protocol as wire
from specdec_cli.cloud.http import MalformedError
from specdec_cli.serve import chat, page
from specdec_cli.serve.api_error import ApiError
from specdec_cli.serve.bodies import Bodies, Body, results
from specdec_cli.serve.captions import Captions
from specdec_cli.serve.limits import ServeLimits, has_token
from specdec_cli.serve.metrics import Metrics
from specdec_cli.serve.verification import Service

_log = logging.getLogger("specdec_cli.serve")

_SWEEP_S: Final = 1.0
_HEALTH: Final = "/healthz"  # answers every request, with or without the token
_GONE: Final = 499  # status if the client left before an answer began
_SESSION: Final = "/v1/sessions/{id_:uuid}"


def event(name: str, **fields: object) -> None:
    """Logs an event. Its fields hold nothing of a clip: no ids, no text, no features."""
    _log.info(name, extra={"fields": fields})


class Offer:
    """What a server offers, within one set of limits: verification to remote edges, captions, or both."""

    def __init__(self, limits: ServeLimits, service: Service | None = None, captions: Captions | None = None) -> None:
        self.limits, self.service, self.captions = limits, service, captions
        self.bodies = Bodies(limits)
        self.metrics = Metrics(lambda: 0, lambda: 0) if service is None else service.metrics

    def sweep(self) -> None:
        """Forgets the clips that are idle."""
        if self.service is not None:
            self.service.clips.sweep()

    def close(self) -> None:
        """Waits for running forwards, and ends the threads."""
        for part in (self.captions, self.service):
            if part is not None:
                part.close()


def create_app(offer: Offer, token: str | None) -> ASGIApp:
    """The server as an ASGI application, which closes `offer` when it is shut down."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(offer))
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.to_thread(offer.close)

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(offer.metrics.registry), media_type="text/plain; version=0.0.4")

    app = Starlette(
        routes=[
            Route(_HEALTH, lambda _: JSONResponse({"status": "ok"})),
            Route("/metrics", metrics),
            *(_verification(offer.service, offer.bodies) if offer.service is not None else ()),
            *(chat.routes(offer.captions, offer.bodies, offer.metrics) if offer.captions is not None else ()),
            *(page.routes(offer.captions, offer.bodies) if offer.captions is not None else ()),
        ],
        exception_handlers=dict.fromkeys((HTTPException, MalformedError, ClientDisconnect, Exception), _failed),
        lifespan=lifespan,
    )
    return _guarded(app, offer, token)


def _verification(service: Service, bodies: Bodies) -> list[Route]:
    """The routes for remote edges, see `cloud.protocol`."""

    async def open_or_verify(request: Request) -> Response:
        id_, act = request.path_params["id_"].hex, service.open if request.method == "PUT" else service.verify

        def answer(body: Body, left: threading.Event) -> Iterator[wire.Answer]:
            yield act(id_, body.content, body.came, left)

        async with aclosing(results(request, bodies, service.pool.submit, answer, service.limits.answer_s)) as answers:
            return _answer(await anext(answers))

    async def forget(request: Request) -> Response:
        await asyncio.to_thread(service.clips.forget, request.path_params["id_"].hex)
        return Response(status_code=204)

    return [
        Route("/v1/info", lambda _: _answer(service.info)),
        Route(_SESSION, open_or_verify, methods=["PUT"]),
        Route(f"{_SESSION}/verify", open_or_verify, methods=["POST"]),
        Route(_SESSION, forget, methods=["DELETE"]),
    ]


async def _failed(request: Request, error: Exception) -> Response:
    """The answer if a route raises, or if there is none. No reason of a verification quotes what was sent."""
    if isinstance(error, ClientDisconnect):  # nobody is there to read it
        return Response(status_code=_GONE)
    if isinstance(error, HTTPException) and error.status_code == 404 and "route" not in request.scope:
        error = ApiError(404, "nothing is at this path; /openapi.json lists what is", code="unknown_path")
    refused = ApiError.of(error)
    if refused.status_code == 500:
        event("model_failed", error=type(error).__name__)
        _log.debug("unexpected error", exc_info=error)
    return JSONResponse(refused.body, refused.status_code, refused.headers)


def _guarded(app: ASGIApp, offer: Offer, token: str | None) -> ASGIApp:
    """Refuses requests without the token, or, if there is none, of other sites' pages; logs and counts all requests."""
    denied = ApiError(401, "the token is missing or wrong", code="invalid_api_key")
    if token is None:
        says = "without a token this server answers at localhost and 127.0.0.1 alone, and to no page of another site"
        denied = ApiError(403, says, code="another_site")
    refused = JSONResponse(denied.body, denied.status_code)

    def admits(request: Request) -> bool:
        if token is None:
            return page.is_own(request)
        return request.url.path == page.PAGE or has_token(token, request)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the server's lifetime
            await app(scope, receive, send)
            return
        started, status = time.perf_counter(), _GONE

        async def sending(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        answering = app if scope["path"] == _HEALTH or admits(Request(scope)) else refused
        # the application has answered and logged it; what is cancelled at the end did not read its answer
        with suppress(Exception, asyncio.CancelledError):
            await answering(scope, receive, sending)
        # routes, not paths: clients choose paths, and counters have to stay few
        path = getattr(scope.get("route"), "path_format", None)
        route = f"{scope['method']} {path}" if path and status != 405 else "other"
        seconds, client = time.perf_counter() - started, (scope.get("client") or ("",))[0]
        offer.metrics.requests.labels(route, str(status)).inc()
        offer.metrics.seconds.labels(route).observe(seconds)
        event("request", route=route, status=status, ms=round(seconds * 1e3, 2), client=client)

    return guarded


def _answer(message: wire.Message) -> Response:
    return Response(message.model_dump_json(), media_type="application/json")


async def _sweep(offer: Offer) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        await asyncio.to_thread(offer.sweep)
