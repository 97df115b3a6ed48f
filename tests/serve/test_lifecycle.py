"""Clients that vanish, crowds, and what is too large: nothing of them stays, and others get what they asked for."""

import asyncio
import gc
import http.client
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from openai import AsyncOpenAI

import specdec_cli.serve
from specdec_cli.captioner import Captioner
from specdec_cli.decoding.pair import Pair
from specdec_cli.models.session import Session
from specdec_cli.serve.app import Offer
from specdec_cli.serve.limits import ServeLimits
from tests.mini_pair import RATE, captioner, mini_pair, voice
from tests.serve.messages import ask, encoded, message, spoken, text_of
from tests.support.machine import growing_less_than
from tests.support.servers import TOKEN, Running, captioning, held_up, remote_cloud
from tests.tiers import few
from tests.waiting import until

MANY_PIECES = encoded(np.concatenate([part for n in range(40) for part in (voice(n, 1.2), np.zeros(4000, np.float32))]))
"""A recording that takes many seconds of work, as `audio.segment` 1.45 cuts it."""


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with captioning(room=2) as running:
        yield running


def begun(served: Running, *, stream: bool = True, **more: Any) -> socket.socket:
    """A connection whose request was sent."""
    body = {
        "model": "specdec/hybrid",
        "messages": message(MANY_PIECES),
        "stream": stream,
        "specdec": {"audio.segment": 1.45},
        **more,
    }
    data = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    connection = socket.create_connection(("127.0.0.1", served.port), 120)
    connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return connection


def pieces_captioned(served: Running) -> float:
    return sum(
        sample.value
        for metric in served.offer.metrics.captions.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    )


@pytest.mark.parametrize("stream", few([True, False]))
@pytest.mark.parametrize("reset", few([True, False]))
def test_a_client_that_vanishes_frees_its_slot_at_once(served, stream, reset):
    before = pieces_captioned(served)
    crowd = [begun(served, stream=stream) for _ in range(6)]  # two are captioned, and the others wait
    assert until(lambda: pieces_captioned(served) >= before + 2)
    for connection in crowd:
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    assert served.becomes_idle()
    assert pieces_captioned(served) < before + 40  # of 240
    assert text_of(ask(served.client(), spoken(1), "edge"))


def test_what_a_client_that_vanished_has_left_goes_without_the_garbage_collector(served):
    """That searches rarely: in an error's frames a recording and the caches of its clip would wait for it for long."""

    def sessions() -> int:
        return sum(issubclass(type(each), Session) for each in gc.get_objects())  # others may say what class they have

    gc.collect()
    gc.disable()
    try:
        before, captioned = sessions(), pieces_captioned(served)
        crowd = [begun(served, stream=stream) for stream in (True, False)]
        assert until(lambda: pieces_captioned(served) >= captioned + 2)
        for connection in crowd:
            connection.close()
        assert served.becomes_idle()
        assert until(lambda: sessions() <= before)
    finally:
        gc.enable()


def test_clients_that_vanish_cost_the_others_nothing(served):
    expected = captioner(prompt__language="en").run_samples(voice(3), RATE).finish().caption
    vanishing = [begun(served) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(ask, served.client(), spoken(3)) for _ in range(4)]
        for connection in vanishing:
            connection.close()
    assert [text_of(answer.result()) for answer in answers] == [expected] * 4
    assert served.becomes_idle()


@pytest.mark.slow
def test_a_queue_has_a_bound():
    async def crowd(url: str, retries: int, go_on: threading.Event) -> list[Any]:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=retries) as client:
            asking = [asyncio.create_task(ask(client, spoken(1))) for _ in range(12)]
            while not go_on.is_set():
                await asyncio.sleep(0.01)
                if sum(map(asyncio.Task.done, asking)) == 9:  # one is captioned, and two wait
                    go_on.set()
            return await asyncio.gather(*asking, return_exceptions=True)

    with captioning(room=1, waiting=2) as small, held_up() as (_, go_on):
        answers = asyncio.run(crowd(small.url, 0, go_on))
        refused = [each for each in answers if isinstance(each, openai.RateLimitError)]
        assert len(refused) == 9
        assert {(each.code, each.response.headers["Retry-After"]) for each in refused} == {("queue_full", "1")}
        assert small.becomes_idle()
        assert all(map(text_of, asyncio.run(crowd(small.url, 600, go_on))))  # the client waits as it is told


def test_what_is_too_large_is_refused():
    with captioning(clip_s=2.0, body_bytes=400_000, text_tokens=64) as strict:
        client = strict.client()
        for seconds, says in ((3.0, r"The recording lasts longer than 2 s"), (20.0, "400000 bytes")):
            with pytest.raises(openai.APIStatusError, match=says) as caught:
                ask(client, spoken(1, seconds), "edge")
            assert caught.value.status_code == 413
        with pytest.raises(openai.BadRequestError, match="64"):
            ask(client, spoken(1), "edge", extra_body={"specdec": {"decoding.max_new_tokens": 65}})
        assert strict.becomes_idle()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"model": NaN}', b"\xff", b"[" * 100_000, b'{"a":"\\ud800"}']
)
def test_malformed_bodies(served, body):
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)) as connection:
        connection.request("POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
    assert answer.status == 400
    assert found["error"]["type"] == "invalid_request_error"


def assert_costs_little(served: Running, path: str, body: bytes, most: int) -> None:
    """A wrong body is refused within two seconds of CPU time, and with at most so many bytes of memory."""
    started = time.process_time()
    with (
        growing_less_than(most),
        closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)) as connection,
    ):
        connection.request("POST", path, body, {"Authorization": f"Bearer {TOKEN}"})
        assert connection.getresponse().status == 400
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize("wrong", ['"messages":[{"role":"user","content":[', '"modalities":[', "["])
def test_a_wrong_body_costs_no_more_than_its_size(served, wrong):
    body = ('{"model":"specdec/edge",' + wrong + "[]," * (8 << 20)).encode()[: 16 << 20]
    assert_costs_little(served, "/v1/chat/completions", body, 200 << 20)


@pytest.mark.parametrize("wrong", [b'{"flags":[' + b"[]," * (1 << 20), b"\n" * (3 << 20), b"\r" * (3 << 20)])
def test_wrong_transcripts_to_export_cost_no_more_than_their_size(served, wrong):
    assert_costs_little(served, "/page/export/srt", wrong, 100 << 20)


def test_a_packed_body_is_refused_by_its_name(served):
    head = {"Content-Encoding": "gzip"}
    with pytest.raises(openai.APIStatusError, match="a body in gzip is not unpacked") as caught:
        served.client().post("/chat/completions", body={}, options={"headers": head}, cast_to=object)
    assert caught.value.status_code == 415


@pytest.mark.slow
def test_a_stream_that_is_not_read_ends_and_frees_its_place():
    with captioning(room=1, unread_s=0.3) as served:
        served._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # of connections to come
        before = pieces_captioned(served)
        with begun(served, model="specdec/edge", logprobs=True, top_logprobs=20) as connection:
            assert until(lambda: pieces_captioned(served) > before)
            assert served.becomes_idle()
            assert pieces_captioned(served) < before + 40
            assert b"[DONE]" not in told(connection)


def test_connections_have_a_bound():
    with Running(Offer(ServeLimits(connections=3))) as served:
        with socket.create_connection(("127.0.0.1", served.port)), socket.create_connection(("127.0.0.1", served.port)):
            assert until(lambda: httpx.get(f"{served.url}/healthz").status_code == 503)
        assert until(lambda: httpx.get(f"{served.url}/healthz").status_code == 200)


def test_the_pages_have_the_limits_of_the_server():
    limits, page = ServeLimits(), Path(__file__).parents[2] / "docs" / "api.md"
    body, bodies = (f"{size >> 20} MiB" for size in (limits.body_bytes, limits.bodies_bytes))
    said = {
        page: (f"({limits.body_s:g} s)", f"({body})", f"{limits.waiting} recordings are waiting"),
        Path(specdec_cli.serve.__file__).with_name("THREAT_MODEL.md"): (
            f"({bodies} in all", f"at most {limits.connections} connections", f"a body may take {limits.body_s:g} s",
            f"not read ends after {limits.unread_s:g} s", f"{limits.waiting} recordings wait at most",
            f"a text has {limits.text_tokens} tokens",
        ),
    }  # fmt: skip
    missing = [text for path, texts in said.items() for text in texts if text not in path.read_text("utf-8")]
    assert missing == []


def told(connection: socket.socket) -> bytes:
    """All that a connection is told until it is closed."""
    with connection:
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_the_end_is_told_to_every_request():
    """With a status before the answer has begun, and in the last event of a stream."""
    with captioning(room=1, end_s=1) as ending, ThreadPoolExecutor(4) as pool:
        asked = [begun(ending, stream=stream) for stream in (True, True, False)]
        assert asked[0].recv(1, socket.MSG_PEEK)
        assert until(lambda: ending.offer.captions.under_way == 3)
        asked.append(socket.create_connection(("127.0.0.1", ending.port), 120))
        asked[3].sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ")
        asked[3].sendall(f"{TOKEN}\r\nContent-Length: 1000\r\n\r\nhalf".encode())
        ending.client().models.list()  # by then the server has read what came before
        answers = [pool.submit(told, each) for each in asked]
        ending.stop()
        streamed, *others = (answer.result().decode() for answer in answers)
    *events, error = [line for line in streamed.splitlines() if line.startswith("data: ")]
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == "shutting_down"
    assert any('"block"' in event for event in events)
    for answer in others:
        assert re.match(r"HTTP/1.1 (503 .*|200 OK(?s:.*)data: .*)\{\"error\": ?\{.*shutting_down", answer, re.S), answer


def test_a_stream_has_a_comment_while_its_recording_waits(monkeypatch):
    monkeypatch.setattr("specdec_cli.serve.chat._COMMENT_S", 0.05)
    with (
        captioning(room=1) as served,
        held_up() as (_, go_on),
        begun(served) as connection,
        connection.makefile("rb") as lines,
    ):
        said = [next(lines) for _ in range(9)]
        assert b"x-accel-buffering: no\r\n" in said
        assert b": the recording waits\n" in [*said, *(next(lines) for _ in range(4))]
        go_on.set()
        assert any(line.startswith(b"data: ") for line in lines)


def test_pages_of_named_origins_may_use_the_server():
    origin = "https://app.example.org"
    with captioning(origins=frozenset({origin})) as served, httpx.Client(base_url=served.url) as browser:
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        for site, status in ((origin, 200), ("https://other.example.org", 400)):
            preflight = browser.options("/v1/chat/completions", headers={"Origin": site, **asked})
            assert preflight.status_code == status
            allowed = preflight.headers.get("access-control-allow-origin")
            assert (allowed == site) == (status == 200)
        refused = browser.get("/v1/models", headers={"Origin": origin})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, origin)


@pytest.mark.slow
def test_a_remote_edge_is_served_beside_captions(served, monkeypatch):
    """With the same engine: the rounds of its clip are those of a cloud of its own."""
    monkeypatch.setenv("API_TOKEN", TOKEN)
    pair = mini_pair()
    local = captioner(decoding__mode="lossless", prompt__language="en")
    expected = local.run_samples(voice(5), RATE).finish()
    with ThreadPoolExecutor(1) as pool:
        answers = [pool.submit(ask, served.client(), spoken(seed), "lossless") for seed in range(3)]
        with remote_cloud(served.url, pair.edge, token_env="API_TOKEN") as cloud:
            found = Captioner(local.config, Pair.of(pair.edge, cloud)).run_samples(voice(5), RATE).finish()
    assert [each.committed_ids for each in found.rounds] == [each.committed_ids for each in expected.rounds]
    assert all(text_of(answer.result()) for answer in answers)
