"""The HTTP side: routes, and what they answer."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from prometheus_client import generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Event

from specdec_cli.cloud.http import MalformedError
from specdec_cli.cloud.protocol import Message
from specdec_cli.errors import typed
from specdec_cli.serve import chat, page
from specdec_cli.serve.captions import Captions
from specdec_cli.serve.chat import departure
from specdec_cli.serve.clips import Service
from specdec_cli.serve.limits import Bodies, ServeLimits, has_token
from specdec_cli.serve.metrics import Metrics
from specdec_cli.serve.openapi import CHAT, MODELS
from specdec_cli.serve.requests import ApiError

_log = logging.getLogger("specdec_cli.serve")

_SWEEP_S: Final = 1.0
_HEALTH: Final = "/healthz"  # the only path that is open to all
_GONE: Final = 499  # the client left before an answer began
_SESSION: Final = "/v1/sessions/{id_:uuid}"


def event(name: str, **fields: object) -> None:
    """Logs what happened. The fields hold nothing of a clip: no ids, no text, no features."""
    _log.info(name, extra={"fields": fields})


class Offer:
    """What a server offers, within one set of limits: verification to edges elsewhere, captions, or both."""

    def __init__(self, limits: ServeLimits, service: Service | None = None, captions: Captions | None = None) -> None:
        self.limits, self.service, self.captions = limits, service, captions
        self.bodies = Bodies(limits) if service is None else service.bodies
        self.metrics = Metrics(lambda: 0, lambda: 0) if service is None else service.metrics

    def sweep(self) -> None:
        """Forgets the clips that are idle."""
        if self.service is not None:
            self.service.clips.sweep()

    def close(self) -> None:
        """Ends after the forwards under way."""
        for part in (self.captions, self.service):
            if part is not None:
                part.close()


def create_app(offer: Offer, token: str | None) -> ASGIApp:
    """The server as an ASGI application. It closes what it offers when it is shut down."""

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
            *(_verification(offer.service) if offer.service is not None else ()),
            *(chat.routes(offer.captions, offer.bodies, offer.metrics) if offer.captions is not None else ()),
            *(page.routes(offer.captions, offer.bodies) if offer.captions is not None else ()),
        ],
        exception_handlers=dict.fromkeys((HTTPException, MalformedError, ClientDisconnect, Exception), _failed),
        lifespan=lifespan,
    )
    return _guarded(app, offer, token)


def _verification(service: Service) -> list[Route]:
    """The routes of edges elsewhere, see `cloud.protocol`."""
    bodies = service.bodies

    async def open_or_verify(request: Request) -> Response:
        work = service.open if request.method == "PUT" else service.verify
        body = await bodies.read(request)
        left, size = threading.Event(), len(body)
        future = service.pool.submit(work, request.path_params["id_"].hex, body, time.perf_counter(), left)
        future.add_done_callback(lambda _: bodies.release(size))  # until then a thread holds it, whoever has left
        del body
        answer, leaving = asyncio.wrap_future(future), asyncio.create_task(departure(request))
        try:
            either: set[asyncio.Future[Any]] = {answer, leaving}
            await asyncio.wait(either, timeout=service.limits.answer_s, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return _answer(await answer)
            if leaving.done():
                raise ClientDisconnect
            raise HTTPException(503, f"the model did not answer within {service.limits.answer_s:g} s")
        finally:
            left.set()
            leaving.cancel()
            answer.cancel()

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
    """What is answered where a route raises, or there is none; no reason of a verification quotes what was sent."""
    match error:
        case ClientDisconnect():  # nobody is there to read it
            return Response(status_code=_GONE)
        case _ if request.url.path.startswith((MODELS, CHAT)):
            refused = chat.refusal(error)
            if refused.status_code == 500:
                event("model_failed", error=type(error).__name__)
            return JSONResponse(refused.body, refused.status_code, refused.headers)
        case HTTPException(status_code=404) if (
            "route" not in request.scope
        ):  # a path of the API that is not answered here
            unknown = ApiError(404, "nothing is at this path; /openapi.json lists what is", code="unknown_path")
            return JSONResponse({"detail": unknown.detail, **unknown.body}, 404)
        case HTTPException():
            status, reason = error.status_code, error.detail
        case MalformedError():
            status, reason = 422, str(error)
        case _:
            event("model_failed", error=type(error).__name__)
            status, reason = 500, typed(error, _log).message
    return JSONResponse({"detail": reason[:2000]}, status, getattr(error, "headers", None))


def _guarded(app: ASGIApp, offer: Offer, token: str | None) -> ASGIApp:
    """Refuses requests without the token, or, where there is none, of other sites' pages; logs and counts all."""
    denied = ApiError(401, "the token is missing or wrong", code="invalid_api_key")
    if token is None:
        says = "without a token this server answers at localhost and 127.0.0.1 alone, and to no page of another site"
        denied = ApiError(403, says, code="another_site")
    refused = JSONResponse({"detail": denied.detail, **denied.body}, denied.status_code)

    def admits(request: Request) -> bool:
        if token is None:
            return page.is_own(request)
        return request.url.path == page.PAGE or has_token(token, request)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the server's lifetime
            await app(scope, receive, send)
            return
        started, status = time.perf_counter(), _GONE

        async def sending(message: Event) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        answering = app if scope["path"] == _HEALTH or admits(Request(scope)) else refused
        with suppress(Exception):  # which the application has answered and logged
            await answering(scope, receive, sending)
        # nothing that a client makes up, and no name of a clip: the counters stay few
        path = getattr(scope.get("route"), "path_format", None)
        route = f"{scope['method']} {path}" if path and status != 405 else "other"
        seconds, client = time.perf_counter() - started, (scope.get("client") or ("",))[0]
        offer.metrics.requests.labels(route, str(status)).inc()
        offer.metrics.seconds.labels(route).observe(seconds)
        event("request", route=route, status=status, ms=round(seconds * 1e3, 2), client=client)

    return guarded


def _answer(message: Message) -> Response:
    return Response(message.model_dump_json(), media_type="application/json")


async def _sweep(offer: Offer) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        await asyncio.to_thread(offer.sweep)
