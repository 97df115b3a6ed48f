"""The verify server: what it answers, and what strangers and broken clients can do to it: nothing that lasts."""

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

import pytest
import torch
from safetensors.torch import save

from specdec_cli.cloud.http import MalformedError
from specdec_cli.cloud.protocol import DISTRIBUTIONS, BlockRequest, ClipRequest, as_sent, unpack_distributions
from specdec_cli.decoding.block import Draft
from specdec_cli.decoding.remote import RemoteClip
from specdec_cli.errors import DecodingError
from specdec_cli.models.session import Session
from specdec_cli.models.slots import SlotLayer
from specdec_cli.serve import verification
from specdec_cli.serve.bodies import in_thread
from tests.cli.harness import Fork
from tests.laws.cases import Case, collect, make_case
from tests.laws.test_wire_law import assert_wire, far_loop
from tests.support.machine import growing_less_than
from tests.support.servers import TOKEN, Running, held_up, remote_cloud, verifying
from tests.tiers import few
from tests.waiting import until

BODY_BYTES = 400_000


@pytest.fixture(scope="module")
def case() -> Case:
    return make_case(90_000, mode="lossless", temperature=0.0, k=3, max_new_tokens=12, loop_period=0)


@pytest.fixture(scope="module")
def served(case) -> Iterator[Running]:
    with verifying(case.cloud, token=TOKEN, body_bytes=BODY_BYTES, sessions=8) as running:
        yield running


def call(
    served: Running, method: str, path: str, body: bytes | None = None, token: str | None = TOKEN
) -> tuple[int, bytes]:
    """Status and body of the answer to a request with any body."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def a_clip(served: Running, case: Case) -> tuple[dict[str, Any], bytes]:
    """A good clip as a plain dictionary, and its tensors."""
    assert case.cloud_prompt.waveform is not None
    clip = ClipRequest(
        identity=served.service.info.identity, prompt_ids=list(case.cloud_prompt.ids),
        samples=len(case.cloud_prompt.waveform), capacity=30, longest=30, vocab_size=case.pair.vocab_size,
        stop_ids=list(case.cloud.processor.eos_ids), scoring=case.config.decoding.scoring(),
        acceptance=case.config.decoding.rules, block=BlockRequest(text=[1, 2], draft=[3, 4, 5]),
    )  # fmt: skip
    return clip.model_dump(), save(as_sent(case.cloud_prompt.audio))


def framed(message: object, numbers: bytes = b"") -> bytes:
    text = json.dumps(message).encode()
    return len(text).to_bytes(4, "little") + text + numbers


def detail(answer: bytes) -> str:
    """Why a request was refused."""
    return str(json.loads(answer)["error"]["message"])


def new_session() -> str:
    return f"/v1/sessions/{uuid.uuid4().hex}"


def honest_caption(served: Running, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caption over the wire, as right as ever."""
    monkeypatch.setenv("SPECDEC_TEST_TOKEN", TOKEN)
    with remote_cloud(served.url, case.edge, token_env="SPECDEC_TEST_TOKEN") as link:
        assert_wire(case, collect(far_loop(case, link).events()))


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1]])
def test_without_the_token_nothing_is_said(served, token):
    for method, path in (
        ("GET", "/v1/info"),
        ("GET", "/metrics"),
        ("PUT", new_session()),
        ("POST", f"{new_session()}/verify"),
        ("DELETE", new_session()),
    ):
        status, body = call(served, method, path, b"x" if method in ("PUT", "POST") else None, token)
        assert (status, detail(body)) == (401, "the access token is missing or wrong")
    assert call(served, "GET", "/healthz", token=None) == (200, b'{"status":"ok"}')


def test_bodies_are_bounded(served):
    status, body = call(served, "PUT", new_session(), b"\0" * (BODY_BYTES + 1))
    assert (status, "a body may have" in detail(body)) == (413, True)
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:  # no length announced
        head = f"PUT {new_session()} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
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


@pytest.mark.slow
def test_slow_bodies_are_cut_off(case):
    head = f"PUT {new_session()} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nslow".encode()
    with verifying(case.cloud, body_s=0.5) as served, connections(served, 1, head) as (connection,):
        assert b" 408 " in connection.recv(4096)


def test_what_is_not_a_clip_is_refused(served, case):
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
        *((422, with_mel(mel.to(torch.int32).to(kind))) for kind in (torch.uint16, torch.uint32, torch.uint64)),
        (422, with_mel(mel.float().to(torch.float8_e5m2))),
        (422, with_mel(mel.to(torch.uint8))),
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
        (422, framed(good | {"block": {"text": [], "draft": [], "run_on": 10**5}}, features)),
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


def _fuzz(served: Running, case: Case, count: int) -> Counter[int]:
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


@pytest.mark.parametrize("count", few([100, 5000]))
def test_broken_bodies(served, case, count, monkeypatch):
    found = _fuzz(served, case, count)
    assert set(found) <= {200, 404, 409, 413, 422}, found
    assert found[422] > count * 0.4, found
    assert len(served.service.clips) <= served.service.limits.sessions
    honest_caption(served, case, monkeypatch)


def broken_bodies_leave_nothing() -> None:
    case = make_case(90_000, mode="lossless", temperature=0.0)
    with verifying(case.cloud, token=TOKEN, body_bytes=BODY_BYTES, sessions=8) as served:
        _fuzz(served, case, 200)  # what grows once has grown
        with growing_less_than(40 << 20):
            _fuzz(served, case, 5000)


def wrong_json_costs_little() -> None:
    """Of a list the first wrong item is one too many: errors of all of them take a hundred times the text."""
    size, case = (1 << 20) - 200, make_case(90_000, mode="lossless", temperature=0.0)
    with verifying(case.cloud, token=TOKEN) as served:
        good, features = a_clip(served, case)
        good |= {"block": None}
        wrong = [framed({"text": [""] * (size // 4), "draft": []})]
        wrong += [framed(good | {name: [""] * (size // 5)}, features) for name in ("prompt_ids", "stop_ids")]
        wrong += [framed({"text": [1] * (size // 3), "draft": []}), framed({f"x{n}": 0 for n in range(size // 13)})]
        wrong += [framed(good | {"synonyms": {f"a{n}": [] for n in range(size // 14)}}, features)]
        audio, large = as_sent(case.cloud_prompt.audio), torch.zeros(1, 30 << 20, dtype=torch.uint8)
        wrong += [framed(good, save({**audio, name: large})) for name in audio]  # eight times as large if widened
        session = new_session()
        assert call(served, "PUT", session, framed(good, features))[0] == 200
        for number, body in enumerate(wrong):
            path, started = (f"{session}/verify", new_session())[number in (1, 2, 5, 6, 7)], time.process_time()
            with growing_less_than(150 << 20):
                status, answer = call(served, "POST" if path.endswith("verify") else "PUT", path, body)
            assert (status, len(answer) < 500) == (422, True), (number, answer)
            assert time.process_time() - started < 5.0, number


@pytest.mark.slow
@pytest.mark.parametrize("command", [broken_bodies_leave_nothing, wrong_json_costs_little])
def test_memory_in_a_process_of_its_own(command):
    outcome = Fork([], command=command).wait()
    assert outcome.code == 0, outcome.err


def test_memory_is_a_budget(case):
    with verifying(case.cloud) as served:
        clip, features = a_clip(served, case)
        assert call(served, "PUT", new_session(), framed(clip, features))[0] == 200
        one = served.service.clips.bytes
    with verifying(case.cloud, memory_bytes=5 * one) as served:
        for _ in range(12):
            assert call(served, "PUT", new_session(), framed(clip, features))[0] == 200
            assert served.service.clips.bytes <= 5 * one
        assert len(served.service.clips) == 5


@pytest.mark.slow
def test_idle_clips_are_forgotten(case, monkeypatch):
    monkeypatch.setattr("specdec_cli.serve.app._SWEEP_S", 0.05)
    with verifying(case.cloud, idle_s=0.2) as served:
        clip, features = a_clip(served, case)
        session = new_session()
        assert call(served, "PUT", session, framed(clip, features))[0] == 200
        assert until(lambda: not len(served.service.clips))
        status, body = call(served, "POST", f"{session}/verify", framed({"text": [], "draft": []}))
        assert (status, "or no longer" in detail(body)) == (404, True)


def test_logs_and_metrics_hold_nothing_of_a_clip(served, case, monkeypatch, caplog):
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


@pytest.mark.parametrize(
    ("failure", "status", "said"),
    few(
        [
            (DecodingError("the logits of tiny are not finite"), 500, "the logits of tiny are not finite"),
            (RuntimeError("CUDA error: an illegal memory access"), 500, "an illegal memory access"),
            (ValueError("a bug"), 500, "a bug"),
            (torch.OutOfMemoryError("no memory"), 500, "no memory"),
        ],
        2,
    ),
)
def test_a_failing_model_is_not_the_clips_fault(case, served, failure, status, said, monkeypatch):
    good, features = a_clip(served, case)

    forward = Session.logits

    def fail(session: Session, *arguments: Any) -> torch.Tensor:
        if session.model is case.cloud:
            raise failure
        return forward(session, *arguments)

    with monkeypatch.context() as failing:
        failing.setattr(Session, "logits", fail)
        found, answer = call(served, "PUT", new_session(), framed(good, features))
        assert (found, said in detail(answer)) == (status, True), answer
        failing.setenv("SPECDEC_TEST_TOKEN", TOKEN)
        with remote_cloud(served.url, case.edge, token_env="SPECDEC_TEST_TOKEN", retry_s=60.0) as link:
            ends = [collect(far_loop(case.but(fallback="on"), link).events())[1].degraded or "" for _ in range(2)]
        assert said in ends[0]
        assert "was not called again" in ends[1]  # the next clips do not wait for it
    honest_caption(served, case, monkeypatch)


def test_the_budget_counts_what_a_clip_holds(case):
    asked = case.but(max_new_tokens=30)
    for guess_tokens in (0, 8):
        with verifying(asked.cloud) as served:
            good, features = a_clip(served, asked)
            good |= {"guess_tokens": guess_tokens, "capacity": 64, "longest": 40}
            session = new_session()
            for _ in range(3):  # later clips are guessed from earlier ones
                good["block"] = {"text": [], "draft": [3] * 30, "run_on": 20}
                assert call(served, "PUT", session, framed(good, features))[0] == 200
                (held,) = served.service.clips._held.values()
                scores = held.verifier.next_scores._rows
                assert len(scores) <= guess_tokens
                assert scores.untyped_storage().nbytes() == scores.nbytes
                prompt = held.verifier.session.prompt
                kept = [*prompt.audio.values(), scores, held.verifier.session._after_prompt]
                cache = held.verifier.session.cache
                grown = [layer for layer in cache.layers if not isinstance(layer, SlotLayer)]  # slots are the model's
                kept += [each for layer in grown for each in (layer.keys, layer.values)]
                assert sum(each.untyped_storage().nbytes() for each in kept if each is not None) <= held.bytes


@pytest.mark.slow
def test_nothing_more_is_done_for_a_client_that_has_left(case, monkeypatch):
    """And its body counts as long as a thread holds it, however soon the client goes."""
    left = threading.Event()
    monkeypatch.setattr(
        verification, "in_thread", lambda pool, work, stop: in_thread(pool, work, lambda: (stop(), left.set()))
    )
    with verifying(case.cloud) as served, held_up() as (started, go_on):
        good, features = a_clip(served, case)
        body = framed(
            good | {"capacity": 64, "longest": 60, "block": {"text": [], "draft": [], "run_on": 40}}, features
        )
        head = f"PUT {new_session()} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with connections(served, 1, head + body):
            assert started.acquire(timeout=120)
        assert left.wait(120)
        assert served.offer.bodies.held == len(body)
        go_on.set()
        asked = served.service.metrics.requests.labels("PUT /v1/sessions/{id_}", "499")
        assert until(lambda: asked._value.get() == 1.0)
        assert served.offer.bodies.held == 0
        assert not started.acquire(timeout=0.2)  # 40 more tokens were wanted: nobody is left to read them


@contextmanager
def connections(served: Running, count: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many open connections, each with the first bytes of a request."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=30)))
            opened[-1].sendall(first)
        yield opened


def test_bodies_in_flight_are_a_budget(case):
    size = 100_000
    with verifying(case.cloud, bodies_bytes=3 * size, body_bytes=2 * size, body_s=120.0) as served:
        head = f"PUT {new_session()} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n\r\n".encode()
        with connections(served, 4, head + b"\0" * (size - 1)) as opened:  # a byte is missing of each
            assert select.select(opened, [], [], 120.0)[0]
            time.sleep(0.2)  # would another one be refused, too?
            answers = [connection.recv(4096) for connection in select.select(opened, [], [], 0)[0]]
            assert [b" 503 " in answer for answer in answers] == [True]
            good, numbers = a_clip(served, case)
            status, answer = call(served, "PUT", new_session(), framed(good, numbers))
        assert (status, "as many bodies" in detail(answer)) == (503, True)
        body = framed(good, numbers)  # the others have gone, and their bytes with them
        assert until(lambda: call(served, "PUT", new_session(), body)[0] == 200)


def distribution(*probabilities: float, places: tuple[int, ...] = (1, 2)) -> dict[str, torch.Tensor]:
    """Of two tokens."""
    return dict(zip(DISTRIBUTIONS, (torch.tensor(places, dtype=torch.int32), torch.tensor(probabilities)), strict=True))


@pytest.mark.parametrize("change", [[0.5, 0.6], [-0.5, 1.5], [float("nan"), 1.0], [0.0, 1.0]])
def test_what_is_no_distribution_is_refused(change):
    good = distribution(0.5, 0.5)
    assert unpack_distributions(good, [1], 10)[0, 1] == 0.5
    for wrong in (distribution(*change), distribution(0.5, 0.5, places=(1, 10)), distribution(0.5, 0.5, places=(1,))):
        with pytest.raises(MalformedError):
            unpack_distributions(wrong, [1], 10)
    for draft, vocab_size in (([1], 2), ([3], 10), ([1, 1], 10)):
        with pytest.raises(MalformedError):
            unpack_distributions(good, draft, vocab_size)


@pytest.mark.slow
def test_what_is_being_answered_is_answered_before_the_server_ends(case):
    found = []
    with verifying(case.cloud) as served, remote_cloud(served.url, case.edge) as link:
        clip = RemoteClip(lambda: case.cloud_prompt, case.config, case.pair.vocab_size, case.cloud.processor.eos_ids)
        verifier = link.verifier(clip)
        with held_up() as (started, go_on):
            asking = threading.Thread(target=lambda: found.append(verifier.verify((), Draft((5, 6)))))
            asking.start()
            assert started.acquire(timeout=60)
            ending = threading.Thread(target=served.stop)
            ending.start()
            threading.Event().wait(0.3)
            assert not found
            go_on.set()
            asking.join(60)
            ending.join(60)
    assert not ending.is_alive()
    assert found[0].network_ms is not None
