"""A stand-in for a vLLM server, whose answers are computed with a tiny model of this process."""

import base64
import io
import json
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import soundfile
import torch

from specdec_cli.cloud.vllm_protocol import GENERATE, MODELS
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from tests.support.servers import Answer


class ModelServer:
    """Answers as vLLM does, one request at a time; `down`: it closes every connection.

    Attributes:
        asked: paths of requests so far.
        headers: theirs.
        sent: how often a recording came.
    """

    def __init__(self, model: AudioLM, name: str = "tiny") -> None:
        self._model, self._name, self._lock = model, name, threading.Lock()
        self._clips: dict[str, tuple[Prompt, dict[tuple[int, ...], Session]]] = {}  # with sessions, by their prompts
        self._encoded = cache(
            lambda url: (model.processor.prompt(_samples(url), "x"), {})
        )  # a test's time is for others
        self.down, self.sent, self.asked, self.headers = False, 0, list[str](), list[dict[str, str]]()

    def forget(self) -> None:
        """Drops all recordings."""
        self._clips.clear()

    def respond(self, _method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """See `answering`."""
        if self.down:
            raise ConnectionError
        with self._lock, torch.inference_mode():
            self.asked.append(path)
            self.headers.append(headers)
            request = json.loads(body) if body else {}
            if path == MODELS:
                found: Any = {"data": [{"id": self._name}]}
            elif path == GENERATE:
                found = self._generated(request)
            elif "prompt" in request:
                found = {"tokens": self._model.processor.encode(request["prompt"])}
            else:
                found = {"tokens": self._templated(request["messages"])}
            return (
                (400, b'{"error": {"message": "Cache miss"}}') if found is None else (200, json.dumps(found).encode())
            )

    def recording_ids(self, tokens: int) -> list[int]:
        """What stands for a recording of so many audio tokens in place of one placeholder."""
        return [self._model.processor.placeholder_id] * tokens

    def _templated(self, messages: list[dict[str, Any]]) -> list[int]:
        *system, user = messages
        audio, *said = user["content"]
        samples = _samples(audio["audio_url"]["url"])
        text = said[0]["text"] if said else ""
        return list(self._model.processor.prompt(samples, text, system[0]["content"] if system else None).ids)

    def _generated(self, request: dict[str, Any]) -> dict[str, Any] | None:
        ids, audio, how = request["token_ids"], {}, request["sampling_params"]
        for part in request.get("content_parts", ()):
            if part["url"] is not None:
                self._clips[part["uuid"]] = self._encoded(part["url"])
                self.sent += 1
            if part["uuid"] not in self._clips:
                return None
            made, sessions = self._clips[part["uuid"]]
            placeholder = self._model.processor.placeholder_id
            at = ids.index(placeholder)
            ids, audio = [*ids[:at], *self.recording_ids(made.ids.count(placeholder)), *ids[at + 1 :]], made.audio
        session, text, content = Session(self._model, Prompt(tuple(ids[:1]), {}), 4000), list(ids[1:]), []
        if audio:
            split = max(at for at, id_ in enumerate(ids) if id_ == self._model.processor.placeholder_id) + 1
            start, text = tuple(ids[:split]), list(ids[split:])
            session = sessions.setdefault(start, Session(self._model, Prompt(start, audio), 3000))
        prompt_rows: list[dict[str, Any] | None] = [None] * (len(ids) - len(text))
        rows = session.logits(text, len(text) + 1)
        if "prompt_logprobs" in how:
            prompt_rows += [told(row, how["prompt_logprobs"], id_) for row, id_ in zip(rows[:-1], text, strict=True)]
        row = rows[-1]
        while len(content) < how["max_tokens"] and not (content and content[-1]["token_id"] in how["stop_token_ids"]):
            best = [{"token_id": int(id_), **about} for id_, about in told(row, how["logprobs"]).items()]
            content.append({**best[0], "top_logprobs": best})
            text.append(best[0]["token_id"])
            if len(content) < how["max_tokens"]:
                row = session.logits(text)[-1]
        return {
            "usage": {"prompt_tokens": len(ids)},
            "prompt_logprobs": prompt_rows if "prompt_logprobs" in how else None,
            "choices": [{"logprobs": {"content": content}}],
        }


def told(row: torch.Tensor, count: int, asked: int | None = None) -> dict[str, dict[str, float]]:
    logprobs = row.log_softmax(dim=-1)
    order = logprobs.argsort(descending=True, stable=True).tolist()
    ids: Sequence[int] = [*order[:count], *([] if asked is None else [asked])]
    return {str(id_): {"logprob": max(float(logprobs[id_]), -1e9), "rank": order.index(id_) + 1} for id_ in ids}


def _samples(url: str) -> np.ndarray[Any, Any]:
    return np.asarray(soundfile.read(io.BytesIO(base64.b64decode(url.partition(",")[2])), dtype="float32")[0])
