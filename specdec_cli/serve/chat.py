"""The OpenAI API: /v1/models and /v1/chat/completions, whose answers are captions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing
from functools import partial
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel
from starlette.types import Send

from specdec_cli.labels import Lexicon
from specdec_cli.serve.api_error import ApiError, ErrorAnswer, refusal_of
from specdec_cli.serve.bodies import Bodies, Body, in_thread, while_connected
from specdec_cli.serve.caption_object import object_schema
from specdec_cli.serve.captions import Captions, Step, Wanted
from specdec_cli.serve.completion import ChatCompletion, Completion
from specdec_cli.serve.metrics import Metrics
from specdec_cli.serve.requests import PREFIX, ChatRequest
from specdec_cli.transcript import Transcript

_PROPERTIES: Final = object_schema(Lexicon.shipped())
_SCHEMAS: Final = "#/components/schemas/{model}"
_COMMENT_S: Final = 15.0  # of silence in a stream, after which proxies and clients might give it up
_REFUSED: Final[dict[int | str, dict[str, Any]]] = {
    "default": {"model": ErrorAnswer, "description": "a refusal; docs/api.md has the statuses"}
}

Texts = asyncio.Queue[str | Exception | None]
"""The events of a stream, then None, or the error that ends it."""


class Model(BaseModel):
    """A mode."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "specdec"


class ModelList(BaseModel):
    """The modes for which all models are loaded."""

    object: Literal["list"] = "list"
    data: list[Model]


def router(captions: Captions, bodies: Bodies, metrics: Metrics) -> APIRouter:
    """The API's routes."""
    routes, api = APIRouter(), _Api(captions, bodies, metrics)

    @routes.get("/v1/models", operation_id="models", responses=_REFUSED)
    async def models() -> ModelList:
        return ModelList(data=[Model(id=PREFIX + mode) for mode in captions.modes])

    @routes.get("/v1/models/{name:path}", operation_id="model", responses=_REFUSED)
    async def model(name: str) -> Model:
        return Model(id=PREFIX + captions.mode_of(name))

    # read and validated in a thread, see `ChatRequest.read`: FastAPI would do it in the event loop
    schema = {"$ref": _SCHEMAS.format(model=ChatRequest.__name__)}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    stream = {"description": "the caption", "content": {"text/event-stream": {"schema": {"type": "string"}}}}

    @routes.post(
        "/v1/chat/completions",
        operation_id="caption",
        response_model=ChatCompletion,
        responses={200: stream, **_REFUSED},
        openapi_extra={"requestBody": body},
    )
    async def caption(request: Request) -> Response:
        return await api.answer(request)

    return routes


def body_schemas() -> dict[str, Any]:
    """The schemas of a request's body by name, as the OpenAPI document's components have them."""
    schema = ChatRequest.model_json_schema(ref_template=_SCHEMAS)
    parts: dict[str, Any] = schema.pop("$defs")
    return {**parts, ChatRequest.__name__: schema}


class _Api:
    def __init__(self, captions: Captions, bodies: Bodies, metrics: Metrics) -> None:
        self._captions, self._bodies, self._metrics = captions, bodies, metrics
        self._reading = ThreadPoolExecutor(2, "specdec request")

    async def answer(self, request: Request) -> Response:
        """A caption, as a whole or as a stream. An error before its first block is answered with a status."""
        body = await self._bodies.read(request)
        with ExitStack() as held:
            held.callback(body.release)
            held.enter_context(self._captions.place())
            async with while_connected(request):
                asked, wanted, answer = await in_thread(self._reading, partial(self._read, body, held), lambda: None)
                body.content = bytearray()
                body.count(wanted.file.size)
                client = request.client.host if request.client else ""
                if not asked.stream:
                    async with aclosing(self._steps(wanted, client, blocks=False)) as steps:
                        async for step in steps:
                            answer.add(step)
                    return Response(answer.whole(), media_type="application/json")
                texts = Texts(1)  # no piece is begun before the last one is read
                work = asyncio.create_task(self._put(texts, wanted, client, answer))
                release = held.pop_all().close
                work.add_done_callback(lambda _: release())
                stream = _texts(work, texts)
                first = await anext(stream)
        head = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return _Stream(_streamed(first, stream), media_type="text/event-stream", headers=head)

    def _read(self, body: Body, held: ExitStack) -> tuple[ChatRequest, Wanted, Completion]:
        captions, asked = self._captions, ChatRequest.read(body.content)
        settings, mode = asked.settings(captions.limits.text_tokens), captions.mode_of(asked.model)
        if "decoding.mode" in settings:
            mode = captions.mode_of(f"{PREFIX}{settings['decoding.mode']}")
        answer = Completion(asked, mode, asked.wanted(_PROPERTIES), captions.loaded.pair.processor)
        settings["decoding.mode"] = mode
        wanted = captions.wanted(settings, asked.texts, asked.sound(), asked.left_out())
        held.callback(wanted.file.close)
        asked.messages.clear()  # from here on the recording is held once
        return asked, wanted, answer

    async def _steps(self, wanted: Wanted, client: str, *, blocks: bool) -> AsyncGenerator[Step]:
        """The steps of a recording, see `Captions.steps`. Counts its captions."""
        async with aclosing(self._captions.steps(wanted, client, blocks=blocks)) as steps:
            async for step in steps:
                if isinstance(step.made, Transcript):
                    self._metrics.captions.labels(wanted.captioner.config.decoding.mode).inc()
                    self._metrics.captioned_s.inc(step.piece.end_s - step.piece.start_s)
                yield step

    async def _put(self, texts: Texts, wanted: Wanted, client: str, answer: Completion) -> None:
        """Puts the events of a stream, and None at the end, or an error."""
        try:
            async with aclosing(self._steps(wanted, client, blocks=True)) as steps:
                async for step in steps:
                    await texts.put(_event(answer.chunk(step)))
            for chunk in answer.last():
                await texts.put(_event(chunk))
            await texts.put(None)
        except Exception as error:
            await texts.put(error)


class _Stream(StreamingResponse):
    """Events that end with the response; else a stream that is not read would hold its place until it is collected."""

    body_iterator: AsyncGenerator[str]

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self.body_iterator):
            await super().stream_response(send)


async def _texts(work: asyncio.Task[None], texts: Texts) -> AsyncGenerator[str]:
    """The texts that `work` puts, and a comment after some silence. Raises the error that it puts."""
    try:
        while True:
            try:
                async with asyncio.timeout(_COMMENT_S):
                    text = _text(await texts.get())
            except TimeoutError:
                text = ": the recording waits\n\n"
            if text is None:
                return
            yield text
    finally:
        work.cancel()


def _text(found: str | Exception | None) -> str | None:
    """The text that was put. Raises the error that was."""
    try:
        if isinstance(found, Exception):
            raise found
        return found
    finally:
        del found  # an error has this frame in its traceback, see `in_thread`


async def _streamed(first: str, texts: AsyncGenerator[str]) -> AsyncGenerator[str]:
    async with aclosing(texts):
        try:
            yield first
            async for text in texts:
                yield text
            yield "data: [DONE]\n\n"
        except Exception as error:
            yield event_of(refusal_of(error))


def event_of(error: ApiError) -> str:
    """The event of a stream that an error ends."""
    return _event(json.dumps(error.body))


def _event(message: str) -> str:
    return f"data: {message}\n\n"
