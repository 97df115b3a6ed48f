"""The answers of /v1/chat/completions, whole or as the chunks of a stream, in the OpenAI API's form."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from specdec_cli.models.processor import Processor
from specdec_cli.serve.captions import Step
from specdec_cli.serve.requests import PREFIX, ChatRequest
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.recorder import sum_of_known
from specdec_cli.types import Mode, Token

UNLIKELY: Final = -9999.0
"""Log-probability of a token that is not among the most likely ones, as in the API itself."""


class Completion:
    """The answer to a request so far. `wanted` are the properties of a JSON object; none: the caption as text."""

    def __init__(self, asked: ChatRequest, mode: Mode, wanted: tuple[str, ...], writer: Processor) -> None:
        self._asked, self._wanted, self._writer = asked, wanted, writer
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": PREFIX + mode}
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

    def chunk(self, step: Step) -> dict[str, Any]:
        """Adds a step; returns its chunk of a stream."""
        made, (text, logprobs) = step.made, self.add(step)
        if isinstance(made, Transcript):
            own = {"transcript": _without_rounds(made)}
        else:
            own = {"block": made.model_dump(mode="json")}
        piece = {name: getattr(step.piece, name) for name in ("index", "start_s", "end_s")}
        delta, self._role = {**self._role, "content": "" if self._wanted else text}, {}
        return self._chunk(delta, None, {"piece": piece, **own}, logprobs)

    def last(self) -> Iterator[dict[str, Any]]:
        """The chunks that end a stream."""
        yield self._chunk({"content": self._object} if self._wanted else {}, self._finish_reason, self._specdec, [])
        if self._asked.stream_options is not None and self._asked.stream_options.include_usage:
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage}

    def completion(self) -> dict[str, Any]:
        """The answer as a whole."""
        content = self._object if self._wanted else self._caption
        message = {"role": "assistant", "content": content, "refusal": None}
        choice = self._choice("message", message, self._finish_reason, self._logprobs)
        whole = {"object": "chat.completion", "choices": [choice], "usage": self._usage, "specdec": self._specdec}
        return self._head | whole

    def _chunk(
        self, delta: Mapping[str, Any], reason: str | None, own: Mapping[str, Any], logprobs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        choice = self._choice("delta", delta, reason, logprobs)
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice], "specdec": own}

    def _choice(
        self, name: str, content: Mapping[str, Any], reason: str | None, logprobs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        listed = {"content": logprobs, "refusal": None} if self._asked.logprobs else None
        return {"index": 0, name: content, "finish_reason": reason, "logprobs": listed}

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
    def _specdec(self) -> dict[str, Any]:
        """The field `specdec`, beside the API's own fields."""
        done, totals = self._done, [each.totals for each in self._done if each.totals]
        drafted = sum(each.drafted for each in totals)
        pieces = [_without_rounds(each) for each in done]
        of_one = pieces[0] if len(pieces) == 1 else {}
        times = ("forwards_edge_ms", "forwards_cloud_ms", "total_ms")
        return {
            "flags": _each_once(each.flags for each in done),
            **{name: of_one.get(name) for name in ("labels", "emotions", "scores", "measured", "agrees")},
            "warnings": _each_once(each.warnings for each in done),
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
        return json.dumps({name: found.get(name) for name in self._wanted}, ensure_ascii=False)


def _without_rounds(transcript: Transcript) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(transcript.to_json())
    del found["rounds"]
    return found


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
