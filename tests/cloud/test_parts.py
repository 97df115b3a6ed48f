"""The parts of client and server by themselves."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import wait
from typing import Any

import pytest
import torch

from specdec_cli.cloud.http import Caller, Http, read_token
from specdec_cli.cloud.protocol import (
    MAX_JSON_BYTES,
    ROWS,
    Answer,
    MalformedError,
    Question,
    as_sent,
    pack,
    pack_rows,
    unpack,
    unpack_rows,
)
from specdec_cli.config import CloudConfig
from specdec_cli.decoding.draft import Draft
from specdec_cli.errors import CloudError, ConfigError, DecodingError
from specdec_cli.models.session import Session
from specdec_cli.serve.clips import Service
from specdec_cli.serve.limits import ServeLimits
from tests.cloud.serving import ServerThread, clip_message, linked
from tests.laws.cases import Case, make_case


def test_a_server_that_failed_is_left_alone_for_a_while() -> None:
    http = Http(
        CloudConfig(url="http://127.0.0.1:1", retry_s=10.0), "text/plain", 1 << 16, lambda *given: given[-1].body
    )
    caller = Caller(http)
    with pytest.raises(CloudError, match="gone"), caller.call():
        raise CloudError("gone")
    with pytest.raises(CloudError, match="was not asked again: gone"), caller.call():
        pass
    http.failed_at -= 10.0
    with caller.call():
        pass
    assert http.failure is None


def test_what_is_packed_comes_out() -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "input_features": torch.randn(1, 16, 33, generator=generator),
        "feature_attention_mask": torch.ones(1, 33, dtype=torch.long),
        "offsets": torch.tensor([[-70_000, 3]]),
        "large": torch.tensor([1 << 40]),
        "flags": torch.tensor([[True, False, True]]),
    }
    sent = as_sent(tensors)
    assert [str(values.dtype) for values in sent.values()] == [
        f"torch.{dtype}" for dtype in ("float16", "uint8", "int64", "int64", "bool")
    ]
    tensors["input_features"] = tensors["input_features"].to(torch.float16).float()
    rows = torch.randn(3, 50, generator=generator).softmax(-1)
    rows[1] = 0
    rows[1, [3, 7]] = torch.tensor((0.25, 0.75))
    counts, distributions = pack_rows(rows)
    assert counts == [50, 2, 50]
    question = Question(text=[1], draft=[2, 3], more=4, rows=counts)
    again, found = unpack(Question, pack(question, sent | distributions))
    assert again == question
    assert torch.equal(unpack_rows({name: found.pop(name) for name in ROWS}, counts, [0, 7, 1], 50), rows)
    for name, values in tensors.items():
        assert found[name].dtype == values.dtype
        assert torch.equal(found[name], values)


def distribution(*probabilities: float) -> dict[str, torch.Tensor]:
    """Of two tokens."""
    return dict(zip(ROWS, (torch.tensor([1, 2]), torch.tensor(probabilities)), strict=True))


@pytest.mark.parametrize("change", [[0.5, 0.6], [-0.5, 1.5], [float("nan"), 1.0], [0.0, 1.0]])
def test_what_is_no_distribution_is_refused(change: list[float]) -> None:
    with pytest.raises(MalformedError):
        unpack_rows(distribution(*change), [2], [1], 10)
    good = distribution(0.5, 0.5)
    assert unpack_rows(good, [2], [1], 10)[0, 1] == 0.5
    with pytest.raises(MalformedError):
        unpack_rows(good, [2], [1], 2)
    for counts in ([1], [3], [2, 0]):
        with pytest.raises(MalformedError):
            unpack_rows(good, counts, [1] * len(counts), 10)


def test_a_distribution_that_cannot_have_given_its_token_is_refused() -> None:
    with pytest.raises(MalformedError, match="no chance"):
        unpack_rows(distribution(0.5, 0.5), [2], [3], 10)


def test_the_json_of_a_body_is_bounded() -> None:
    for length in (MAX_JSON_BYTES + 1, 0xFFFFFFFF):
        with pytest.raises(MalformedError, match="may have"):
            unpack(Question, length.to_bytes(4, "little") + b"{")


def a_body(service: Service, case: Case, question: Question | None, **changed: Any) -> bytes:
    """A clip with a question, as a client sends it."""
    clip, numbers = clip_message(service.info.identity, case, question)
    return pack(clip.model_copy(update=changed), numbers)


class Counted:
    """Counts forwards, and holds the model's thread up until told to go on."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.gate = threading.Event()

    def fed(self, clips: int, seconds: float) -> None:
        assert seconds >= 0
        self.groups.append(clips)
        self.gate.wait(20)

    def reached(self, forwards: int) -> bool:
        """Whether so many are made within 20 seconds."""
        until = time.monotonic() + 20
        while len(self.groups) < forwards and time.monotonic() < until:
            time.sleep(0.01)
        return len(self.groups) >= forwards


def test_questions_that_wait_share_a_forward_and_are_answered_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdec_cli.models.shared.MOST", 4)
    case = make_case(91_100, mode="lossless", temperature=0.0)
    service = Service(case.cloud, ServeLimits())
    question = Question(text=[5], draft=[6, 7])
    alone = service.open(uuid.uuid4().hex, a_body(service, case, question), 0.0).judgement
    names = [uuid.uuid4().hex for _ in range(6)]
    for name in names:
        service.open(name, a_body(service, case, None), 0.0)
    watched = Counted()
    service.metrics.fed = watched.fed  # type: ignore[method-assign]
    first = service.submit(service.verify, names[0], pack(Question(text=[], draft=[9])), 0.0)
    assert watched.reached(1)  # the model's thread is held up behind it
    found = [service.submit(service.verify, name, pack(question), 0.0) for name in names]
    until = time.monotonic() + 20
    while sum(map(len, service._shared._waiting.values())) < 6 and time.monotonic() < until:
        time.sleep(0.01)
    assert b"specdec_waiting 6.0" in service.metrics.text()
    watched.gate.set()
    done, late = wait([first, *found], timeout=60)
    assert not late
    service.close()
    assert len(done) == 7
    for future in found:
        answer: Answer = future.result()
        assert answer.judgement == alone
    assert watched.groups == [1, 4, 2]


def test_no_id_that_ends_the_text_comes_too_early() -> None:
    """Those of the clip count: in hybrid mode the edge's, too."""
    case = make_case(91_300, mode="lossless", temperature=0.0)
    service, question = Service(case.cloud, ServeLimits()), Question(text=[5], draft=[])
    free = service.open(uuid.uuid4().hex, a_body(service, case, question), 0.0).judgement
    assert free is not None
    changed = {
        "stop_ids": [*case.cloud.processor.eos_ids, free.token],
        "scoring": case.config.decoding.scoring().model_copy(update={"min_new_tokens": 4}),
    }
    bound = service.open(uuid.uuid4().hex, a_body(service, case, question, **changed), 0.0).judgement
    service.close()
    assert bound is not None
    assert bound.token != free.token


def test_a_culprit_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(91_200, mode="lossless", temperature=0.0)
    service = Service(case.cloud, ServeLimits())
    good, bad = uuid.uuid4().hex, uuid.uuid4().hex
    for name in (good, bad):
        service.open(name, a_body(service, case, None), 0.0)
    culprit = service.clips.find(bad)
    assert culprit is not None
    scored = Session.scored

    def failing(session: Session, *arguments: Any) -> torch.Tensor:
        if session is culprit.verifier.session:
            raise DecodingError("the scores are not finite")
        return scored(session, *arguments)

    monkeypatch.setattr(Session, "scored", failing)
    question = pack(Question(text=[1, 2], draft=[3]))
    futures = [service.submit(service.verify, name, question, 0.0) for name in (bad, good)]
    with pytest.raises(DecodingError, match="not finite"):
        futures[0].result(60)
    assert futures[1].result(60).judgement is not None
    service.close()


def test_what_is_being_answered_is_answered_before_the_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(91_000, mode="lossless", temperature=0.0)
    thread = ServerThread(case.cloud)
    reached, go_on = threading.Event(), threading.Event()
    logits = Session.logits

    def held_up(session: Session, *arguments: Any) -> torch.Tensor:
        reached.set()
        go_on.wait(20)
        return logits(session, *arguments)

    found = []
    with linked(thread.served.url, case.edge) as link:
        verifier = link.verifier(
            link, case.cloud_prompt, case.config, case.pair.vocab_size, case.cloud.processor.eos_ids
        )
        monkeypatch.setattr(Session, "logits", held_up)
        asking = threading.Thread(target=lambda: found.append(verifier.verify((), Draft((5, 6)))))
        asking.start()
        assert reached.wait(60)
        ending = threading.Thread(target=thread.stop)
        ending.start()
        threading.Event().wait(0.3)
        assert not found
        go_on.set()
        asking.join(60)
        ending.join(60)
    assert not ending.is_alive()
    assert found[0].network_ms is not None


def test_what_is_wrong_with_a_token_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "two words")
    for least, match in ((1, "holds no token of ASCII characters"), (16, "of at least 16 ASCII characters")):
        with pytest.raises(ConfigError, match=match):
            read_token("A_TOKEN", "cloud.token_env", least)
