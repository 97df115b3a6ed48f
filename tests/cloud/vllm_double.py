"""A stand-in for a vLLM server that says what a real one said, word for word, and the proxy that wrote it down.

It knows the answers to the questions of `recorded_cases` only, and remembers recordings by id as the real one does.
"""

from __future__ import annotations

import gzip
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.cloud.vllm_cases import VllmCase

ANSWERS = Path(__file__).with_name("vllm_answers.json.gz")

Answer = tuple[int, bytes] | tuple[int, bytes, dict[str, str]]
Respond = Callable[[str, str, bytes, dict[str, str]], Answer]
"""(method, path, body, headers) -> (status, body), and headers of its own."""


def recorded_cases() -> list[VllmCase]:
    """What the recording has the answers for."""
    common: dict[str, Any] = {
        "max_new_tokens": 8,
        "k": 3,
        "loop_period": 0,
        "gate": "always",
        "repetition_penalty": 1.0,
        "no_repeat_ngram": 0,
        "min_new_tokens": 0,
    }
    rank: dict[str, Any] = {"mode": "hybrid", "acceptance": "rank", "rank": 3, "stop_drafting": True}
    return [
        *(
            VllmCase("far", clip, instruction, common | {"mode": "lossless", "degrade": True})
            for clip, instruction in ((4, "tone? abab abab"), (1, "tone? abab abab"), (2, "描述声音"))
        ),
        *(VllmCase("near", clip, "x", common | rank) for clip in (1, 2)),
    ]


@contextmanager
def answering(respond: Respond) -> Iterator[str]:
    """An HTTP server on loopback that answers by `respond`; yields its address. What raises ends the connection."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                status, answer, *more = respond(self.command, self.path, body, dict(self.headers))
            except ConnectionError:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            for name, value in (more[0] if more else {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def key_of(method: str, path: str, body: bytes) -> str:
    """What a question is known by: all of it but the recording and its id."""
    if not body:
        return f"{method} {path}"
    request = json.loads(body)
    parts = request.pop("content_parts", None)
    return f"{method} {path} {json.dumps(request, sort_keys=True)}{' heard' if parts else ''}"


class Recorder:
    """Passes questions on to a real server and keeps what it answers."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.answers: dict[str, tuple[int, str]] = {}

    def respond(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """The real server's answer."""
        request = urllib.request.Request(
            self._url + path, body or None, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                status, answer = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, answer = error.code, error.read()
        self.answers[key_of(method, path, body)] = (status, answer.decode())
        return status, answer

    def save(self) -> None:
        """Writes what was kept."""
        text = json.dumps(self.answers, sort_keys=True, indent=0)
        ANSWERS.write_bytes(gzip.compress(text.encode(), mtime=0))


@cache
def _recorded() -> dict[str, tuple[int, str]]:
    found: dict[str, tuple[int, str]] = json.loads(gzip.decompress(ANSWERS.read_bytes()))
    return found


class Replay:
    """Says again what was kept. A recording that it has not been sent is missing, as at the real server.

    Attributes:
        asked: paths of all requests so far.
        sent: how often a recording came.
    """

    def __init__(self) -> None:
        self._answers = _recorded()
        self._known: set[str] = set()
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.sent = 0

    def forget(self) -> None:
        """Drops all recordings."""
        self._known.clear()

    def respond(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """The real server's answer to such a question."""
        self.asked.append(path)
        self.headers.append(headers)
        parts = json.loads(body).get("content_parts", []) if body else []
        for part in parts:
            if part["url"] is not None:
                assert part["url"].startswith("data:audio/")
                self.sent += 1
                self._known.add(part["uuid"])
            elif part["uuid"] not in self._known:
                return self._said("cache miss")
        return self._said(key_of(method, path, body))

    def _said(self, key: str) -> Answer:
        status, answer = self._answers[key]
        return status, answer.encode()
