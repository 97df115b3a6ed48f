"""The HTTP side: routes, what they refuse, and what is logged and counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Part

from specdec_cli import __version__
from specdec_cli.cloud.protocol import (
    SESSION_ID,
    Answer,
    Clip,
    Info,
    Judgement,
    MalformedError,
    Message,
    Problem,
    Question,
    content_digest,
    digest,
    unpack,
)
from specdec_cli.decoding.acceptance import Verdict
from specdec_cli.errors import SpecdecError
from specdec_cli.serve.limits import Doorkeeper, Refusal, read_body
from specdec_cli.serve.logs import event
from specdec_cli.serve.metrics import Metrics
from specdec_cli.serve.service import Service
from specdec_cli.serve.sessions import Held

_SWEEP_S: Final = 1.0
_REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Problem} for status in (401, 404, 408, 409, 413, 422, 429, 500, 503)
}

SessionId = Annotated[str, Path(pattern=f"^{SESSION_ID}$", description="32 hexadecimal digits, the client's choice")]


def create_app(service: Service, doorkeeper: Doorkeeper) -> ASGIApp:
    """The server as an ASGI application. It closes `service` when it is shut down."""
    app = FastAPI(
        title="specdec verify server",
        version=__version__,
        summary="The cloud's half of speculative decoding: hears a clip once, then judges drafts of its caption.",
        docs_url=None,  # its pages would load scripts from elsewhere
        redoc_url=None,
        lifespan=_lifespan(service),
    )
    app.include_router(_clips(service, doorkeeper))
    app.include_router(_operation(service, doorkeeper))
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _unknown)
    app.add_exception_handler(RequestValidationError, _unknown)
    app.add_exception_handler(Exception, _failed)
    return Observed(app, service.metrics)


def _clips(service: Service, doorkeeper: Doorkeeper) -> APIRouter:
    """The protocol, see `cloud.protocol`."""
    router = APIRouter(prefix="/v1", dependencies=[Depends(doorkeeper.admit)], responses=_REFUSALS)

    @router.get("/info", response_model=Info, summary="Who answers, and what it refuses to go beyond")
    async def info() -> Response:
        return _good(service.info)

    @router.put("/sessions/{id_}", response_model=Answer, summary="Hear a clip", openapi_extra=_body(Clip))
    async def hear(id_: SessionId, request: Request) -> Response:
        body, started = await read_body(request, service.limits), time.perf_counter()
        name = digest(body)
        with _naming(name):
            clip, numbers = unpack(Clip, body)
            held = service.hear(id_, clip, numbers)
            rest = numbers[2 * clip.bins * clip.frames :]
            if clip.question is None and len(rest):
                raise MalformedError("there are more bytes than the features take")
            future = service.judge(held, clip.question, rest) if clip.question else service.read(held)
        return await _answer(service, held, future, clip.question, name, started)

    @router.post(
        "/sessions/{id_}/verify", response_model=Answer, summary="Judge a draft", openapi_extra=_body(Question)
    )
    async def verify(id_: SessionId, request: Request) -> Response:
        body, started = await read_body(request, service.limits), time.perf_counter()
        name = digest(body)
        held = service.sessions.find(id_)
        if held is None:
            raise Refusal(404, "unknown_session", "no such clip is held, or not any more", name)
        with _naming(name):
            question, numbers = unpack(Question, body)
            future = service.judge(held, question, numbers)
        return await _answer(service, held, future, question, name, started)

    @router.delete("/sessions/{id_}", status_code=204, summary="Forget a clip")
    async def forget(id_: SessionId) -> Response:
        service.sessions.forget(id_, "done")
        return Response(status_code=204, headers={"Content-Digest": content_digest(b"")})

    return router


def _operation(service: Service, doorkeeper: Doorkeeper) -> APIRouter:
    """What operators ask for."""
    router = APIRouter()

    @router.get("/healthz", summary="Whether the server is up; needs no token")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/metrics", summary="Counters and times for Prometheus", dependencies=[Depends(doorkeeper.admit)])
    async def metrics() -> Response:
        found = service.metrics
        found.sessions.set(len(service.sessions))
        found.held_bytes.set(service.sessions.bytes)
        found.waiting.set(service.waiting)
        return Response(found.text(), media_type="text/plain; version=0.0.4")

    return router


async def _answer(
    service: Service, held: Held, future: Future[Any], question: Question | None, name: str, started: float
) -> Response:
    """Waits for a future of the service and says what came of it."""
    try:
        async with asyncio.timeout(service.limits.answer_s):
            found = await asyncio.wrap_future(future)
    except TimeoutError:
        raise Refusal(503, "busy", f"the model did not come to it within {service.limits.answer_s:g} s", name) from None
    except SpecdecError as error:
        event("model_failed", error=type(error).__name__)
        raise Refusal(500, "model_failed", error.message, name) from None
    finally:
        held.busy -= 1
    judgement = None
    if isinstance(found, Verdict) and question is not None:
        judgement = Judgement(accepted=found.accepted, token=found.token, more=list(found.more))
        service.metrics.judged(len(question.draft), found.accepted, 1 + len(found.more))
    cloud_ms = (time.perf_counter() - started) * 1e3
    return _good(Answer(request=name, judgement=judgement, work=service.work(held), cloud_ms=cloud_ms))


def _good(message: Message, status: int = 200) -> Response:
    content = message.model_dump_json().encode()
    headers = {"Content-Digest": content_digest(content)}
    return Response(content, status, headers, media_type="application/json")


def _body(kind: type[Message]) -> dict[str, Any]:
    """What a route's body is, for its OpenAPI description."""
    schema = {"type": "string", "format": "binary", "x-json-schema": kind.model_json_schema()}
    return {
        "requestBody": {
            "required": True,
            "description": f"Four bytes (length of the JSON, little-endian), the JSON ({kind.__name__}), and numbers.",
            "content": {"application/octet-stream": {"schema": schema}},
        }
    }


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Answers what is malformed with the digest of what came, so that the client sees whether it is what was sent."""
    try:
        yield
    except MalformedError as error:
        raise Refusal(422, "malformed", str(error), name) from None


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    event("refused", code=error.code)
    return _good(Problem(code=error.code, message=error.message, request=error.request), error.status)


async def _unknown(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return _good(Problem(code="not_found", message="there is no such thing here"), status)


async def _failed(_request: Request, _error: Exception) -> Response:
    return _good(Problem(code="model_failed", message="the server failed; its log says how"), 500)


def _lifespan(service: Service) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Forgets idle clips while the server runs, and finishes what is being computed when it ends."""

    async def sweep() -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            service.sessions.sweep()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await sweeping
            await asyncio.to_thread(service.close)

    return lifespan


class Observed:
    """Logs and counts every request around an application, and nothing of what it holds."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the server's lifetime."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status, received, sent = 499, 0, 0  # 499: the client was gone before an answer began

        async def receiving() -> Part:
            nonlocal received
            part = await receive()
            received += len(part.get("body", b""))
            return part

        async def sending(part: Part) -> None:
            nonlocal status, sent
            status = part.get("status", status)
            sent += len(part.get("body", b""))
            await send(part)

        try:
            await self._app(scope, receiving, sending)
        finally:
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if route != "other" else ""
            self._metrics.answered(f"{method} {route}".strip(), status, seconds, received, sent)
            client = (scope.get("client") or ("",))[0]
            event(
                "request",
                route=f"{method} {route}".strip(),
                status=status,
                ms=round(seconds * 1e3, 2),
                received=received,
                sent=sent,
                client=client,
            )
