"""The HTTP side: routes, and what they answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from specdec_cli.cloud.http import MalformedError
from specdec_cli.cloud.protocol import Message
from specdec_cli.errors import typed
from specdec_cli.serve.clips import Service
from specdec_cli.serve.limits import Bodies, Refusal, require_token
from specdec_cli.serve.observe import GONE, LOGGER, event, observed

_SWEEP_S: Final = 1.0
_OPEN: Final = "/healthz"  # the only path that needs no token
_SESSION: Final = "/v1/sessions/{id_:uuid}"


def create_app(service: Service, token: str | None) -> ASGIApp:
    """The server as an ASGI application, see `cloud.protocol`. It closes `service` when it is shut down."""
    bodies = Bodies(service.limits)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(service))
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.to_thread(service.close)

    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(_request: Request) -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def info(_request: Request) -> Response:
        return _good(service.info)

    async def verify(request: Request) -> Response:
        work = service.open if request.method == "PUT" else service.verify
        async with bodies.read(request) as body:
            future = service.submit(work, request.path_params["id_"].hex, body, time.perf_counter())
            try:
                async with asyncio.timeout(service.limits.answer_s):
                    answer = await asyncio.wrap_future(future)
            except TimeoutError:
                late = f"the model did not answer within {service.limits.answer_s:g} s"
                raise Refusal(503, "busy", late) from None
            if await request.is_disconnected():
                raise ClientDisconnect
            return _good(answer)

    async def forget(request: Request) -> Response:
        service.clips.forget(request.path_params["id_"].hex, "done")
        return Response(status_code=204)

    raised = HTTPException, Refusal, MalformedError, ClientDisconnect, Exception
    app = Starlette(
        routes=[
            Route(_OPEN, healthz),
            Route("/metrics", metrics),
            Route("/v1/info", info),
            Route(_SESSION, verify, methods=["PUT"]),
            Route(f"{_SESSION}/verify", verify, methods=["POST"]),
            Route(_SESSION, forget, methods=["DELETE"]),
        ],
        exception_handlers=dict.fromkeys(raised, _failed),
        lifespan=lifespan,
    )
    return observed(_admitted(app, token), service.metrics)


def _refused(refusal: Refusal) -> Response:
    event("refused", code=refusal.reply.code)
    return _good(refusal.reply, refusal.status)


async def _failed(_request: Request, error: Exception) -> Response:
    """What is answered where a route raises, or there is none."""
    match error:
        case ClientDisconnect():  # nobody is there to read it
            return Response(status_code=GONE)
        case HTTPException():
            refusal = Refusal(error.status_code, "not_found", "there is no such thing here")
        case MalformedError():
            refusal = Refusal(422, "malformed", str(error))
        case Refusal():
            refusal = error
        case _:
            event("model_failed", error=type(error).__name__)
            refusal = Refusal(500, "model_failed", typed(error, LOGGER).message)
    return _refused(refusal)


def _admitted(app: ASGIApp, token: str | None) -> ASGIApp:
    """Refuses requests without the token, and those of two lengths, which a proxy in front may have read otherwise."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = app
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope.get("headers", ())}:
            answer = _refused(Refusal(400, "malformed", "a body is chunked or has a length, not both"))
            answer.headers["Connection"] = "close"
        elif scope["type"] == "http" and scope["path"] != _OPEN:
            try:
                require_token(token, Request(scope))
            except Refusal as refusal:
                answer = _refused(refusal)
        await answer(scope, receive, send)

    return checked


def _good(message: Message, status: int = 200) -> Response:
    content = message.model_dump_json().encode()
    return Response(content, status, media_type="application/json")


async def _sweep(service: Service) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        service.clips.sweep()
