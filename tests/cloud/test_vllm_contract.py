"""What a vLLM cloud sends, believes and refuses. What a link does to calls is in `test_remote`, for all servers."""

import base64
import gzip
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import soundfile

from specdec_cli.cloud.remote import RemoteVerifier
from specdec_cli.cloud.vllm import Vllm
from specdec_cli.cloud.vllm_protocol import GENERATE, MODELS, TOKENIZE, data_url
from specdec_cli.decoding.block import Draft
from specdec_cli.decoding.remote import RemoteClip
from specdec_cli.errors import CloudError, ConfigError, DecodingError, TokenizerMismatchError
from tests.cloud.stand_in import ModelServer
from tests.cloud.vllm_cases import VllmCase, clip, cloud, configured, edge, outcome, prompt, vllm_case
from tests.support.machine import NOBODY, growing_less_than
from tests.support.models import tiny_clip
from tests.support.servers import Answer, Respond, answering
from tests.tiers import few

Change = Callable[[dict[str, Any]], object]
COMMON: dict[str, Any] = {
    "max_new_tokens": 8, "k": 3, "loop_period": 0, "gate": "always", "repetition_penalty": 1.0, "no_repeat_ngram": 0,
    "min_new_tokens": 0,
}  # fmt: skip
LOSSLESS = COMMON | {"mode": "lossless", "fallback": "on"}


@cache
def _case() -> VllmCase:
    """The one of most tests."""
    return vllm_case(0, "far", 4, "tone? abab abab", LOSSLESS)


@contextmanager
def _linked(respond: Respond, **settings: Any) -> Iterator[Vllm]:
    with answering(respond) as url:
        link = Vllm(configured(url, **{"timeout_s": 20.0, **settings}), edge("same").processor, own=False)
        try:
            yield link
        finally:
            link.close()


def _verifier(case: VllmCase, link: Vllm) -> RemoteVerifier:
    sent = prompt(link.processor, case.clip, case.instruction)
    return link.verifier(RemoteClip(lambda: sent, case.config, 266, link.processor.eos_ids))


@cache
def _alone() -> tuple[Draft, tuple[int, ...]]:
    """The first draft of the case, and the edge's own caption."""
    return Draft(_case().run()[0][0].draft_ids), _case().but(mode="edge").run()[1].token_ids


@cache
def _server() -> ModelServer:
    """One for all tests that count nothing."""
    return ModelServer(cloud())


def test_texts_equal_those_in_process_and_a_recording_is_sent_once(monkeypatch):
    monkeypatch.setenv("TINY_KEY", "s3cret")
    server, first = ModelServer(cloud()), _case()
    second = vllm_case(1, "far", 2, "描述声音", LOSSLESS)
    third = vllm_case(2, "near", 1, "x", COMMON | {"mode": "hybrid", "acceptance": "class", "stop_drafting": True})
    with _linked(server.respond, token_env="TINY_KEY") as link:
        assert server.asked == [MODELS, TOKENIZE, GENERATE]
        assert re.fullmatch(r"http://[0-9.:]+: tiny, answered in [0-9.]+ ms", link.probe())
        for number, case in enumerate((first, third, second.heard(), third.heard())):
            rounds, finished = case.through(link)
            assert outcome(rounds, finished) == outcome(*case.run())
            verified, again = sum(round_.escalated for round_ in rounds), finished.cloud.forwards
            assert again == verified or (case.measured is not None and again > verified)
            assert finished.cloud.bytes_up > len(data_url(clip(case.clip), 16000))
            assert server.sent == number + 1
        asked = len(server.asked)
        _, finished = _case().but(mode="hybrid", gate="never").through(link)
        assert (finished.cloud.bytes_up, len(server.asked)) == (0, asked)
    assert {headers.get("Authorization") for headers in server.headers} == {"Bearer s3cret"}


def test_a_position_whose_likeliest_tokens_are_rows_of_padding_is_asked_for_again():
    """A server lists rows of a model's table that no token has: three listed ones may all be such rows."""
    server, few_listed = ModelServer(cloud()), list[int]()

    def padded(method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        status, content = server.respond(method, path, body, headers)
        request = json.loads(body) if path == GENERATE else None
        if request is not None and request["sampling_params"]["logprobs"] < 20:
            few_listed.append(request["sampling_params"]["logprobs"])
            answer = json.loads(content)
            beyond = [{"token_id": id_, "logprob": -0.5} for id_ in (285, 286, 287)]
            if answer["prompt_logprobs"]:
                listed = {each["token_id"]: {"logprob": each["logprob"]} for each in beyond}
                answer["prompt_logprobs"][-1] = listed | {request["token_ids"][-1]: {"logprob": -9.0}}
            answer["choices"][0]["logprobs"]["content"][-1] = beyond[0] | {"top_logprobs": beyond}
            content = json.dumps(answer).encode()
        return status, content

    with _linked(padded) as link:
        rounds, finished = _case().through(link)
    assert few_listed
    assert outcome(rounds, finished) == outcome(*_case().run())


@pytest.mark.slow
def test_a_forgotten_recording_is_sent_again_and_the_text_is_the_same():
    server = ModelServer(cloud())

    def forgetful(*request: Any) -> Answer:
        answer = server.respond(*request)
        server.forget()
        return answer

    with _linked(forgetful) as link:
        rounds, finished = _case().through(link)
    assert outcome(rounds, finished) == outcome(*_case().run())
    assert server.sent == len(rounds) > 1


@pytest.mark.parametrize("kind", ["flac", "wav", "full scale"])
def test_a_recording_arrives_as_the_very_same_samples(kind):
    samples = tiny_clip(3, 0.7)
    samples[:3] = (-1.0, 1 - 2**-15, 0.0)
    if kind == "flac":
        samples = (np.round(samples * 32768) / 32768).astype(np.float32).clip(-1, 1 - 2**-15)
    if kind == "full scale":  # it must not be folded over
        samples[3] = 1.0
    head, _, body = data_url(samples, 16000).partition(",")
    assert head == f"data:audio/{'flac' if kind == 'flac' else 'wav'};base64"
    found, rate = soundfile.read(BytesIO(base64.b64decode(body)), dtype="float32")
    assert rate == 16000
    assert np.array_equal(found, samples)


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
    few(
        [
            (lambda told: told["prompt_logprobs"].pop(5), "scored and 1 generated, of"),
            (lambda told: told.pop("prompt_logprobs"), "0 scored and"),
            (lambda told: told["prompt_logprobs"].__setitem__(-1, {"1": {"logprob": -0.5}}), "was not scored"),
            (lambda told: told["prompt_logprobs"][-1].update(x7={"logprob": -0.5}), "prompt_logprobs"),
            (_of_drafted(-9999.0), "scores are not finite"),
            (_of_drafted(float("nan")), "finite"),
            (_of_drafted(3.0), "less than or equal to"),
            (_generate(-1), "greater than or equal to 0"),
            (_generate(), "at least 1 item"),
            (_generate(1, 2), "2 generated"),
            (lambda told: told["choices"].clear(), "Field required"),
            (lambda told: told["usage"].update(prompt_tokens=3), "3 tokens were read"),
        ]
    ),
)
def test_nonsense_is_never_believed(change, said):
    def altered(method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        status, answer = _server().respond(method, path, body, headers)
        if path != GENERATE or b"content_parts" not in body:
            return status, answer
        told = json.loads(answer)
        change(told)
        return status, json.dumps(told).encode()

    draft, by_the_edge = _alone()
    with _linked(altered, retry_s=0.0) as link:
        with pytest.raises(CloudError, match=said):
            _verifier(_case(), link).verify((), draft)
        _, finished = _case().through(link)
        assert finished.degraded is not None
        assert finished.token_ids == by_the_edge


def test_a_refusal_is_not_repeated():
    server = ModelServer(cloud())

    def refusing(method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        answer = server.respond(method, path, body, headers)
        if b"content_parts" in body:
            return 400, b'{"error": {"message": "too  long\\u001b[31m for me", "code": 400}}'
        return answer

    with _linked(refusing) as link:
        before = len(server.asked)
        for clips in (1, 2):  # what is wrong with one says nothing about the next
            with pytest.raises(CloudError, match=r"answers status 400: too long\\x1b\[31m for me"):
                _verifier(_case(), link).verify((), Draft((5, 6)))
            assert len(server.asked) == before + clips


def _instead(path: str, answer: Answer) -> Respond:
    return lambda method, asked, *more: answer if asked == path else _server().respond(method, asked, *more)


@pytest.mark.parametrize(
    ("path", "status", "body", "error", "said", "hint"),
    [
        (MODELS, 200, '{"data": [{"id": "other"}]}', ConfigError, "serves other, not tiny", "cloud.model"),
        (MODELS, 401, '{"error": "Unauthorized"}', ConfigError, "answers status 401", "cloud.token_env"),
        (MODELS, 400, "[" * 100_000, ConfigError, "status 400: no reason given", ""),
        (GENERATE, 404, '{"detail": "Not Found"}', ConfigError, "404: Not Found", "--enable-scale-out"),
        (GENERATE, 403, '{"detail": "Forbidden"}', ConfigError, "403: Forbidden", "--enable-scale-out"),
        (GENERATE, 400, '{"error": {"message": "Token id 265 is out of vocabulary"}}', ConfigError, "out of", ""),
        (TOKENIZE, 200, '{"tokens": [1, 2, 3]}', TokenizerMismatchError, "different tokenizers", "cloud.processor"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(path, status, body, error, said, hint):
    with pytest.raises(error, match=said) as caught, _linked(_instead(path, (status, body.encode()))):
        pass
    assert hint in str(caught.value.hint)


MEBIBYTE = 1 << 20


@pytest.mark.parametrize(
    ("path", "body", "said", "asked"),
    few(
        [
            (MODELS, b" " * 3 * MEBIBYTE, "longer than the 1048576 bytes", 1),
            (TOKENIZE, b'{"tokens": [' + b"1," * 2 * MEBIBYTE + b"1]}", "longer than the 1048576 bytes", 1),
            (GENERATE, b" " * 3 * MEBIBYTE, "longer than the", 1),
            (MODELS, gzip.compress(b'{"data": [' + b"{}," * (10 * MEBIBYTE), mtime=0), "as a whole: Invalid JSON", 6),
            (MODELS, b'{"data": [' + b"{}," * 300_000 + b"{}]}", "data.0.id", 6),
            (TOKENIZE, b'{"tokens": [' + b'"",' * 300_000 + b"1]}", "tokens.0", 6),
            (
                GENERATE,
                b'{"usage": {"prompt_tokens": 1}, "choices": [{"logprobs": {"content": ['
                + b"{}," * 300_000
                + b"{}]}}]}",
                "content.0",
                6,
            ),
            (
                GENERATE,
                b'{"usage": {"prompt_tokens": 1}, "prompt_logprobs": [{'
                + b",".join(b'"x%d":0' % number for number in range(90_000))
                + b"}]}",
                "Field required",
                6,
            ),
        ],
        2,
    ),
)
def test_a_server_that_lies_costs_little(path, body, said, asked):
    """At each start; a much larger answer is not even read, nor asked for again."""
    paths = list[str]()

    def respond(method: str, to: str, *more: Any) -> Answer:
        paths.append(to)
        return (200, body) if to == path else _server().respond(method, to, *more)

    _server()
    started = time.process_time()
    with growing_less_than(150 * MEBIBYTE), _linked(respond) as link:
        assert said in str(link.failure)
        assert paths.count(path) == asked
    assert time.process_time() - started < 4.0


def test_recordings_are_not_sent_without_leave():
    forbidden = configured(NOBODY).model_copy(update={"allow_audio_upload": False})
    with pytest.raises(ConfigError, match="allow_audio_upload"):
        Vllm(forbidden, cloud().processor, own=False)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"temperature": 0.7}, "decoding.temperature"),
        ({"acceptance": "prob", "mode": "hybrid"}, "decoding.acceptance"),
        ({"acceptance": "rank", "mode": "hybrid"}, "decoding.acceptance"),
        ({"no_repeat_ngram": 3}, "decoding.no_repeat_ngram"),
        ({"repetition_penalty": None}, "decoding.repetition_penalty"),  # as the checkpoint suggests
    ],
)
def test_settings_that_it_cannot_serve_are_refused(settings, named, monkeypatch):
    monkeypatch.setattr(edge("same").processor.generation, "repetition_penalty", 1.1)
    with _linked(_server().respond) as link:
        _verifier(_case(), link)
        with pytest.raises(DecodingError, match=f"the most likely tokens only, and {named}"):
            _verifier(_case().but(**settings), link)
