"""What a vLLM cloud sends, believes and refuses, against the recorded answers of a real server."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import soundfile

from specdec_cli.cloud.vllm import VllmCloud
from specdec_cli.cloud.vllm_protocol import GENERATE, MODELS, TOKENIZE, data_url
from specdec_cli.cloud.vllm_verifier import VllmVerifier
from specdec_cli.decoding.block import Draft
from specdec_cli.errors import CloudError, ConfigError, DecodingError, TokenizerMismatchError
from tests.cloud.vllm_cases import VllmCase, clip, cloud, configured, edge, outcome
from tests.cloud.vllm_double import Answer, Replay, Respond, answering, recorded_cases
from tests.tiny import tiny_clip

Change = Callable[[dict[str, Any]], object]


@contextmanager
def _linked(respond: Respond, **settings: Any) -> Iterator[VllmCloud]:
    with answering(respond) as url:
        link = VllmCloud(configured(url, **{"timeout_s": 5.0, **settings}), edge("same").processor, own=False)
        try:
            yield link
        finally:
            link.close()


def _verifier(case: VllmCase, link: VllmCloud) -> VllmVerifier:
    prompt = link.processor.prompt(clip(case.clip), case.instruction)
    return link.verifier(link, prompt, case.config, 266, link.processor.eos_ids)


@cache
def _first() -> tuple[VllmCase, Draft, tuple[int, ...]]:
    """A case, the block that the recording has an answer about, and what the edge writes alone."""
    case = recorded_cases()[0]
    return case, Draft(case.run()[0][0].draft_ids), case.but(mode="edge").run()[1].token_ids


# --- what is right ---


def test_texts_equal_those_in_process_and_a_recording_is_sent_once() -> None:
    replay = Replay()
    with _linked(replay.respond) as link:
        for number, case in enumerate(recorded_cases()):
            rounds, finished = case.run(link)
            assert outcome(rounds, finished) == outcome(*case.run())
            assert any(round_.near_ties is not None for round_ in rounds if round_.escalated)
            assert finished.cloud is not None
            assert finished.cloud.forwards == sum(round_.escalated for round_ in rounds)
            assert finished.cloud.bytes_up > len(data_url(clip(case.clip), 16000))
            assert replay.sent == number + 1
    assert replay.asked[:3] == [MODELS, TOKENIZE, GENERATE]


def test_a_forgotten_recording_is_sent_again_and_the_text_is_the_same() -> None:
    replay = Replay()

    def forgetful(*request: Any) -> Answer:
        answer = replay.respond(*request)
        replay.forget()
        return answer

    case = recorded_cases()[0]
    with _linked(forgetful) as link:
        rounds, finished = case.run(link)
    assert outcome(rounds, finished) == outcome(*case.run())
    assert replay.sent == len(rounds) > 1


def test_nothing_is_sent_before_it_is_needed() -> None:
    replay, case = Replay(), recorded_cases()[0]
    quiet = case.but(mode="hybrid", gate="never")
    with _linked(replay.respond) as link:
        before = len(replay.asked)
        _, finished = quiet.run(link)
        assert finished.cloud is not None
        assert (finished.cloud.bytes_up, len(replay.asked), replay.sent) == (0, before, 0)


def test_the_token_goes_with_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_KEY", "s3cret")
    replay = Replay()
    with _linked(replay.respond, token_env="TINY_KEY") as link:
        recorded_cases()[0].run(link)
    assert {headers.get("Authorization") for headers in replay.headers} == {"Bearer s3cret"}
    assert {headers.get("Accept-Encoding") for headers in replay.headers} == {"identity"}  # digests are of plain bytes


@pytest.mark.parametrize("kind", ["flac", "wav"])
def test_a_recording_arrives_as_the_very_same_samples(kind: str) -> None:
    samples = tiny_clip(3, 0.7)
    samples[:3] = (-1.0, 1 - 2**-15, 0.0)
    if kind == "flac":
        samples = (np.round(samples * 32768) / 32768).astype(np.float32).clip(-1, 1 - 2**-15)
    head, _, body = data_url(samples, 16000).partition(",")
    assert head == f"data:audio/{kind};base64"
    found, rate = soundfile.read(BytesIO(base64.b64decode(body)), dtype="float32")
    assert rate == 16000
    assert np.array_equal(found, samples)


def test_full_scale_is_not_folded_over() -> None:
    samples = np.array([1.0, -1.0, 0.5] * 200, dtype=np.float32)
    _, _, body = data_url(samples, 16000).partition(",")
    found, _ = soundfile.read(BytesIO(base64.b64decode(body)), dtype="float32")
    assert np.array_equal(found, samples)


def test_a_probe_names_model_version_and_round_trip() -> None:
    with _linked(Replay().respond) as link:
        assert re.fullmatch(r"http://[0-9.:]+: tiny, answered in [0-9.]+ ms", link.probe())


# --- what goes wrong on the way ---


@pytest.mark.parametrize("trouble", ["500", "503", "reset", "cut short", "no JSON", "another length"])
def test_what_another_try_betters_is_tried_again(trouble: str) -> None:
    replay, case = Replay(), recorded_cases()[1]
    seen: dict[str, int] = {}

    def troubled(method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """The first answer to each question is bad."""
        key = f"{path}{json.loads(body)['token_ids']}" if path == GENERATE else path
        seen[key] = seen.get(key, 0) + 1
        status, answer = replay.respond(method, path, body, headers)
        if seen[key] > 1:
            return status, answer
        if trouble == "reset":
            raise ConnectionError
        if trouble == "another length" and path == GENERATE:
            told = json.loads(answer)
            told["usage"]["prompt_tokens"] += 1
            return status, json.dumps(told).encode()
        bodies = {"cut short": answer[: len(answer) // 2], "no JSON": b"<html>"}
        return (int(trouble) if trouble.isdigit() else status), bodies.get(trouble, answer)

    with _linked(troubled) as link:
        rounds, finished = case.run(link)
    assert finished.degraded is None
    assert outcome(rounds, finished) == outcome(*case.run())


def _shorten(told: dict[str, Any]) -> None:
    del told["prompt_logprobs"][5]


def _rename_drafted(told: dict[str, Any]) -> None:
    told["prompt_logprobs"][-1] = {"1": {"logprob": -0.5, "rank": 1, "decoded_token": None}}


def _name_badly(told: dict[str, Any]) -> None:
    told["prompt_logprobs"][-1]["x7"] = {"logprob": -0.5, "rank": 1}


def _drown(told: dict[str, Any]) -> None:
    for scored in told["prompt_logprobs"][-1].values():
        scored["logprob"] = -9999.0


def _of_drafted(value: Any) -> Change:
    def change(told: dict[str, Any]) -> None:
        for scored in told["prompt_logprobs"][-1].values():
            scored["logprob"] = value

    return change


def _generate(*tokens: Any) -> Change:
    def change(told: dict[str, Any]) -> None:
        content = told["choices"][0]["logprobs"]["content"]
        content[:] = [{**content[0], "token_id": token} for token in tokens]

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_shorten, "scored, of"),
        (lambda told: told.pop("prompt_logprobs"), "and 0 scored, of"),
        (_rename_drafted, "was not scored"),
        (_name_badly, "prompt_logprobs"),
        (_drown, "scores are not finite"),
        (_of_drafted(float("nan")), "finite"),
        (_of_drafted(float("inf")), "finite"),
        (_of_drafted(3.0), "less than or equal to"),
        (_of_drafted("-1"), "number"),
        (_generate(-1), "greater than or equal to 0"),
        (_generate(1.5), "integer"),
        (_generate(), "at least 1 item"),
        (_generate(1, 2), "2 tokens were generated, and at most 1 requested"),
        (lambda told: told["choices"].clear(), "Field required"),
        (lambda told: told["choices"][0].pop("logprobs"), "Field required"),
        (lambda told: told["usage"].update(prompt_tokens=3), "3 tokens were read"),
        (lambda told: told.clear(), "Field required"),
    ],
)
def test_nonsense_is_never_believed(change: Change, said: str) -> None:
    replay, (case, draft, alone) = Replay(), _first()

    def altered(method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        status, answer = replay.respond(method, path, body, headers)
        if path != GENERATE or b"content_parts" not in body:
            return status, answer
        told = json.loads(answer)
        change(told)
        return status, json.dumps(told).encode()

    with _linked(altered, retry_s=0.0) as link:
        with pytest.raises(CloudError, match=said):
            _verifier(case, link).verify((), draft)
        _, finished = case.run(link)
        assert finished.degraded is not None
        assert finished.token_ids == alone


def test_a_server_that_hangs_costs_its_time_limit_once() -> None:
    replay, case, asked, over = Replay(), recorded_cases()[0], list[bytes](), threading.Event()

    def hanging(method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        if b"content_parts" in body:
            asked.append(body)
            over.wait(60)
        return replay.respond(method, path, body, headers)

    with _linked(hanging, timeout_s=0.5, retry_s=60.0) as link:
        try:
            verifier, draft = _verifier(case, link), _first()[1]
            with pytest.raises(CloudError, match=r"did not answer within 0\.5 s"):
                verifier.verify((), draft)
            with pytest.raises(CloudError, match="was not called again"):
                verifier.verify((), draft)
            assert len(asked) == 1
            assert not over.is_set()
        finally:
            over.set()


def test_a_server_that_comes_late_is_used_from_then_on() -> None:
    replay, case = Replay(), recorded_cases()[2]
    up = False

    def late(method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        if not up:
            raise ConnectionError
        return replay.respond(method, path, body, headers)

    with _linked(late, retry_s=0.0) as link:
        assert link.http.failure is not None
        assert case.run(link)[1].degraded is not None
        up = True
        assert outcome(*case.run(link)) == outcome(*case.run())
        assert link.http.failure is None


def test_a_refusal_is_not_repeated() -> None:
    replay, case = Replay(), recorded_cases()[0]

    def refusing(method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        replay_answer = replay.respond(method, path, body, headers)
        if b"content_parts" in body:
            return 400, b'{"error": {"message": "too  long\\u001b[31m for me", "code": 400}}'
        return replay_answer

    with _linked(refusing) as link:
        before = len(replay.asked)
        for clips in (1, 2):  # what is wrong with one says nothing about the next
            with pytest.raises(CloudError, match=r"answers status 400: too long\[31m for me"):
                _verifier(case, link).verify((), _first()[1])
            assert len(replay.asked) == before + clips


# --- what does not fit is refused at the start ---


def _instead(path: str, answer: Answer) -> Respond:
    replay = Replay()

    def respond(method: str, asked: str, body: bytes, headers: dict[str, str]) -> Answer:
        return answer if asked == path else replay.respond(method, asked, body, headers)

    return respond


@pytest.mark.parametrize(
    ("path", "answer", "said", "hint"),
    [
        (MODELS, (200, b'{"data": [{"id": "other", "max_model_len": 9}]}'), "serves other, not tiny", "cloud.model"),
        (MODELS, (401, b'{"error": "Unauthorized"}'), "answers status 401", "cloud.token_env"),
        (GENERATE, (404, b'{"detail": "Not Found"}'), "answers status 404: Not Found", "--enable-scale-out"),
        (GENERATE, (400, b'{"error": {"message": "Token id 265 is out of vocabulary"}}'), "out of vocabulary", None),
    ],
)
def test_a_server_that_lacks_something_is_a_mistake_of_set_up(
    path: str, answer: Answer, said: str, hint: str | None
) -> None:
    with pytest.raises(ConfigError, match=said) as error, _linked(_instead(path, answer)):
        pass
    assert hint is None or hint in str(error.value.hint)


def test_another_tokenizer_is_refused() -> None:
    answer = (200, json.dumps({"tokens": [1, 2, 3]}).encode())
    with pytest.raises(TokenizerMismatchError, match="have different tokenizers"), _linked(_instead(TOKENIZE, answer)):
        pass


def test_recordings_are_not_sent_without_leave() -> None:
    forbidden = configured("http://127.0.0.1:9").model_copy(update={"allow_audio_upload": False})
    with pytest.raises(ConfigError, match="allow_audio_upload"):
        VllmCloud(forbidden, cloud().processor, own=False)


@pytest.mark.parametrize(
    "settings", [{"temperature": 0.7}, {"repetition_penalty": 1.3}, {"acceptance": "typical", "mode": "hybrid"}]
)
def test_settings_that_it_cannot_serve_are_refused(settings: dict[str, Any]) -> None:
    case = recorded_cases()[0]
    asked = case.but(**settings)
    with _linked(Replay().respond) as link, pytest.raises(DecodingError, match="the likeliest tokens only, and"):
        _verifier(asked, link)


@pytest.mark.parametrize(
    "body",
    [
        b'{"data": [{"id": 1e999}]}',
        b'{"data": ' + b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"error": ' * 50_000,
    ],
)
@pytest.mark.parametrize("status", [200, 400, 500])
def test_what_no_server_says_is_typed(body: bytes, status: int) -> None:
    """Numbers that no integer holds, and brackets deeper than any parser goes."""
    case = recorded_cases()[0]
    if status == 400:
        with pytest.raises(ConfigError, match="status 400: no reason given"), _linked(_instead(MODELS, (400, body))):
            pass
        return
    with _linked(_instead(MODELS, (status, body)), retry_s=0.0) as link:
        assert link.http.failure is not None
        assert case.run(link)[1].degraded is not None


def test_without_the_waveform_there_is_nothing_to_send() -> None:
    case = recorded_cases()[0]
    with _linked(Replay().respond) as link:
        prompt = replace(link.processor.prompt(clip(1), "x"), waveform=None)
        with pytest.raises(DecodingError, match="needs the recording"):
            link.verifier(link, prompt, case.config, 266, link.processor.eos_ids)


def test_a_processor_of_its_own_makes_the_prompts() -> None:
    """The cloud's, padded otherwise than the edge's; a refusal names it."""
    replay, case = Replay(), recorded_cases()[0]
    with answering(replay.respond) as url:
        link = VllmCloud(configured(url, timeout_s=5.0), cloud().processor, own=True)
        assert outcome(*case.run(link)) == outcome(*case.run())
        link.close()
    answer = (200, json.dumps({"tokens": [1, 2, 3]}).encode())
    with answering(_instead(TOKENIZE, answer)) as url, pytest.raises(TokenizerMismatchError, match=r"cloud\.processor"):
        VllmCloud(configured(url), cloud().processor, own=True)
