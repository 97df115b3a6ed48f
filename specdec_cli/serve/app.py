"""The HTTP side: routes, and what they answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Path, Request, Response, params
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from specdec_cli import __version__
from specdec_cli.cloud.protocol import (
    SESSION_ID,
    Answer,
    Clip,
    Info,
    MalformedError,
    Message,
    Problem,
    Question,
    content_digest,
    digest,
)
from specdec_cli.errors import typed
from specdec_cli.serve.clips import Service
from specdec_cli.serve.limits import Bodies, Doorkeeper, Refusal
from specdec_cli.serve.observe import LOGGER, event, observed

_SWEEP_S: Final = 1.0

SessionId = Annotated[str, Path(pattern=f"^{SESSION_ID}$", description="32 hexadecimal digits, the client's choice")]


def create_app(service: Service, token: str | None) -> ASGIApp:
    """The server as an ASGI application. It closes `service` when it is shut down."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(service))
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.to_thread(service.close)

    app = FastAPI(
        title="specdec verify server",
        version=__version__,
        summary="The cloud's half of speculative decoding: encodes a clip once, then judges drafts of its caption.",
        docs_url=None,  # its pages would load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # below, behind the token
        lifespan=lifespan,
    )
    admitted = [Depends(Doorkeeper(token, service.limits.requests_per_s).admit)]
    app.include_router(_clips(service, admitted))

    @app.get("/healthz", summary="Whether the server is up; needs no token")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics", summary="Counters and times for Prometheus", dependencies=admitted)
    async def metrics() -> Response:
        found = service.metrics
        found.sessions.set(len(service.clips))
        found.held_bytes.set(service.clips.bytes)
        found.waiting.set(service.waiting)
        return Response(found.text(), media_type="text/plain; version=0.0.4")

    @app.get("/openapi.json", include_in_schema=False, dependencies=admitted)
    async def openapi() -> dict[str, Any]:
        return app.openapi()

    for kind in (Refusal, HTTPException, RequestValidationError, ClientDisconnect, Exception):
        app.add_exception_handler(kind, _failed)
    return observed(_framed(app), service.metrics)


def _clips(service: Service, admitted: list[params.Depends]) -> APIRouter:
    """The protocol, see `cloud.protocol`."""
    router = APIRouter(prefix="/v1", dependencies=admitted, responses={"default": {"model": Problem}})
    bodies = Bodies(service.limits)

    @router.get("/info", response_model=Info, summary="The model, and the limits")
    async def info() -> Response:
        return _good(service.info)

    @router.put("/sessions/{id_}", response_model=Answer, summary="Open a session", openapi_extra=_body(Clip))
    async def open_(id_: SessionId, request: Request) -> Response:
        async with bodies.read(request) as body:
            return await _answer(service, partial(service.open, id_), body)

    @router.post(
        "/sessions/{id_}/verify", response_model=Answer, summary="Verify a draft", openapi_extra=_body(Question)
    )
    async def verify(id_: SessionId, request: Request) -> Response:
        async with bodies.read(request) as body:
            return await _answer(service, partial(service.verify, id_), body)

    @router.delete("/sessions/{id_}", status_code=204, summary="Forget a clip")
    async def forget(id_: SessionId) -> Response:
        service.clips.forget(id_, "done")
        return Response(status_code=204, headers={"Content-Digest": content_digest(b"")})

    return router


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
    if isinstance(error, (HTTPException, RequestValidationError)):
        status = error.status_code if isinstance(error, HTTPException) else 404
        return _good(Problem(code="not_found", message="there is no such thing here"), status)
    if isinstance(error, ClientDisconnect):  # nobody is there to read it
        return Response(status_code=400)
    return _good(Problem(code="model_failed", message="the server failed; see its log"), 500)


def _framed(app: ASGIApp) -> ASGIApp:
    """Refuses requests of two lengths, which a proxy in front may have read otherwise."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope.get("headers", ())}:
            refusal = _good(Problem(code="malformed", message="a body is chunked or has a length, not both"), 400)
            refusal.headers["Connection"] = "close"
            await refusal(scope, receive, send)
        else:
            await app(scope, receive, send)

    return checked


def _good(message: Message, status: int = 200) -> Response:
    content = message.model_dump_json().encode()
    return Response(content, status, {"Content-Digest": content_digest(content)}, media_type="application/json")


def _body(kind: type[Message]) -> dict[str, Any]:
    """What a route's body is, for its OpenAPI description."""
    schema = {"type": "string", "format": "binary", "x-json-schema": kind.model_json_schema()}
    meaning = f"Four bytes (length of the JSON, little-endian), the JSON ({kind.__name__}), and numbers."
    content = {"application/octet-stream": {"schema": schema}}
    return {"requestBody": {"required": True, "description": meaning, "content": content}}


async def _sweep(service: Service) -> None:
    """Forgets idle clips while the server runs."""
    while True:
        await asyncio.sleep(_SWEEP_S)
        service.clips.sweep()
