"""The verify server: what it answers, and what strangers and broken clients can do to it: nothing that lasts."""

from __future__ import annotations

import http.client
import json
import logging
import random
import select
import socket
import struct
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import save

from specdec_cli.cloud.http import MalformedError
from specdec_cli.cloud.protocol import (
    ROWS,
    BlockRequest,
    as_sent,
    unpack_rows,
)
from specdec_cli.decoding.block import Draft
from specdec_cli.models.session import Session
from tests.cloud.serving import Served, clip_message, linked, serving
from tests.laws.cases import Case, collect, make_case
from tests.laws.test_wire_law import assert_wire, far_loop

TOKEN = "a-token-of-these-tests"
BODY_BYTES = 400_000


@pytest.fixture(scope="module")
def case() -> Case:
    return make_case(90_000, mode="lossless", temperature=0.0, k=3, max_new_tokens=12, loop_period=0)


@pytest.fixture(scope="module")
def served(case: Case) -> Iterator[Served]:
    with serving(case.cloud, token=TOKEN, body_bytes=BODY_BYTES, sessions=8, body_s=0.5) as running:
        yield running


def call(
    served: Served, method: str, path: str, body: bytes | None = None, token: str | None = TOKEN
) -> tuple[int, bytes]:
    """Status and body of the answer to a request with any body."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def a_clip(served: Served, case: Case) -> tuple[dict[str, Any], bytes]:
    """A good clip as a plain dictionary, and its tensors."""
    asked = BlockRequest(text=[1, 2], draft=[3, 4, 5])
    clip, tensors = clip_message(served.service.info.identity, case, asked)
    return clip.model_dump(), save(tensors)


def framed(message: object, numbers: bytes = b"") -> bytes:
    text = json.dumps(message).encode()
    return len(text).to_bytes(4, "little") + text + numbers


def detail(answer: bytes) -> str:
    """Why a request was refused."""
    return str(json.loads(answer)["detail"])


def new_session() -> str:
    return f"/v1/sessions/{uuid.uuid4().hex}"


def honest_caption(served: Served, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caption over the wire, as right as ever."""
    monkeypatch.setenv("SPECDEC_TEST_TOKEN", TOKEN)
    with linked(served.url, case.edge, token_env="SPECDEC_TEST_TOKEN") as link:
        assert_wire(case, collect(far_loop(case, link).run()))


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1]])
def test_without_the_token_nothing_is_said(served: Served, token: str | None) -> None:
    for method, path in (
        ("GET", "/v1/info"),
        ("GET", "/metrics"),
        ("PUT", new_session()),
        ("POST", f"{new_session()}/verify"),
        ("DELETE", new_session()),
    ):
        status, body = call(served, method, path, b"x" if method in ("PUT", "POST") else None, token)
        assert (status, detail(body)) == (401, "the token is missing or wrong")
    assert call(served, "GET", "/healthz", token=None) == (200, b'{"status":"ok"}')


def test_bodies_are_bounded(served: Served) -> None:
    status, body = call(served, "PUT", new_session(), b"\0" * (BODY_BYTES + 1))
    assert (status, "a body may have" in detail(body)) == (413, True)
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:  # no length announced
        head = f"PUT {new_session()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        sent = 0
        answer = b""
        try:
            while sent < 50 * BODY_BYTES:
                raw.sendall(b"10000\r\n" + b"\0" * 0x10000 + b"\r\n")
                sent += 0x10000
            answer = raw.recv(4096)
        except OSError:
            answer = b"closed"
    assert answer
    assert sent < 50 * BODY_BYTES or b"413" in answer


def test_slow_bodies_are_cut_off(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
        head = f"PUT {new_session()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        raw.sendall(f"{head}Content-Length: 1000\r\n\r\nslow".encode())
        assert b" 408 " in raw.recv(4096)


def test_what_is_not_a_clip_is_refused(served: Served, case: Case) -> None:
    good, features = a_clip(served, case)
    assert call(served, "PUT", new_session(), framed(good, features))[0] == 200
    placeholder = case.cloud.processor.placeholder_id
    audio = as_sent(case.cloud_prompt.audio)
    mel, mask = audio["input_features"], audio["feature_attention_mask"]

    def with_mel(values: torch.Tensor) -> bytes:
        return framed(good, save({"input_features": values, "feature_attention_mask": mask}))

    def header(tensors: dict[str, dict[str, Any]]) -> bytes:
        text = json.dumps({name: about | {"data_offsets": [0, 0]} for name, about in tensors.items()}).encode()
        return struct.pack("<Q", len(text)) + text

    wrong: list[tuple[int, bytes]] = [
        (422, b""),
        (422, b"\xff\xff\xff\xff{}"),
        (422, framed(good, features[:-2])),
        (422, with_mel(mel * torch.nan)),
        (422, with_mel(mel.to(torch.complex64))),
        (409, framed(good | {"identity": "another"}, features)),
        (422, with_mel(torch.cat([mel, mel[:, :1]], dim=1))),
        (422, framed(good, save({"input_features": mel}))),
        (422, framed(good, save(audio | {"input_features_2": mel.clone()}))),
        (422, with_mel(mel.float() * 1e38)),
        (422, with_mel(mel[:, :, :-8].contiguous())),  # too few for its ids: the model says so
        (422, framed(good, save({"input_features": mel, "feature_attention_mask": mask * 7}))),
        (422, framed(good, header({f"t{n}": {"dtype": "U8", "shape": [0]} for n in range(400)}))),
        (422, framed(good, struct.pack("<Q", 1 << 40) + b"{}")),
        (413, framed(good | {"samples": 10**9}, features)),
        (413, framed(good | {"capacity": 10**6}, features)),
        (422, framed(good | {"capacity": 3}, features)),
        (422, framed(good | {"vocab_size": 10**6}, features)),
        (422, framed(good | {"prompt_ids": [*good["prompt_ids"][1:], placeholder]}, features)),
        (422, framed(good | {"prompt_ids": [7]}, features)),
        (422, framed(good | {"prompt_ids": [10**6, *good["prompt_ids"]]}, features)),
        (422, framed(good | {"stop_ids": [1, 10**5]}, features)),
        (422, framed(good | {"scoring": {"temperature": float("nan")}}, features)),
        (422, framed(good | {"block": {"text": [placeholder], "draft": []}}, features)),
        (422, framed(good | {"block": {"text": [], "draft": [10**5]}}, features)),
        (422, framed(good | {"block": {"text": [1] * 100, "draft": []}}, features)),
        (422, framed(good | {"block": {"text": [], "draft": [], "more": 10**5}}, features)),
        (422, framed(good | {"block": {"text": [], "draft": [1], "rows": [5]}}, features)),
        (422, b"\x04\0\0\0" + b"[[[["),
        (422, (BODY_BYTES - 10).to_bytes(4, "little") + b"[" * (BODY_BYTES - 10)),
    ]
    for expected, body in wrong:
        status, answer = call(served, "PUT", new_session(), body)
        assert status == expected, (body[:80], answer)
        assert detail(answer)
    assert call(served, "PUT", "/v1/sessions/short", framed(good, features))[0] == 404
    assert call(served, "POST", f"{new_session()}/verify", framed({"text": [], "draft": []}))[0] == 404
    assert call(served, "GET", "/v1/other")[0] == 404
    assert call(served, "DELETE", new_session())[0] == 204


def _fuzzed(rng: random.Random, good: bytes) -> bytes:
    """A good body with something wrong with it, or no body at all."""
    kind, changed = rng.randrange(5), bytearray(good)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return good[: rng.randrange(len(good))]
    if kind == 2:  # in the JSON, most of the time
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(min(len(changed), 900))] = rng.randrange(256)
    elif kind == 3:
        at = rng.randrange(len(changed))
        changed[at:at] = rng.randbytes(rng.randrange(1, 50))
    else:
        changed[:4] = rng.randrange(1 << 32).to_bytes(4, "little")
    return bytes(changed)


def _fuzz(served: Served, case: Case, count: int) -> Counter[int]:
    """Status -> how often, of so many broken requests."""
    good, features = a_clip(served, case)
    clip, question = framed(good, features), framed({"text": [1, 2], "draft": [3, 4, 5]})
    session = new_session()
    assert call(served, "PUT", session, clip)[0] == 200
    found: Counter[int] = Counter()
    for number in range(count):
        rng = random.Random(number)
        if rng.random() < 0.5:
            method, path, body = "PUT", new_session(), _fuzzed(rng, clip)
        else:
            method, path, body = "POST", f"{session}/verify", _fuzzed(rng, question)
        status, answer = call(served, method, path, body)
        found[status] += 1
        if status != 200:
            assert len(detail(answer)) < 500
    return found


@pytest.mark.parametrize("count", [500, pytest.param(5000, marks=pytest.mark.full)])
def test_broken_bodies(served: Served, case: Case, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _fuzz(served, case, 200)  # what grows once has grown
    before = psutil.Process().memory_info().rss
    found = _fuzz(served, case, count)
    grown = psutil.Process().memory_info().rss - before
    assert set(found) <= {200, 404, 409, 413, 422}, found
    assert found[422] > count * 0.4, found
    assert len(served.service.clips) <= served.service.limits.sessions
    assert grown < 40 << 20, f"{grown >> 20} MiB more"
    honest_caption(served, case, monkeypatch)


def test_memory_is_a_budget(case: Case) -> None:
    with serving(case.cloud) as served:
        clip, features = a_clip(served, case)
        assert call(served, "PUT", new_session(), framed(clip, features))[0] == 200
        one = served.service.clips.bytes
    with serving(case.cloud, memory_bytes=5 * one) as served:
        for _ in range(12):
            assert call(served, "PUT", new_session(), framed(clip, features))[0] == 200
            assert served.service.clips.bytes <= 5 * one
        assert len(served.service.clips) == 5


def test_idle_clips_are_forgotten(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdec_cli.serve.endpoints._SWEEP_S", 0.05)
    with serving(case.cloud, idle_s=0.2) as served:
        clip, features = a_clip(served, case)
        session = new_session()
        assert call(served, "PUT", session, framed(clip, features))[0] == 200
        deadline = time.monotonic() + 20
        while len(served.service.clips) and time.monotonic() < deadline:
            time.sleep(0.1)
        status, body = call(served, "POST", f"{session}/verify", framed({"text": [], "draft": []}))
        assert (status, "or no longer" in detail(body)) == (404, True)


def test_logs_and_metrics_hold_nothing_of_a_clip(
    served: Served, case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    known = {"route", "status", "ms", "client", "error", "url", "model", "token"}
    with caplog.at_level(logging.DEBUG, "specdec_cli.serve"):
        honest_caption(served, case, monkeypatch)
    logged = [record for record in caplog.records if record.name == "specdec_cli.serve"]
    assert logged
    for record in logged:
        fields: dict[str, object] = getattr(record, "fields", {})
        assert set(fields) <= known
        assert not any(isinstance(value, (list, tuple, dict)) for value in fields.values())
    for number in range(50):  # counters do not grow with what clients make up
        call(served, f"M{number}" + "X" * 4000, "/healthz")
        call(served, "GET", f"/made/up/{number}")
    text = call(served, "GET", "/metrics")[1].decode()
    assert len(text) < 20_000
    assert "specdec_drafted_tokens_total" in text
    assert TOKEN not in text
    assert "/v1/sessions/{id_}/verify" in text  # routes, not names of clips


@contextmanager
def connections(served: Served, count: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many open connections, each with the first bytes of a request."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=10)))
            opened[-1].sendall(first)
        yield opened


def test_bodies_in_flight_are_a_budget(case: Case) -> None:
    size = 100_000
    with serving(case.cloud, bodies_bytes=3 * size, body_bytes=2 * size, body_s=20.0) as served:
        head = f"PUT {new_session()} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
        with connections(served, 4, head + b"\0" * (size - 1)) as opened:  # a byte is missing of each
            assert select.select(opened, [], [], 20.0)[0]
            time.sleep(0.2)  # would another one be refused, too?
            answers = [connection.recv(4096) for connection in select.select(opened, [], [], 0)[0]]
            assert [b" 503 " in answer for answer in answers] == [True]
            good, numbers = a_clip(served, case)
            status, answer = call(served, "PUT", new_session(), framed(good, numbers))
        assert (status, "as many bodies" in detail(answer)) == (503, True)
        until = time.monotonic() + 10
        while status != 200 and time.monotonic() < until:
            status, _ = call(served, "PUT", new_session(), framed(good, numbers))
        assert status == 200  # the others have gone, and their bytes with them


def distribution(*probabilities: float, places: tuple[int, ...] = (1, 2)) -> dict[str, torch.Tensor]:
    """Of two tokens."""
    return dict(zip(ROWS, (torch.tensor(places, dtype=torch.int32), torch.tensor(probabilities)), strict=True))


@pytest.mark.parametrize("change", [[0.5, 0.6], [-0.5, 1.5], [float("nan"), 1.0], [0.0, 1.0]])
def test_what_is_no_distribution_is_refused(change: list[float]) -> None:
    good = distribution(0.5, 0.5)
    assert unpack_rows(good, [1], 10)[0, 1] == 0.5
    for wrong in (distribution(*change), distribution(0.5, 0.5, places=(1, 10)), distribution(0.5, 0.5, places=(1,))):
        with pytest.raises(MalformedError):
            unpack_rows(wrong, [1], 10)
    for draft, vocab_size in (([1], 2), ([3], 10), ([1, 1], 10)):
        with pytest.raises(MalformedError):
            unpack_rows(good, draft, vocab_size)


def test_what_is_being_answered_is_answered_before_the_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(91_000, mode="lossless", temperature=0.0)
    served = Served(case.cloud)
    reached, go_on = threading.Event(), threading.Event()
    logits = Session.logits

    def held_up(session: Session, *arguments: Any) -> torch.Tensor:
        reached.set()
        go_on.wait(20)
        return logits(session, *arguments)

    found = []
    with linked(served.url, case.edge) as link:
        verifier = link.verifier(
            link, case.cloud_prompt, case.config, case.pair.vocab_size, case.cloud.processor.eos_ids
        )
        monkeypatch.setattr(Session, "logits", held_up)
        asking = threading.Thread(target=lambda: found.append(verifier.verify((), Draft((5, 6)))))
        asking.start()
        assert reached.wait(60)
        ending = threading.Thread(target=served.stop)
        ending.start()
        threading.Event().wait(0.3)
        assert not found
        go_on.set()
        asking.join(60)
        ending.join(60)
    assert not ending.is_alive()
    assert found[0].network_ms is not None
