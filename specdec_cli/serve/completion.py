"""The answers of /v1/chat/completions, whole or as the chunks of a stream, in the OpenAI API's form."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from specdec_cli.models.processor import Processor
from specdec_cli.serve.captions import Step
from specdec_cli.serve.requests import PREFIX, ChatRequest
from specdec_cli.transcript import Transcript, token_fates
from specdec_cli.transcript.recorder import sum_of_known, whole_of
from specdec_cli.types import Mode, Token

UNLIKELY: Final = -9999.0
"""Log-probability of a token that is not among the most likely ones, as in the API itself."""


class AudioTokens(BaseModel):
    """Which tokens of the prompt are the recording's."""

    audio_tokens: int
    cached_tokens: int = 0


class Usage(BaseModel):
    """The tokens of prompts and captions."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: AudioTokens


class AnswerMessage(BaseModel):
    """The caption."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class Choice(BaseModel):
    """The caption, and why it ends."""

    index: Literal[0] = 0
    message: AnswerMessage
    finish_reason: Literal["stop", "length"]
    logprobs: dict[str, Any] | None


class ChatCompletion(BaseModel):
    """The answer to a request without `stream`."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    specdec: dict[str, Any] = Field(description="docs/api.md describes its fields")


class Completion:
    """The answer to a request so far. `wanted` are the properties of a JSON object; empty: the caption as text."""

    def __init__(self, asked: ChatRequest, mode: Mode, wanted: tuple[str, ...], writer: Processor) -> None:
        self._asked, self._wanted, self._writer = asked, wanted, writer
        self._head: dict[str, Any] = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time())}
        self._head["model"] = PREFIX + mode
        self._caption, self._logprobs = "", list[dict[str, Any]]()
        self._role = {"role": "assistant"}  # in the first chunk only
        self._last_piece: int | None = None  # index of the piece whose text came last
        self._done = list[Transcript]()  # of finished pieces
        self._prompt_tokens, self._audio_tokens = 0, 0

    def add(self, step: Step) -> tuple[str, list[dict[str, Any]]]:
        """Adds a step; returns its text and its logprobs."""
        text, piece, logprobs = step.text, step.piece, list[dict[str, Any]]()
        if text:
            if self._last_piece not in (None, piece.index):
                text = f"\n{text}"
            self._last_piece = piece.index
        if self._asked.logprobs:
            logprobs = [_logprob(token, self._asked.top_logprobs or 0, self._writer) for token in step.tokens]
        if isinstance(step.made, Transcript):
            self._done.append(step.made)
            self._prompt_tokens += piece.prompt_tokens
            self._audio_tokens += piece.audio_tokens
        self._caption += text
        self._logprobs += logprobs
        return text, logprobs

    def chunk(self, step: Step) -> str:
        """Adds a step; returns its chunk of a stream, as JSON."""
        made, (text, logprobs) = step.made, self.add(step)
        if isinstance(made, Transcript):
            own: dict[str, Any] = {"transcript": made.values(without={"rounds"})}
        else:
            own = {"block": made.model_dump(mode="json"), "tokens": list(token_fates.tokens(made))}
        piece = {name: getattr(step.piece, name) for name in ("index", "start_s", "end_s")}
        delta, self._role = {**self._role, "content": "" if self._wanted else text}, {}
        return self._chunk(delta, None, {"piece": piece, **own}, logprobs)

    def last(self) -> Iterator[str]:
        """The chunks that end a stream, as JSON."""
        yield self._chunk({"content": self._object} if self._wanted else {}, self._finish_reason, self._specdec, [])
        if self._asked.stream_options is not None and self._asked.stream_options.include_usage:
            usage = {"object": "chat.completion.chunk", "choices": [], "usage": self._usage.model_dump()}
            yield _json(self._head | usage)

    def whole(self) -> str:
        """The answer as a whole, as JSON."""
        message = AnswerMessage(content=self._object if self._wanted else self._caption)
        choice = Choice(message=message, finish_reason=self._finish_reason, logprobs=self._listed(self._logprobs))
        answer = ChatCompletion(**self._head, choices=[choice], usage=self._usage, specdec=self._specdec)
        return answer.model_dump_json()

    def _chunk(
        self, delta: Mapping[str, Any], reason: str | None, own: Mapping[str, Any], logprobs: list[dict[str, Any]]
    ) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": self._listed(logprobs)}
        return _json({**self._head, "object": "chat.completion.chunk", "choices": [choice], "specdec": own})

    def _listed(self, logprobs: list[dict[str, Any]]) -> dict[str, Any] | None:
        return {"content": logprobs, "refusal": None} if self._asked.logprobs else None

    @property
    def _finish_reason(self) -> Literal["stop", "length"]:
        return "length" if any(each.finish_reason == "max_tokens" for each in self._done) else "stop"

    @property
    def _usage(self) -> Usage:
        written = sum(each.totals.tokens for each in self._done if each.totals)
        return Usage(
            prompt_tokens=self._prompt_tokens,
            completion_tokens=written,
            total_tokens=self._prompt_tokens + written,
            prompt_tokens_details=AudioTokens(audio_tokens=self._audio_tokens),
        )

    @property
    def _specdec(self) -> dict[str, Any]:
        """The field `specdec`, beside the API's own fields."""
        done, totals = self._done, [each.totals for each in self._done if each.totals]
        drafted = sum(each.drafted for each in totals)
        pieces = [each.values(without={"rounds"}) for each in done]
        of_one = pieces[0] if len(pieces) == 1 else {}
        times = ("forwards_edge_ms", "forwards_cloud_ms", "total_ms")
        return {
            "flags": _each_once(each.flags for each in done),
            **{name: of_one.get(name) for name in ("labels", "emotions", "scores", "measured", "agrees")},
            "warnings": _each_once(each.warnings for each in done),
            "whole": None if (whole := whole_of(done)) is None else whole.model_dump(),
            "escalations": sum(each.escalations for each in totals),
            "acceptance_rate": sum(each.accepted for each in totals) / drafted if drafted else None,
            "timing": {name: sum_of_known(getattr(each.timing, name) for each in done) for name in times},
            "pieces": pieces,
        }

    @property
    def _object(self) -> str:
        """The JSON object of `response_format`; of several pieces, with the classes on which they agree."""
        found: dict[str, Any] = {"caption": self._caption}
        for labels in (each.labels or {} for each in self._done):
            for attribute, class_ in labels.items():
                found[attribute] = class_ if found.get(attribute, class_) == class_ else None
        found["emotions"] = _each_once(each.emotions or () for each in self._done)
        found["flags"] = _each_once(each.flags for each in self._done)
        return _json({name: found.get(name) for name in self._wanted})


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _each_once(lists: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(word for words in lists for word in words))


def _logprob(token: Token, listed: int, writer: Processor) -> dict[str, Any]:
    """A committed token in the API's form, with the `listed` most likely ones in its place."""

    def named(id_: int, value: float) -> dict[str, Any]:
        text = writer.token_text(id_)
        return {"token": text, "logprob": round(value, 4), "bytes": list(text.encode("utf-8", "replace"))}

    likeliest = {id_: math.log(p) for id_, p in token.alternatives[1] if p > 0}
    top = [named(*pair) for pair in list(likeliest.items())[:listed]]
    return named(token.id, likeliest.get(token.id, UNLIKELY)) | {"top_logprobs": top}
