"""The OpenAI API: /v1/models and /v1/chat/completions, whose answers are captions."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from specdec_cli.errors import AudioError, CloudError, ConfigError, EdgeError, SpecdecError, typed
from specdec_cli.models.processor import Processor
from specdec_cli.serve.captions import NAME, Captions, Order, Step
from specdec_cli.serve.limits import Bodies
from specdec_cli.serve.metrics import Metrics
from specdec_cli.serve.requests import PREFIX, ApiError, ChatRequest
from specdec_cli.transcript import Transcript
from specdec_cli.types import Token

_MODELS: Final = "/v1/models"
_CHAT: Final = "/v1/chat/completions"
PATHS: Final = (_MODELS, _CHAT)
"""Where errors have the API's form."""

NEVER: Final = -9999.0
"""Stands for the log-probability of a token that is not among the likeliest, as in the API itself."""

_KEPT: Final = (
    "flags",
    "labels",
    "emotions",
    "scores",
    "needs_review",
    "measured",
    "agrees",
    "finish_reason",
    "degraded",
    "error",
    "warnings",
    "totals",
    "timing",
)
"""Fields of a transcript that an answer has for each piece."""


class Answer:
    """One request and all that has come of it."""

    def __init__(self, asked: ChatRequest, order: Order, writer: Processor) -> None:
        self.asked, self.order, self._writer = asked, order, writer
        self.head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": PREFIX + order.mode}
        self.pieces = list[dict[str, Any]]()
        self.caption, self.logprobs = "", list[dict[str, Any]]()
        self._begun = False  # whether the caption has text of the piece that is being captioned
        self._prompt_tokens, self._audio_tokens, self._tokens = 0, 0, 0
        self._transcripts = list[Transcript]()

    @property
    def is_text(self) -> bool:
        """Whether the answer is the caption itself, and no JSON."""
        return self.asked.response_format is None or self.asked.response_format.type == "text"

    def add(self, step: Step) -> dict[str, Any]:
        """Takes in a step; returns the chunk of a stream that tells it."""
        piece: dict[str, Any] = {name: getattr(step.piece, name) for name in ("index", "start_s", "end_s")}
        text, told = step.text, dict[str, Any]()
        if isinstance(step.made, Transcript):
            piece |= self._finish(step, step.made)
            told["transcript"] = json.loads(step.made.to_json()) | {"file": NAME}
            del told["transcript"]["rounds"]  # which were told block by block
        else:
            told["block"] = step.made.model_dump(mode="json")
        if text and self.caption and not self._begun:
            text = f"\n{text}"  # between the captions of two pieces
        self._begun = not isinstance(step.made, Transcript) and (self._begun or bool(text))
        self.caption += text
        logprobs = [self._logprob(token) for token in step.tokens] if self.asked.logprobs else []
        self.logprobs += logprobs
        delta = {"content": text if self.is_text else ""}
        return self._chunk(delta, None, told | {"piece": piece}, logprobs if self.asked.logprobs else None)

    def _finish(self, step: Step, made: Transcript) -> dict[str, Any]:
        self._transcripts.append(made)
        self._prompt_tokens += step.piece.prompt_tokens
        self._audio_tokens += step.piece.audio_tokens
        self._tokens += made.totals.tokens if made.totals else 0
        said = made.model_dump(mode="json")
        found = {"caption": made.caption} | {name: said[name] for name in _KEPT}
        self.pieces.append({name: getattr(step.piece, name) for name in ("index", "start_s", "end_s")} | found)
        return found

    def _logprob(self, token: Token) -> dict[str, Any]:
        likeliest = token.alternatives[1]
        of = {id_: math.log(p) for id_, p in likeliest if p > 0}

        def named(id_: int, value: float) -> dict[str, Any]:
            piece = self._writer.piece(id_)
            return {"token": piece, "logprob": round(value, 4), "bytes": list(piece.encode("utf-8", "replace"))}

        top = [named(id_, value) for id_, value in list(of.items())[: self.asked.top_logprobs or 0]]
        return named(token.id, of.get(token.id, NEVER)) | {"top_logprobs": top}

    def _chunk(
        self,
        delta: Mapping[str, Any],
        reason: str | None,
        own: Mapping[str, Any],
        logprobs: Sequence[Any] | None = None,
    ) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        choice["logprobs"] = None if logprobs is None else {"content": logprobs, "refusal": None}
        return {**self.head, "object": "chat.completion.chunk", "choices": [choice], "specdec": own}

    @property
    def usage(self) -> dict[str, Any]:
        """Tokens of the prompt, audio included, and those that were written."""
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._tokens,
            "total_tokens": self._prompt_tokens + self._tokens,
            "prompt_tokens_details": {"audio_tokens": self._audio_tokens, "cached_tokens": 0},
        }

    @property
    def finish_reason(self) -> str:
        """The API's word for how the last piece ended."""
        return "length" if any(each.finish_reason == "max_tokens" for each in self._transcripts) else "stop"

    def own(self) -> dict[str, Any]:
        """What specdec says beside the API's own fields."""
        first, totals = self._transcripts[0], [each.totals for each in self._transcripts if each.totals]
        drafted = sum(each.drafted for each in totals)
        flags = dict.fromkeys(flag for each in self._transcripts for flag in each.flags)
        alone = self.pieces[0] if len(self.pieces) == 1 else {}
        return {
            "mode": first.mode,
            "language": first.language,
            "prompt": first.prompt,
            "flags": list(flags),
            **{name: alone.get(name) for name in ("labels", "emotions", "scores", "measured", "agrees")},
            "warnings": list(dict.fromkeys(says for each in self._transcripts for says in each.warnings)),
            "escalations": sum(each.escalations for each in totals),
            "acceptance_rate": sum(each.accepted for each in totals) / drafted if drafted else None,
            "edge_ms": _sum(each.timing.forwards_edge_ms for each in self._transcripts),
            "cloud_ms": _sum(each.timing.forwards_cloud_ms for each in self._transcripts),
            "total_ms": _sum(each.timing.total_ms for each in self._transcripts),
            "pieces": self.pieces,
        }

    def object_content(self) -> str:
        """The JSON object that `response_format` asks for."""
        first = self._transcripts[0]
        found: dict[str, Any] = {"caption": self.caption, **(first.labels or {})}
        found["emotions"] = list(dict.fromkeys(word for each in self._transcripts for word in each.emotions or ()))
        found["flags"] = list(dict.fromkeys(flag for each in self._transcripts for flag in each.flags))
        return json.dumps(found, ensure_ascii=False)

    def completion(self) -> dict[str, Any]:
        """The answer as a whole."""
        content = self.caption if self.is_text else self.object_content()
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": content, "refusal": None},
            "finish_reason": self.finish_reason,
            "logprobs": {"content": self.logprobs, "refusal": None} if self.asked.logprobs else None,
        }
        return {
            **self.head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": self.usage,
            "specdec": self.own(),
        }

    def last_chunks(self) -> Iterable[dict[str, Any]]:
        """The end of a stream."""
        delta = {} if self.is_text else {"content": self.object_content()}
        yield self._chunk(delta, self.finish_reason, self.own())
        options = self.asked.stream_options
        if options is not None and options.include_usage:
            yield {**self.head, "object": "chat.completion.chunk", "choices": [], "usage": self.usage}


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def routes(captions: Captions, bodies: Bodies, metrics: Metrics) -> list[Route]:
    """The API's routes."""

    async def models(_request: Request) -> Response:
        listed = [
            {"id": PREFIX + mode, "object": "model", "created": 0, "owned_by": "specdec"} for mode in captions.modes
        ]
        return JSONResponse({"object": "list", "data": listed})

    async def chat(request: Request) -> Response:
        body = await bodies.read(request)
        size = len(body)
        try:
            asked, order = await asyncio.to_thread(_read, captions, body)
        except BaseException:
            bodies.release(size)
            raise
        del body
        answer = Answer(asked, order, captions.writer)
        steps = _steps(captions, order, request, bodies, size, metrics)
        if not asked.stream:
            async with aclosing(steps):
                async for step in steps:
                    answer.add(step)
            return JSONResponse(answer.completion())
        try:
            first = await anext(steps)  # what is refused is so with a status of its own
        except BaseException:
            await steps.aclose()
            raise
        return StreamingResponse(_events(answer, first, steps), media_type="text/event-stream")

    return [Route(_MODELS, models), Route(_CHAT, chat, methods=["POST"])]


def _read(captions: Captions, body: bytes) -> tuple[ChatRequest, Order]:
    asked = ChatRequest.read(body)
    settings = asked.settings
    mode = settings.pop("decoding.mode", None) or captions.mode_of(asked.model)
    order = Order(mode, settings, asked.sound, asked.instruction("user"), asked.instruction("system", "developer"))
    return asked, order


async def _steps(
    captions: Captions, order: Order, request: Request, bodies: Bodies, size: int, metrics: Metrics
) -> AsyncIterator[Step]:
    """What happens, as it does. Closing it, or a client that leaves, ends the work."""
    loop, left = asyncio.get_running_loop(), threading.Event()
    told: asyncio.Queue[Step | BaseException | None] = asyncio.Queue()

    def tell(step: Step | BaseException | None) -> None:
        loop.call_soon_threadsafe(told.put_nowait, step)

    try:
        future = captions.submit(order, tell, left)
    except BaseException:
        bodies.release(size)
        raise
    future.add_done_callback(lambda _: bodies.release(size))
    future.add_done_callback(lambda done: tell(ClientDisconnect() if done.cancelled() else done.exception()))
    leaving = asyncio.create_task(departure(request))
    leaving.add_done_callback(lambda done: None if done.cancelled() else told.put_nowait(ClientDisconnect()))
    try:
        while True:
            try:
                async with asyncio.timeout(captions.limits.caption_s):
                    step = await told.get()
            except TimeoutError:
                raise ApiError(503, f"No block came within {captions.limits.caption_s:g} s.") from None
            if step is None:
                return
            if isinstance(step, BaseException):
                raise step
            if isinstance(step.made, Transcript):
                metrics.captions.labels(order.mode).inc()
                metrics.seconds_heard.inc(step.piece.end_s - step.piece.start_s)
            yield step
    finally:
        left.set()
        leaving.cancel()
        future.cancel()


async def _events(answer: Answer, first: Step, steps: AsyncIterator[Step]) -> AsyncIterator[str]:
    """Server-sent events."""
    role = answer.add(first)
    role["choices"][0]["delta"] = {"role": "assistant", **role["choices"][0]["delta"]}
    async with aclosing(steps):
        try:
            yield _event(role)
            async for step in steps:
                yield _event(answer.add(step))
            for chunk in answer.last_chunks():
                yield _event(chunk)
        except (ApiError, SpecdecError) as error:
            yield _event(refusal(error).body)
            return
    yield "data: [DONE]\n\n"


def _event(message: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(message, ensure_ascii=False)}\n\n"


def refusal(error: BaseException) -> ApiError:
    """An error in the API's form: specdec's sentence and hint."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):
        return ApiError(error.status_code, error.detail)
    known = typed(error)
    status = {AudioError: 400, ConfigError: 400, CloudError: 503, EdgeError: 503}
    found = next((code for kind, code in status.items() if isinstance(known, kind)), 500)
    param = "messages" if isinstance(known, AudioError) else None
    says = " ".join(filter(None, (known.message, known.hint)))
    return ApiError(found, says, param, type(known).__name__)


async def departure(request: Request) -> None:
    """Waits until the client of a request, whose body was read, closes its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
