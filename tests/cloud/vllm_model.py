"""A stand-in for a vLLM server that computes its answers with a tiny model of this process."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import soundfile
import torch

from specdec_cli.cloud.vllm_protocol import GENERATE, MODELS
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from tests.cloud.vllm_double import Answer


class ModelServer:
    """Answers as vLLM does, one request at a time; `down`: it closes every connection.

    Attributes:
        asked: paths of requests so far.
        sent: how often a recording came.
    """

    def __init__(self, model: AudioLM, name: str = "tiny") -> None:
        self._model, self._name, self._lock = model, name, threading.Lock()
        self._clips: dict[str, np.ndarray[Any, Any]] = {}
        self.down, self.sent, self.asked = False, 0, list[str]()

    def respond(self, _method: str, path: str, body: bytes, _headers: dict[str, str]) -> Answer:
        """See `vllm_double.answering`."""
        if self.down:
            raise ConnectionError
        with self._lock, torch.inference_mode():
            self.asked.append(path)
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
                self._clips[part["uuid"]] = _samples(part["url"])
                self.sent += 1
            if part["uuid"] not in self._clips:
                return None
            made = self._model.processor.prompt(self._clips[part["uuid"]], "x")
            placeholder = self._model.processor.placeholder_id
            at = ids.index(placeholder)
            ids, audio = [*ids[:at], *[placeholder] * made.ids.count(placeholder), *ids[at + 1 :]], made.audio
        session, text, content = Session(self._model, Prompt(tuple(ids[:1]), {}), 4000), list(ids[1:]), []
        if audio:
            split = max(at for at, id_ in enumerate(ids) if id_ == self._model.processor.placeholder_id) + 1
            session, text = Session(self._model, Prompt(tuple(ids[:split]), audio), 3000), list(ids[split:])
        prompt_rows: list[dict[str, Any] | None] = [None] * (len(ids) - len(text))
        rows = session.logits(text, len(text) + 1)
        if "prompt_logprobs" in how:
            prompt_rows += [_told(row, how["prompt_logprobs"], id_) for row, id_ in zip(rows[:-1], text, strict=True)]
        row = rows[-1]
        while len(content) < how["max_tokens"] and not (content and content[-1]["token_id"] in how["stop_token_ids"]):
            if "allowed_token_ids" in how:
                row = torch.full_like(row, -torch.inf).index_copy(0, *_of(row, how["allowed_token_ids"]))
            best = [{"token_id": int(id_), **about} for id_, about in _told(row, how["logprobs"]).items()]
            content.append({**best[0], "top_logprobs": best})
            text.append(best[0]["token_id"])
            row = session.logits(text)[-1]
        return {
            "usage": {"prompt_tokens": len(ids)},
            "prompt_logprobs": prompt_rows if "prompt_logprobs" in how else None,
            "choices": [{"logprobs": {"content": content}}],
        }


def _told(row: torch.Tensor, count: int, asked: int | None = None) -> dict[str, dict[str, float]]:
    logprobs = row.log_softmax(dim=-1)
    order = logprobs.argsort(descending=True, stable=True).tolist()
    ids: Sequence[int] = [*order[:count], *([] if asked is None else [asked])]
    return {str(id_): {"logprob": max(float(logprobs[id_]), -1e9), "rank": order.index(id_) + 1} for id_ in ids}


def _of(row: torch.Tensor, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    index = torch.tensor(ids)
    return index, row[index]


def _samples(url: str) -> np.ndarray[Any, Any]:
    return np.asarray(soundfile.read(io.BytesIO(base64.b64decode(url.partition(",")[2])), dtype="float32")[0])
