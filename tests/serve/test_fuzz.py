"""Requests that are made from the server's own OpenAPI document, or are good but for a change: none makes it fail.

SPECDEC_FUZZ_S is how long each test goes on, seconds. They print how often there was each status, the longest time of
an answer, and the longest that another client waited meanwhile.
"""

import base64
import copy
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

from tests.mini_pair import voice
from tests.serve.messages import encoded
from tests.support.servers import TOKEN, captioning

SECONDS = float(os.environ.get("SPECDEC_FUZZ_S", "10"))
SOUND = encoded(voice(1, 0.4))
SETTINGS: tuple[dict[str, Any], ...] = (
    {"decoding.k": "auto", "language": "zh"},
    {"gate.name": "entropy", "gate.threshold": 0.0},
    {"decoding.k": "whole", "audio.segment": "pauses"},
    {"decoding.top_k": 10**9, "decoding.acceptance": "typical", "decoding.temperature": 1e-9},
    {"decoding.no_repeat_ngram": 1, "decoding.repetition_penalty": 100, "decoding.loop_period": 64},
    {"audio.start_s": "00:01", "audio.channel": "each"},
    {"decoding.min_new_tokens": 10**30},
)


def _with_sound(value: Any) -> Any:
    """The same, with a recording in place of every text that stands for one."""
    if isinstance(value, dict):
        url = f"data:audio/wav;base64,{SOUND}"
        put = {"data": SOUND, "url": url}
        return {name: put.get(name, _with_sound(part)) for name, part in value.items()}
    return [_with_sound(part) for part in value] if isinstance(value, list) else value


ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**30,
    1e-300,
    "",
    "\0",
    "\ud800",
    "9" * 400,
    "x" * 70_000,
    [],
    {},
    [[]],
    [{}],
)
CHAT, EXPORT = "/v1/chat/completions", "/page/export/srt"


class Asker:
    """A client of a server, and what came of its requests."""

    def __init__(self, url: str) -> None:
        self.client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=600)
        self.statuses, self.longest_s = Counter[int](), 0.0

    def post(self, path: str, **content: Any) -> httpx.Response:
        """The answer to a request, which is not the server's failure."""
        began = time.monotonic()
        answer = self.client.post(path, **content)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        self.statuses[answer.status_code] += 1
        assert answer.status_code < 500, (content, answer.text)
        return answer


@contextmanager
def fuzzed() -> Iterator[Asker]:
    """A client of a server that answers another client meanwhile, and has nothing left of any request at the end."""
    over, waits = threading.Event(), [0.0]

    def ask(url: str) -> None:
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=600) as other:
            while not over.wait(0.1):
                began = time.monotonic()
                assert other.get("/v1/models").status_code == 200
                waits.append(time.monotonic() - began)

    with captioning(room=8) as served:
        asker, beside = Asker(served.url), threading.Thread(target=ask, args=(served.url,))
        beside.start()
        try:
            yield asker
            assert served.becomes_idle()
        finally:
            over.set()
            beside.join()
            asker.client.close()
    print(f"{dict(asker.statuses)}, an answer took {asker.longest_s:.2f} s at most, beside it {max(waits):.2f} s")
    assert len(waits) > 1
    assert asker.statuses[200] > 0
    assert asker.statuses[400] > 0


@pytest.mark.slow
def test_no_request_of_the_document_makes_the_server_fail():
    schemathesis = pytest.importorskip("schemathesis")
    import hypothesis
    from hypothesis import strategies as st
    from schemathesis import GenerationMode
    from schemathesis.core import NOT_SET
    from schemathesis.core.errors import InvalidSchema

    with fuzzed() as asker:
        schema = schemathesis.openapi.from_dict(asker.client.get("/openapi.json").json())
        modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
        chat = schema[CHAT]["POST"]
        strategy = st.one_of(*(chat.as_strategy(generation_mode=mode) for mode in modes))

        rules = hypothesis.settings(
            max_examples=100,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )

        @rules
        @hypothesis.given(case=strategy, choices=st.tuples(st.booleans(), st.booleans(), st.sampled_from(SETTINGS)))
        def ask(case: Any, choices: tuple[bool, bool, dict[str, Any]]) -> None:
            heard, set_, settings = choices
            body = case.body
            if heard and isinstance(body, dict):
                part = {"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}}
                asked = {"model": "specdec/hybrid", "messages": [{"role": "user", "content": [part]}], "max_tokens": 12}
                body = _with_sound(asked | {name: body[name] for name in body if name not in ("model", "messages")})
                body |= {"specdec": settings} if set_ else {}
            sent: Any = {} if body is NOT_SET else {"content": body} if isinstance(body, bytes) else {"json": body}
            answer = asker.post(CHAT, **sent)
            if answer.headers["content-type"] == "application/json":
                chat.validate_response(answer)

        ends, seed = time.monotonic() + SECONDS, 0
        while time.monotonic() < ends:
            # now and then schemathesis makes a wrong schema of the document's which nothing fits, and stops there
            with suppress(InvalidSchema):
                hypothesis.seed(seed)(ask)()
            seed += 1


def _mutated(rng: random.Random, good: Any) -> bytes:
    """A request with a change in its recording, in a value, or in its bytes."""
    kind, changed = rng.choice(["sound", "value", "value", "bytes"]), copy.deepcopy(good)
    if kind == "value":
        _change(rng, changed)
    places = [] if kind != "sound" else [part for part in _nodes(changed) if isinstance(part, dict) and "data" in part]
    for place in places:
        place["data"] = base64.b64encode(_torn(rng, base64.b64decode(place["data"]))).decode()
    content = json.dumps(changed).encode()
    return _torn(rng, content) if kind == "bytes" else content


def _change(rng: random.Random, value: Any) -> None:
    """Puts something odd in the place of a value, takes it away, or has it twice."""
    holder = rng.choice([node for node in _nodes(value) if node])
    key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    how = rng.randrange(4)
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(holder, list):
        holder *= rng.randrange(2, 40)  # each may be a recording
    else:
        holder[key] = copy.deepcopy(rng.choice(ODD))


def _nodes(value: Any) -> list[Any]:
    """The objects and lists within a value, itself first."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [] if parts is None else [value, *(node for part in parts for node in _nodes(part))]


def _torn(rng: random.Random, data: bytes) -> bytes:
    """Bytes of which some are other ones, or missing, or there twice."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at, how = rng.randrange(len(changed)), rng.randrange(3)
        end = at + rng.randrange(1, 40)
        changed[at:end] = (rng.randbytes(end - at), b"", changed[at:end] * 2)[how]
        if not changed:
            break
    return bytes(changed)


def _asked(format_: str, **more: Any) -> dict[str, Any]:
    """A good request."""
    subtype = "OPUS" if format_ == "ogg" else None
    sound = SOUND if format_ == "wav" else encoded(voice(1, 0.4), format_.upper(), subtype)
    part = {"type": "input_audio", "input_audio": {"data": sound, "format": format_}}
    messages = [{"role": "system", "content": "Listen."}, {"role": "user", "content": [part]}]
    return {"model": "specdec/hybrid", "messages": messages, "max_tokens": 12, **more}


@pytest.mark.slow
def test_no_change_of_a_good_request_makes_the_server_fail():
    object_ = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"properties": {"caption": {}}}}}
    good = [
        _asked("wav", stream=True, stream_options={"include_usage": True}, tools=[], logit_bias={}),
        _asked("flac", logprobs=True, top_logprobs=3, stop=["."], seed=1, temperature=0.5),
        _asked("ogg", response_format=object_, n=1),
        *(_asked("mp3", specdec=dict(settings)) for settings in SETTINGS),
    ]
    with fuzzed() as asker:
        written = asker.post(CHAT, json=_asked("wav")).json()["specdec"]["pieces"]
        line = {**written[0], "rounds": []}
        assert asker.post(EXPORT, json=line).status_code == 200
        ends, seed = time.monotonic() + SECONDS, 0
        while time.monotonic() < ends:
            rng = random.Random(seed)
            if rng.randrange(5):
                asker.post(CHAT, content=_mutated(rng, rng.choice(good)))
            else:
                asker.post(EXPORT, content=_mutated(rng, line))
            seed += 1
