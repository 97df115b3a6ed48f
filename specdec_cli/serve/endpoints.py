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
from specdec_cli.serve.clips import Service
from specdec_cli.serve.limits import has_token

_log = logging.getLogger("specdec_cli.serve")

_SWEEP_S: Final = 1.0
_OPEN: Final = "/healthz"  # the only path that needs no token
_GONE: Final = 499  # the client left before an answer began
_SESSION: Final = "/v1/sessions/{id_:uuid}"


def event(name: str, **fields: object) -> None:
    """Logs what happened. The fields hold nothing of a clip: no ids, no text, no features."""
    _log.info(name, extra={"fields": fields})


def create_app(service: Service, token: str | None) -> ASGIApp:
    """The server as an ASGI application, see `cloud.protocol`. It closes `service` when it is shut down."""
    bodies = service.bodies

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(service))
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.to_thread(service.close)

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(service.metrics.registry), media_type="text/plain; version=0.0.4")

    async def open_or_verify(request: Request) -> Response:
        work = service.open if request.method == "PUT" else service.verify
        body = await bodies.read(request)
        left, size = threading.Event(), len(body)
        future = service.pool.submit(work, request.path_params["id_"].hex, body, time.perf_counter(), left)
        future.add_done_callback(lambda _: bodies.release(size))  # until then a thread holds it, whoever has left
        del body
        answer, leaving = asyncio.wrap_future(future), asyncio.create_task(_departure(request))
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

    app = Starlette(
        routes=[
            Route(_OPEN, lambda _: JSONResponse({"status": "ok"})),
            Route("/metrics", metrics),
            Route("/v1/info", lambda _: _answer(service.info)),
            Route(_SESSION, open_or_verify, methods=["PUT"]),
            Route(f"{_SESSION}/verify", open_or_verify, methods=["POST"]),
            Route(_SESSION, forget, methods=["DELETE"]),
        ],
        exception_handlers=dict.fromkeys((HTTPException, MalformedError, ClientDisconnect, Exception), _failed),
        lifespan=lifespan,
    )
    return _guarded(app, service, token)


async def _failed(_request: Request, error: Exception) -> Response:
    """What is answered where a route raises, or there is none; no reason quotes what was sent."""
    match error:
        case ClientDisconnect():  # nobody is there to read it
            return Response(status_code=_GONE)
        case HTTPException():
            status, reason = error.status_code, error.detail
        case MalformedError():
            status, reason = 422, str(error)
        case _:
            event("model_failed", error=type(error).__name__)
            status, reason = 500, typed(error, _log).message
    return JSONResponse({"detail": reason[:2000]}, status)


def _guarded(app: ASGIApp, service: Service, token: str | None) -> ASGIApp:
    """Refuses requests without the token; logs and counts all of them."""
    refused = JSONResponse({"detail": "the token is missing or wrong"}, 401)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the server's lifetime
            await app(scope, receive, send)
            return
        started, status = time.perf_counter(), _GONE

        async def sending(message: Event) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        answering = app if scope["path"] == _OPEN or has_token(token, Request(scope)) else refused
        with suppress(Exception):  # which the application has answered and logged
            await answering(scope, receive, sending)
        # nothing that a client makes up, and no name of a clip: the counters stay few
        path = getattr(scope.get("route"), "path_format", None)
        route = f"{scope['method']} {path}" if path and status != 405 else "other"
        seconds, client = time.perf_counter() - started, (scope.get("client") or ("",))[0]
        service.metrics.requests.labels(route, str(status)).inc()
        service.metrics.seconds.labels(route).observe(seconds)
        event("request", route=route, status=status, ms=round(seconds * 1e3, 2), client=client)

    return guarded


def _answer(message: Message) -> Response:
    return Response(message.model_dump_json(), media_type="application/json")


async def _departure(request: Request) -> None:
    """Waits until the client of a request, whose body was read, closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _sweep(service: Service) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        await asyncio.to_thread(service.clips.sweep)
