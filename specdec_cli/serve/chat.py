"""The OpenAI API: /v1/models and /v1/chat/completions, whose answers are captions."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from specdec_cli.errors import AudioError, CloudError, ConfigError, EdgeError, TooLongError, typed
from specdec_cli.labels import Lexicon
from specdec_cli.models.processor import Processor
from specdec_cli.serve.captions import Captions, Order, Step
from specdec_cli.serve.limits import Bodies
from specdec_cli.serve.metrics import Metrics
from specdec_cli.serve.openapi import CHAT, MODELS, document
from specdec_cli.serve.requests import PREFIX, ApiError, ChatRequest, object_schema
from specdec_cli.transcript import Transcript
from specdec_cli.types import Token

UNLIKELY: Final = -9999.0
"""Log-probability of a token that is not among the likeliest, as in the API itself."""

_STATUS: Final = {TooLongError: 413, AudioError: 400, ConfigError: 400, CloudError: 503, EdgeError: 503}


class Completion:
    """What has come of a request so far. `wanted` are the properties of a JSON object; none: the caption as text."""

    def __init__(self, asked: ChatRequest, order: Order, wanted: tuple[str, ...], writer: Processor) -> None:
        self._asked, self._wanted, self._writer = asked, wanted, writer
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": PREFIX + order.mode}
        self._caption, self._logprobs = "", list[dict[str, Any]]()
        self._begun = False  # whether the caption has text of the piece that is being captioned
        self._done = list[Transcript]()
        self._prompt_tokens, self._audio_tokens = 0, 0

    def add(self, step: Step) -> dict[str, Any]:
        """Takes in a step; returns the chunk of a stream that tells it."""
        text, ends = step.text, isinstance(step.made, Transcript)
        if text and self._caption and not self._begun:
            text = f"\n{text}"  # between the captions of two pieces
        self._begun = not ends and (self._begun or bool(text))
        self._caption += text
        logprobs = [_logprob(token, self._asked.top_logprobs or 0, self._writer) for token in step.tokens]
        self._logprobs += logprobs
        piece = step.piece
        told: dict[str, Any] = {"piece": {name: getattr(piece, name) for name in ("index", "start_s", "end_s")}}
        if isinstance(step.made, Transcript):
            self._done.append(step.made)
            self._prompt_tokens += piece.prompt_tokens
            self._audio_tokens += piece.audio_tokens
            told["transcript"] = _told(step.made)
        else:
            told["block"] = step.made.model_dump(mode="json")
        return self._chunk({"content": "" if self._wanted else text}, None, told, logprobs)

    def last(self) -> Iterator[dict[str, Any]]:
        """The chunks that end a stream."""
        yield self._chunk({"content": self._object} if self._wanted else {}, self._finish_reason, self._own, [])
        if self._asked.stream_options is not None and self._asked.stream_options.include_usage:
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage}

    def completion(self) -> dict[str, Any]:
        """The answer as a whole."""
        content = self._object if self._wanted else self._caption
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": content, "refusal": None},
            "finish_reason": self._finish_reason,
            "logprobs": self._listed(self._logprobs),
        }
        whole = {"object": "chat.completion", "choices": [choice], "usage": self._usage, "specdec": self._own}
        return self._head | whole

    def _chunk(
        self, delta: Mapping[str, Any], reason: str | None, own: Mapping[str, Any], logprobs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": self._listed(logprobs)}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice], "specdec": own}

    def _listed(self, logprobs: list[dict[str, Any]]) -> dict[str, Any] | None:
        return {"content": logprobs, "refusal": None} if self._asked.logprobs else None

    @property
    def _finish_reason(self) -> str:
        return "length" if any(each.finish_reason == "max_tokens" for each in self._done) else "stop"

    @property
    def _usage(self) -> dict[str, Any]:
        written = sum(each.totals.tokens for each in self._done if each.totals)
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": written,
            "total_tokens": self._prompt_tokens + written,
            "prompt_tokens_details": {"audio_tokens": self._audio_tokens, "cached_tokens": 0},
        }

    @property
    def _own(self) -> dict[str, Any]:
        """What specdec says beside the API's own fields."""
        done, totals = self._done, [each.totals for each in self._done if each.totals]
        drafted = sum(each.drafted for each in totals)
        pieces = [_told(each) for each in done]
        of_one = pieces[0] if len(pieces) == 1 else {}
        times = ("forwards_edge_ms", "forwards_cloud_ms", "total_ms")
        return {
            "flags": list(dict.fromkeys(flag for each in done for flag in each.flags)),
            **{name: of_one.get(name) for name in ("labels", "emotions", "scores", "measured", "agrees")},
            "warnings": list(dict.fromkeys(says for each in done for says in each.warnings)),
            "escalations": sum(each.escalations for each in totals),
            "acceptance_rate": sum(each.accepted for each in totals) / drafted if drafted else None,
            "timing": {name: _sum(getattr(each.timing, name) for each in done) for name in times},
            "pieces": pieces,
        }

    @property
    def _object(self) -> str:
        """The JSON object that `response_format` asks for; of several pieces, the classes on which they agree."""
        found: dict[str, Any] = {"caption": self._caption}
        for name in (each.labels or {} for each in self._done):
            for attribute, class_ in name.items():
                found[attribute] = class_ if found.get(attribute, class_) == class_ else None
        found["emotions"] = list(dict.fromkeys(word for each in self._done for word in each.emotions or ()))
        found["flags"] = list(dict.fromkeys(flag for each in self._done for flag in each.flags))
        return json.dumps({name: found.get(name) for name in self._wanted}, ensure_ascii=False)


def _told(transcript: Transcript) -> dict[str, Any]:
    """A transcript but for its rounds."""
    found: dict[str, Any] = json.loads(transcript.to_json())
    del found["rounds"]
    return found


def _logprob(token: Token, listed: int, writer: Processor) -> dict[str, Any]:
    """A committed token, with the `listed` likeliest in its place, in the API's form."""

    def named(id_: int, value: float) -> dict[str, Any]:
        piece = writer.piece(id_)
        return {"token": piece, "logprob": round(value, 4), "bytes": list(piece.encode("utf-8", "replace"))}

    likeliest = {id_: math.log(p) for id_, p in token.alternatives[1] if p > 0}
    top = [named(*pair) for pair in list(likeliest.items())[:listed]]
    return named(token.id, likeliest.get(token.id, UNLIKELY)) | {"top_logprobs": top}


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def routes(captions: Captions, bodies: Bodies, metrics: Metrics) -> list[Route]:
    """The API's routes."""
    known, described = object_schema(Lexicon.shipped()), document(captions.modes)

    def model(mode: str) -> dict[str, Any]:
        return {"id": PREFIX + mode, "object": "model", "created": 0, "owned_by": "specdec"}

    async def models(_request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [model(mode) for mode in captions.modes]})

    async def one(request: Request) -> Response:
        return JSONResponse(model(captions.mode_of(request.path_params["name"])))

    def read(body: bytes) -> tuple[ChatRequest, Order, tuple[str, ...]]:
        asked = ChatRequest.read(body)
        settings, mode = asked.settings(captions.limits.text_tokens), captions.mode_of(asked.model)
        if (own := settings.pop("decoding.mode", None)) is not None:
            mode = captions.mode_of(f"{PREFIX}{own}")
        order = Order(mode, settings, asked.sound, asked.text("user"), asked.text("system", "developer"))
        return asked.model_copy(update={"messages": []}), order, asked.wanted(known)

    async def chat(request: Request) -> Response:
        body = await bodies.read(request)
        size = len(body)
        try:
            asked, order, wanted = await asyncio.to_thread(read, body)
            told = _Told(captions, order, request)
        except BaseException:
            bodies.release(size)
            raise
        del body
        told.future.add_done_callback(lambda _: bodies.release(size))  # until then a thread holds the recording
        answer, steps = Completion(asked, order, wanted, captions.writer), told.steps(metrics)
        if asked.stream:
            return await _streamed(answer, steps)
        async with aclosing(steps):
            async for step in steps:
                answer.add(step)
        return JSONResponse(answer.completion())

    return [
        Route("/openapi.json", lambda _: JSONResponse(described)),
        Route(MODELS, models),
        Route(MODELS + "/{name:path}", one),
        Route(CHAT, chat, methods=["POST"]),
    ]


class _Told:
    """The steps of one request, from the thread that captions to the loop that answers."""

    def __init__(self, captions: Captions, order: Order, request: Request) -> None:
        self._loop, self._left, self._wait_s = asyncio.get_running_loop(), threading.Event(), captions.limits.caption_s
        self._queue: asyncio.Queue[Step | BaseException | None] = asyncio.Queue()
        self._request, self._mode = request, order.mode
        self.future = captions.submit(order, self._tell, self._left)
        self.future.add_done_callback(self._end)

    def _end(self, done: Future[None]) -> None:
        self._tell(ClientDisconnect() if done.cancelled() else done.exception())

    def _tell(self, what: Step | BaseException | None) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, what)

    async def steps(self, metrics: Metrics) -> AsyncGenerator[Step]:
        """What happens, as it does. Closing it, or a client that leaves, ends the work before its next forward."""
        leaving = asyncio.create_task(departure(self._request))
        leaving.add_done_callback(lambda _: self._queue.put_nowait(ClientDisconnect()))
        try:
            while True:
                async with asyncio.timeout(self._wait_s):
                    step = await self._queue.get()
                if step is None:
                    return
                if isinstance(step, BaseException):
                    raise step
                if isinstance(step.made, Transcript):
                    metrics.captions.labels(self._mode).inc()
                    metrics.captioned_s.inc(step.piece.end_s - step.piece.start_s)
                yield step
        except TimeoutError:
            raise ApiError(503, f"No block was written within {self._wait_s:g} s.") from None
        finally:
            self._left.set()
            leaving.cancel()
            self.future.cancel()


async def _streamed(answer: Completion, steps: AsyncGenerator[Step]) -> Response:
    """Server-sent events. What is refused before the first block is refused with its status."""
    try:
        first = answer.add(await anext(steps))
    except BaseException:
        await steps.aclose()
        raise
    first["choices"][0]["delta"]["role"] = "assistant"

    async def events() -> AsyncGenerator[str]:
        async with aclosing(steps):
            try:
                yield _event(first)
                async for step in steps:
                    yield _event(answer.add(step))
                for chunk in answer.last():
                    yield _event(chunk)
                yield "data: [DONE]\n\n"
            except ClientDisconnect:  # nobody is there to read more
                return
            except Exception as error:
                yield _event(refusal(error).body)

    return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


def _event(message: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(message, ensure_ascii=False)}\n\n"


def refusal(error: BaseException) -> ApiError:
    """An error in the API's form: specdec's sentence and hint."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):
        return ApiError(error.status_code, error.detail, headers=error.headers)
    known = typed(error)
    status = next((code for kind, code in _STATUS.items() if isinstance(known, kind)), 500)
    says = " ".join(filter(None, (known.message, known.hint)))
    return ApiError(status, says, "messages" if isinstance(known, AudioError) else None, type(known).__name__)


async def departure(request: Request) -> None:
    """Waits until the client of a request, whose body was read, closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
