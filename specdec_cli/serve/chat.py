"""The OpenAI API: /v1/models and /v1/chat/completions, whose answers are captions."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, closing
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from specdec_cli.labels import Lexicon
from specdec_cli.serve.api_error import ApiError
from specdec_cli.serve.bodies import Bodies, Body, results
from specdec_cli.serve.caption_object import object_schema
from specdec_cli.serve.captions import Captions
from specdec_cli.serve.completion import Completion
from specdec_cli.serve.fetch import fetched
from specdec_cli.serve.metrics import Metrics
from specdec_cli.serve.openapi import CHAT, MODELS, document
from specdec_cli.serve.requests import PREFIX, ChatRequest
from specdec_cli.transcript import Transcript

_PROPERTIES: Final = object_schema(Lexicon.shipped())


def routes(captions: Captions, bodies: Bodies, metrics: Metrics) -> list[Route]:
    """The API's routes."""
    api, described = _Api(captions, bodies, metrics), document(captions.modes)
    return [
        Route("/openapi.json", lambda _: JSONResponse(described)),
        Route(MODELS, api.models),
        Route(MODELS + "/{name:path}", api.model),
        Route(CHAT, api.chat, methods=["POST"]),
    ]


class _Api:
    def __init__(self, captions: Captions, bodies: Bodies, metrics: Metrics) -> None:
        self._captions, self._bodies, self._metrics = captions, bodies, metrics

    async def models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [_model(mode) for mode in self._captions.modes]})

    async def model(self, request: Request) -> Response:
        return JSONResponse(_model(self._captions.mode_of(request.path_params["name"])))

    async def chat(self, request: Request) -> Response:
        captions = self._captions
        texts = results(request, self._bodies, captions.submit, self._answer, captions.limits.caption_s)
        try:
            text = await anext(texts)  # an error before the first block is answered with its status
            if text:
                head = {"Cache-Control": "no-cache"}
                return StreamingResponse(_streamed(text, texts), media_type="text/event-stream", headers=head)
            async for each in texts:
                text = each
        except BaseException:
            await texts.aclose()
            raise
        return Response(text, media_type="application/json")

    def _answer(self, body: Body, left: threading.Event) -> Generator[str]:
        """The events of a stream; without a stream, an empty text for each step, and the answer as the last one."""
        captions, asked, body.content = self._captions, ChatRequest.read(body.content), b""
        settings, mode = asked.settings(captions.limits.text_tokens), captions.mode_of(asked.model)
        if "decoding.mode" in settings:
            mode = captions.mode_of(f"{PREFIX}{settings['decoding.mode']}")
        answer = Completion(asked, mode, asked.wanted(_PROPERTIES), captions.loaded.pair.writer)
        sound = asked.sound(lambda url: fetched(url, captions.limits, body, left))
        with closing(captions.steps({**settings, "decoding.mode": mode}, asked.texts, sound, left)) as steps:
            asked.messages.clear()
            del sound  # from here on the recording is held once
            for step in steps:
                if isinstance(step.made, Transcript):
                    self._metrics.captions.labels(mode).inc()
                    self._metrics.captioned_s.inc(step.piece.end_s - step.piece.start_s)
                if asked.stream:
                    yield _event(answer.chunk(step))
                else:
                    answer.add(step)
                    yield ""
        yield from map(_event, answer.last()) if asked.stream else (_json(answer.completion()),)


def _model(mode: str) -> dict[str, Any]:
    return {"id": PREFIX + mode, "object": "model", "created": 0, "owned_by": "specdec"}


async def _streamed(first: str, texts: AsyncGenerator[str]) -> AsyncGenerator[str]:
    async with aclosing(texts):
        try:
            yield first
            async for text in texts:
                yield text
            yield "data: [DONE]\n\n"
        except ClientDisconnect:  # nobody reads more
            return
        except Exception as error:
            yield _event(ApiError.of(error).body)


def _event(message: Mapping[str, Any]) -> str:
    return f"data: {_json(message)}\n\n"


def _json(message: Mapping[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False)
