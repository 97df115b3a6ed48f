"""The HTTP side: routes, and what they answer."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from specdec_cli.cloud.protocol import SESSION_ID, Answer, MalformedError, Message, Problem, content_digest, digest
from specdec_cli.errors import typed
from specdec_cli.serve.clips import Service
from specdec_cli.serve.limits import Bodies, Doorkeeper, Refusal
from specdec_cli.serve.observe import LOGGER, event, observed

_SWEEP_S: Final = 1.0
_OPEN: Final = "/healthz"  # the only path that needs no token
_SESSION: Final = "/v1/sessions/{id_}"


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
        found = service.metrics
        found.sessions.set(len(service.clips))
        found.held_bytes.set(service.clips.bytes)
        found.waiting.set(service.waiting)
        return Response(found.text(), media_type="text/plain; version=0.0.4")

    async def info(_request: Request) -> Response:
        return _good(service.info)

    async def answer(request: Request) -> Response:
        work = service.open if request.method == "PUT" else service.verify
        async with bodies.read(request) as body:
            return await _answer(service, partial(work, _session(request)), body)

    async def forget(request: Request) -> Response:
        service.clips.forget(_session(request), "done")
        return Response(status_code=204, headers={"Content-Digest": content_digest(b"")})

    app = Starlette(
        routes=[
            Route(_OPEN, healthz),
            Route("/metrics", metrics),
            Route("/v1/info", info),
            Route(_SESSION, answer, methods=["PUT"]),
            Route(f"{_SESSION}/verify", answer, methods=["POST"]),
            Route(_SESSION, forget, methods=["DELETE"]),
        ],
        exception_handlers=dict.fromkeys((HTTPException, Refusal, ClientDisconnect, Exception), _failed),
        lifespan=lifespan,
    )
    return observed(_admitted(app, Doorkeeper(token, service.limits.requests_per_s)), service.metrics)


def _session(request: Request) -> str:
    """The name of a session in a path."""
    name: str = request.path_params["id_"]
    if re.fullmatch(SESSION_ID, name) is None:
        raise HTTPException(404)
    return name


async def _answer(service: Service, work: Callable[[bytes, float], Answer], body: bytes) -> Response:
    """Lets a thread answer a request. A refusal names the body, so that the client sees whether it is what was sent."""
    try:
        future = service.submit(work, body, time.perf_counter())
        async with asyncio.timeout(service.limits.answer_s):
            answer: Answer = await asyncio.wrap_future(future)
            return _good(answer)
    except TimeoutError:
        refusal = Refusal(503, "busy", f"the model did not get to it within {service.limits.answer_s:g} s")
    except MalformedError as error:
        refusal = Refusal(422, "malformed", str(error))
    except Refusal as error:
        refusal = error
    except Exception as error:
        event("model_failed", error=type(error).__name__)
        refusal = Refusal(500, "model_failed", typed(error, LOGGER).message)
    return _refused(refusal, digest(body))


def _refused(refusal: Refusal, request: str = "") -> Response:
    event("refused", code=refusal.problem.code)
    return _good(refusal.problem.model_copy(update={"request": request}), refusal.status)


async def _failed(_request: Request, error: Exception) -> Response:
    """What is answered where a route raises, or there is none."""
    if isinstance(error, Refusal):
        return _refused(error)
    if isinstance(error, HTTPException):
        return _good(Problem(code="not_found", message="there is no such thing here"), error.status_code)
    if isinstance(error, ClientDisconnect):  # nobody is there to read it
        return Response(status_code=400)
    return _good(Problem(code="model_failed", message="the server failed; see its log"), 500)


def _admitted(app: ASGIApp, doorkeeper: Doorkeeper) -> ASGIApp:
    """Refuses requests without the token, and those of two lengths, which a proxy in front may have read otherwise."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = app
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope.get("headers", ())}:
            answer = _good(Problem(code="malformed", message="a body is chunked or has a length, not both"), 400)
            answer.headers["Connection"] = "close"
        elif scope["type"] == "http" and scope["path"] != _OPEN:
            try:
                doorkeeper.admit(Request(scope))
            except Refusal as refusal:
                answer = _refused(refusal)
        await answer(scope, receive, send)

    return checked


def _good(message: Message, status: int = 200) -> Response:
    content = message.model_dump_json().encode()
    return Response(content, status, {"Content-Digest": content_digest(content)}, media_type="application/json")


async def _sweep(service: Service) -> None:
    """Forgets idle clips while the server runs."""
    while True:
        await asyncio.sleep(_SWEEP_S)
        service.clips.sweep()
