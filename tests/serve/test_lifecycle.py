"""Clients that vanish, crowds, and what is too large: nothing of them stays, and others get what they asked for."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import openai
import pytest
from openai import AsyncOpenAI

from tests.cloud.serving import remote_cloud
from tests.mini_pair import RATE, captioner, mini_pair, voice
from tests.serve.api import TOKEN, Api, api, encoded, message, spoken
from tests.tiers import few

MANY_PIECES = encoded(np.concatenate([part for n in range(40) for part in (voice(n, 1.2), np.zeros(4000, np.float32))]))
"""A recording that takes many seconds of work, as `audio.segment` 1.45 cuts it."""


@pytest.fixture(scope="module")
def served() -> Iterator[Api]:
    with api(room=2) as running:
        yield running


def begun(served: Api, *, stream: bool = True) -> socket.socket:
    """A connection whose request was sent."""
    body = {
        "model": "specdec/hybrid",
        "messages": message(MANY_PIECES),
        "stream": stream,
        "specdec": {"audio.segment": 1.45},
    }
    data = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    connection = socket.create_connection(("127.0.0.1", served.running.port), 30)
    connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return connection


def pieces_captioned(served: Api) -> float:
    return sum(
        sample.value
        for metric in served.offer.metrics.captions.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    )


@pytest.mark.parametrize("stream", few([True, False]))
@pytest.mark.parametrize("reset", few([True, False]))
def test_a_client_that_vanishes_frees_its_slot_at_once(served: Api, stream: bool, reset: bool) -> None:
    before = pieces_captioned(served)
    crowd = [begun(served, stream=stream) for _ in range(6)]  # two are captioned, and the others wait
    while pieces_captioned(served) < before + 2:
        time.sleep(0.01)
    for connection in crowd:
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    assert served.becomes_idle()
    assert pieces_captioned(served) < before + 40  # of 240
    answer = served.client().chat.completions.create(model="specdec/edge", messages=message(spoken(1)))  # type: ignore[arg-type]
    assert answer.choices[0].message.content


def test_clients_that_vanish_cost_the_others_nothing(served: Api) -> None:
    expected = captioner(prompt__language="en").run_samples(voice(3), RATE).finish().caption
    vanishing = [begun(served) for _ in range(4)]
    answers: list[str | None] = []

    def ask() -> None:
        found = served.client().chat.completions.create(model="specdec/hybrid", messages=message(spoken(3)))  # type: ignore[arg-type]
        answers.append(found.choices[0].message.content)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for connection in vanishing:
        connection.close()
    for thread in threads:
        thread.join(60)
    assert answers == [expected] * 4
    assert served.becomes_idle()


@pytest.mark.ci
def test_a_queue_has_a_bound() -> None:
    async def ask(client: AsyncOpenAI) -> openai.RateLimitError | None:
        try:
            await client.chat.completions.create(model="specdec/hybrid", messages=message(spoken(1)))  # type: ignore[arg-type]
        except openai.RateLimitError as refused:
            return refused
        return None

    async def crowd(url: str, retries: int) -> list[openai.RateLimitError | None]:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=retries) as client:
            return await asyncio.gather(*(ask(client) for _ in range(12)))

    with api(room=1, waiting=2) as few:
        answers = asyncio.run(crowd(few.url, 0))
        refused = [each for each in answers if each is not None]
        assert 1 <= len(refused) <= 9
        assert {(each.code, each.response.headers["Retry-After"]) for each in refused} == {("queue_full", "1")}
        assert few.becomes_idle()
        assert asyncio.run(crowd(few.url, 20)) == [None] * 12  # the client waits as it is told


def test_what_is_too_large_is_refused() -> None:
    with api(clip_s=2.0, body_bytes=400_000, text_tokens=64, caption_s=60.0) as strict:
        client = strict.client()
        with pytest.raises(openai.APIStatusError, match=r"The recording lasts longer than 2 s") as caught:
            client.chat.completions.create(model="specdec/edge", messages=message(spoken(1, 3.0)))  # type: ignore[arg-type]
        assert caught.value.status_code == 413
        with pytest.raises(openai.APIStatusError, match="400000 bytes") as caught:
            client.chat.completions.create(model="specdec/edge", messages=message(spoken(1, 20.0)))  # type: ignore[arg-type]
        assert caught.value.status_code == 413
        with pytest.raises(openai.BadRequestError, match="64"):
            client.chat.completions.create(
                model="specdec/edge",
                messages=message(spoken(1)),  # type: ignore[arg-type]
                extra_body={"specdec": {"decoding.max_new_tokens": 65}},
            )
        assert strict.becomes_idle()
    with api(caption_s=0.001) as hasty, pytest.raises(openai.InternalServerError, match="did not answer within"):
        hasty.client().chat.completions.create(model="specdec/edge", messages=message(spoken(1)))  # type: ignore[arg-type]


def test_a_prompt_beyond_the_context_is_refused(served: Api) -> None:
    with pytest.raises(openai.BadRequestError, match="may follow") as caught:
        served.client().chat.completions.create(
            model="specdec/edge",
            messages=message(spoken(1), text="loud " * 5000),  # type: ignore[arg-type]
            extra_body={"specdec": {"prompt.force": True}},
        )
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"model": NaN}', b"\xff", b"[" * 100_000, b'{"a":"\\ud800"}']
)
def test_malformed_bodies(served: Api, body: bytes) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", served.running.port, timeout=20)) as connection:
        connection.request("POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
    assert answer.status == 400
    assert found["error"]["type"] == "invalid_request_error"


def test_a_packed_body_is_refused_by_its_name(served: Api) -> None:
    head = {"Content-Encoding": "gzip"}
    with pytest.raises(openai.APIStatusError, match="a body in gzip is not unpacked") as caught:
        served.client().post("/chat/completions", body={}, options={"headers": head}, cast_to=object)
    assert caught.value.status_code == 415


@pytest.mark.ci
def test_a_remote_edge_is_served_beside_captions(served: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same engine: the rounds of its clip are those of a cloud of its own."""
    monkeypatch.setenv("API_TOKEN", TOKEN)
    pair = mini_pair()
    alone = captioner(decoding__mode="lossless", prompt__language="en")
    expected = alone.run_samples(voice(5), RATE).finish()
    answers: list[Any] = []

    def ask() -> None:
        for seed in range(3):
            answers.append(
                served.client().chat.completions.create(model="specdec/lossless", messages=message(spoken(seed)))
            )  # type: ignore[arg-type]

    thread = threading.Thread(target=ask)
    thread.start()
    with remote_cloud(served.url, pair.edge, token_env="API_TOKEN") as cloud:  # type: ignore[arg-type]
        from specdec_cli.captioner import Captioner
        from specdec_cli.decoding.assemble import Pair

        found = Captioner(alone.config, Pair.of(pair.edge, cloud)).run_samples(voice(5), RATE).finish()
    thread.join(60)
    assert [each.committed_ids for each in found.rounds] == [each.committed_ids for each in expected.rounds]
    assert len(answers) == 3


@pytest.mark.ci
def test_a_runner_of_evaluations_is_served(served: Api) -> None:
    """What lmms-eval's OpenAI-compatible model sends and reads: a data URL, text, a length beyond any caption."""
    data = f"data:audio/wav;base64,{spoken(6)}"
    parts = [{"type": "audio_url", "audio_url": {"url": data}}, {"type": "text", "text": "Describe the voice."}]
    payload: Any = {
        "messages": [{"role": "user", "content": parts}],
        "model": "specdec/lossless",
        "max_tokens": 4096,
        "temperature": 0,
    }

    async def ask() -> Any:
        async with AsyncOpenAI(base_url=f"{served.url}/v1", api_key=TOKEN, timeout=600) as client:
            return await asyncio.gather(*(client.chat.completions.create(**payload) for _ in range(8)))

    answers = asyncio.run(ask())
    expected = captioner(decoding__mode="lossless", prompt__language="en").run_samples(voice(6), RATE).finish()
    assert {each.choices[0].message.content for each in answers} == {expected.caption}
    assert all(each.usage.completion_tokens > 0 and each.choices[0].finish_reason == "stop" for each in answers)
