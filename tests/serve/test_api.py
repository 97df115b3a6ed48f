"""The OpenAI endpoint, as the official client and others use it: what it answers is what `specdec caption` writes."""

import asyncio
import base64
import json
import logging
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import openai
import pytest
import soundfile
import torch
from openai import AsyncOpenAI, OpenAI

from specdec_cli.decoding.rows import read
from specdec_cli.errors import CloudError, ScoresError
from specdec_cli.labels import Lexicon
from specdec_cli.models.session import Session
from specdec_cli.serve.api_error import refusal_of
from specdec_cli.transcript import Transcript
from tests.audio.encode import ffmpeg_bytes, sndfile_bytes
from tests.mini_pair import MODES, RATE, captioner, voice, write_voice
from tests.serve.messages import ask, at_address, encoded, message, spoken, text_of
from tests.support.servers import TOKEN, Running, captioning
from tests.tiers import few, named


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with captioning(room=8) as running:
        yield running


@pytest.fixture
def client(served) -> OpenAI:
    return served.client()


def alone(tmp_path: Path, seed: int, seconds: float = 1.5, **settings: Any) -> Transcript:
    """What `specdec caption` writes of a voice."""
    settings = {"prompt__language": "en", **settings}
    return captioner(**settings).caption(write_voice(tmp_path / f"{seed}.wav", seed, seconds))


def tokens_of(transcript: Transcript) -> list[str]:
    return [piece for each in transcript.rounds for piece in each.committed_pieces]


@pytest.mark.parametrize("mode", named(MODES, "hybrid"))
def test_captions_are_those_of_the_command_token_for_token(client, tmp_path, mode):
    expected = alone(tmp_path, 7, decoding__mode=mode)
    answer = ask(client, spoken(7), mode, logprobs=True)
    scored = answer.choices[0].logprobs.content
    assert (text_of(answer), answer.model) == (expected.caption, f"specdec/{mode}")
    assert [each.token for each in scored] == tokens_of(expected)
    assert all(-30 < each.logprob <= 0 for each in scored)
    assert answer.usage.completion_tokens == expected.totals.tokens
    own = answer.model_extra["specdec"]
    assert own["escalations"] == expected.totals.escalations
    assert own["acceptance_rate"] == expected.totals.acceptance_rate


@pytest.mark.parametrize("mode", named(MODES, "lossless"))
def test_a_stream_has_the_blocks_and_joins_to_the_caption(client, tmp_path, mode):
    expected = alone(tmp_path, 8, decoding__mode=mode, decoding__k=3)
    how = {"stream": True, "stream_options": {"include_usage": True}, "extra_body": {"specdec": {"decoding.k": 3}}}
    chunks = list(ask(client, spoken(8), mode, **how))
    own = [chunk.model_extra.get("specdec", {}) for chunk in chunks if chunk.model_extra is not None]
    blocks = [each["block"] for each in own if "block" in each]
    assert [each["committed_ids"] for each in blocks] == [list(each.committed_ids) for each in expected.rounds]
    assert [each["accepted"] for each in blocks] == [each.accepted for each in expected.rounds]
    assert text_of(chunks) == expected.caption
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [each.choices[0].finish_reason for each in chunks if each.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == expected.totals.tokens
    assert own[-2]["pieces"][0]["caption"] == expected.caption
    assert own[0]["piece"] == {"index": 0, "start_s": 0.0, "end_s": 1.5}


def test_settings_of_a_request_are_those_of_the_command(client, tmp_path):
    expected = alone(tmp_path, 9, gate__threshold=0.2, decoding__k=2, prompt__language="zh")
    given = {"gate.threshold": 0.2, "decoding.k": 2, "language": "zh"}
    answer = ask(client, spoken(9), extra_body={"specdec": given})
    assert text_of(answer) == expected.caption
    assert answer.model_extra["specdec"]["pieces"][0]["settings"] == json.loads(expected.to_json())["settings"]
    drawn = alone(tmp_path, 9, decoding__temperature=1.3, decoding__seed=5, decoding__top_p=0.9)
    assert text_of(ask(client, spoken(9), temperature=1.3, top_p=0.9, seed=5)) == drawn.caption
    greedy = alone(tmp_path, 9, decoding__temperature=1e-9)
    assert text_of(ask(client, spoken(9), temperature=1e-231)) == greedy.caption  # next to nothing is greedy


@pytest.mark.slow
def test_thirty_two_at_a_time_are_those_of_one(served, tmp_path):
    expected = {(seed, mode): alone(tmp_path, seed, decoding__mode=mode).caption for seed in range(8) for mode in MODES}

    async def all_of_them() -> list[Any]:
        async with AsyncOpenAI(base_url=f"{served.url}/v1", api_key=TOKEN, max_retries=0) as client:
            return await asyncio.gather(*(ask(client, spoken(seed), mode) for seed, mode in expected))

    assert [text_of(answer) for answer in asyncio.run(all_of_them())] == list(expected.values())
    assert served.becomes_idle()


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_a_long_recording_is_captioned_piece_by_piece(client, tmp_path, stream):
    sound = np.concatenate([part for seed in range(4) for part in (voice(seed, 9), np.zeros(RATE, np.float32))])
    soundfile.write(tmp_path / "long.wav", sound, RATE)
    expected = list(captioner(prompt__language="en").captions(tmp_path / "long.wav"))
    assert len(expected) > 1
    answer = ask(client, encoded(sound), stream=stream)
    chunks = list(answer) if stream else [answer]
    assert text_of(chunks if stream else answer) == "\n".join(each.caption for each in expected if each.caption)
    own = chunks[-1].model_extra["specdec"]
    pieces = own["pieces"]
    assert [(each["start_s"], each["end_s"], each["caption"]) for each in pieces] == [
        (each.start_s, each.end_s, each.caption) for each in expected
    ]
    spoken_s = sum(each["duration_s"] for each in pieces if "no_speech" not in each.get("flags", ()))
    assert own["whole"]["seconds"] == pytest.approx(spoken_s, abs=0.001)
    assert all(sum(shares.values()) <= 1.002 for shares in own["whole"]["classes"].values())
    assert own["whole"]["classes"]["voice"]


def test_a_silent_piece_costs_the_others_nothing(client):
    sound = encoded(np.concatenate([voice(1, 2), np.zeros(2 * RATE, np.float32)]))
    answer = ask(client, sound, "edge", extra_body={"specdec": {"audio.segment": 2}})
    first, second = answer.model_extra["specdec"]["pieces"]
    assert text_of(answer) == first["caption"]
    assert second["error"]["type"] == "AudioContentError"
    assert "The recording" in second["error"]["message"]


def test_pieces_that_all_fail_are_no_empty_caption(client):
    asked: dict[str, Any] = {"model": "specdec/edge", "messages": message(spoken(1, 0.39))}
    too_short = {"audio.segment": 0.2, "audio.no_speech": "refuse"}
    with pytest.raises(openai.BadRequestError, match="The recording") as caught:
        client.chat.completions.create(**asked, extra_body={"specdec": too_short})
    assert caught.value.code == "AudioContentError"


@pytest.mark.parametrize("name", few(["flac", "ogg", "mp3", "m4a"]))
def test_formats(client, name):
    if name == "m4a" and "aac" not in av.codecs_available:
        pytest.skip("FFmpeg has no encoder of AAC")
    write = ffmpeg_bytes if name == "m4a" else sndfile_bytes
    data = base64.b64encode(write(voice(3, 2)[:, None], RATE, "sf.mp3" if name == "mp3" else name)).decode()
    said = text_of(ask(client, message(data, name), "edge"))
    assert said
    assert text_of(ask(client, at_address(f"data:audio/{name};base64,{data}"), "edge")) == said


@pytest.mark.parametrize("stream", [False, True])
def test_stop_strings_end_a_caption(client, tmp_path, stream):
    whole = alone(tmp_path, 4).caption or ""
    stop = whole.split(" ")[4]
    assert text_of(ask(client, spoken(4), stop=[stop, "never said"], stream=stream)) == whole.partition(stop)[0].strip()


def test_a_length_ends_a_caption(client, tmp_path):
    short = ask(client, spoken(4), max_tokens=5)
    assert (short.choices[0].finish_reason, short.usage.completion_tokens) == ("length", 5)
    assert text_of(ask(client, spoken(4), max_tokens=100_000)) == alone(tmp_path, 4).caption


def test_a_json_object_has_the_classes(client):
    answer = ask(client, spoken(5), response_format={"type": "json_object"})
    found, own = json.loads(text_of(answer)), answer.model_extra["specdec"]
    attributes = Lexicon.read().attributes
    assert list(found) == ["caption", *attributes, "emotions", "flags"]
    assert {name: found[name] for name in attributes} == own["labels"]
    assert found["caption"] == own["pieces"][0]["caption"]
    pitch = {"type": ["string", "null"], "enum": [*attributes["pitch"], None]}
    other = {"anyOf": [{"type": "string", "enum": list(attributes["voice"])}, {"type": "null"}], "title": "Voice"}
    schema = {"type": "object", "properties": {"pitch": pitch, "voice": other}, "required": ["pitch", "caption"]}
    form = {"type": "json_schema", "json_schema": {"name": "voice", "schema": schema}}
    for stream in (False, True):
        said = text_of(ask(client, spoken(5), response_format=form, stream=stream))
        assert json.loads(said) == {name: found[name] for name in ("pitch", "voice", "caption")}


def test_logprobs_list_the_likeliest(client):
    answer = ask(client, spoken(6), "lossless", logprobs=True, top_logprobs=3)
    for each in answer.choices[0].logprobs.content:
        assert len(each.top_logprobs) <= 3
        assert each.top_logprobs[0].token == each.token  # greedy
        assert each.top_logprobs[0].logprob == each.logprob
        assert bytes(each.bytes or []).decode() == each.token


def test_a_token_that_is_not_among_the_likeliest_has_the_number_of_the_api(client):
    """Drawn from a distribution that is nearly flat, most tokens are none of the 20."""
    hot = {"decoding.temperature": 1000.0, "decoding.max_new_tokens": 4, "decoding.loop_period": 0}
    answer = ask(client, spoken(6), "edge", logprobs=True, top_logprobs=20, extra_body={"specdec": hot})
    for each in answer.choices[0].logprobs.content:
        listed = {top.token: top.logprob for top in each.top_logprobs}
        assert len(listed) == 20
        assert each.logprob == listed.get(each.token, -9999.0)
    assert any(each.logprob == -9999.0 for each in answer.choices[0].logprobs.content)


EARLIER = [{"role": "user", "content": "How is she?"}, {"role": "assistant", "content": None, "tool_calls": []}]
TOOL = {"type": "function", "function": {"name": "a", "parameters": {}}}
LENIENT: dict[str, tuple[Callable[[str], list[dict[str, Any]]], dict[str, Any]]] = {
    "nulls": (
        message,
        {"tools": None, "stop": None, "specdec": None, "response_format": {"type": "text", "json_schema": None}},
    ),
    "null in a part": (
        lambda data: [{"role": "user", "content": [message(data)[0]["content"][0] | {"text": None}]}],
        {},
    ),
    "tools": (message, {"tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": True, "logit_bias": {}}),
    "no tools": (message, {"tools": [], "tool_choice": "none"}),
    "floats": (message, {"max_tokens": 900.0, "n": 1.0, "seed": 3.0, "presence_penalty": 0, "frequency_penalty": 0.0}),
    "bookkeeping": (
        lambda data: [message(data)[0] | {"name": "someone"}],
        {"metadata": {"a": "b"}, "service_tier": "auto"},
    ),
    "a data URL": (lambda data: message(f"data:;base64,{data}"), {"safety_identifier": "someone"}),
    "lines": (lambda data: message("\r\n".join(data[at : at + 76] for at in range(0, len(data), 76)), "opus"), {}),
    "no padding": (lambda data: message(data.rstrip("=")), {}),
    "URL-safe": (lambda data: message(data.replace("+", "-").replace("/", "_")), {}),
    "history": (lambda data: [*EARLIER, *message(data)], {}),
    "lmms-eval": (
        lambda data: at_address(f"data:audio/wav;base64,{data}"),
        {"max_tokens": 4096, "temperature": 0},
    ),
    "a recording in the history": (lambda data: [*message(spoken(9)), EARLIER[1], *message(data)], {}),
    "a question behind the history": (lambda data: [*message(data), EARLIER[1], EARLIER[0]], {}),
    "a system prompt": (lambda data: [{"role": "system", "content": "Answer in French."}, *message(data)], {}),
}
"""What clients send beside a recording: the caption is the same."""


@pytest.mark.parametrize("name", few(LENIENT, 5))
def test_what_clients_add_changes_nothing(client, name):
    data = spoken(3)
    assert data.endswith("=")
    assert {"+", "/"} < set(data)
    messages, more = LENIENT[name]
    body = {"model": "specdec/edge", "messages": messages(data), **more}
    answer = client.post("/chat/completions", body=body, cast_to=httpx.Response).json()
    plain = ask(client, data, "edge")
    assert answer["choices"][0]["message"]["content"] == text_of(plain)
    assert answer["usage"] == plain.usage.model_dump(exclude_none=True)
    warnings = " ".join(answer["specdec"]["warnings"])
    said = {
        "The tools were left out": ("tools",),
        "Earlier answers": ("history",),
        "The text of": ("system", "question"),
    }
    for warning, words in said.items():
        due = any(word in name for word in words) and name != "no tools"
        assert (warning in warnings) == due, warnings


def test_a_path_may_end_in_a_slash_and_a_body_begin_with_a_mark(served, client):
    body = b"\xef\xbb\xbf" + json.dumps({"model": "specdec/edge", "messages": message(spoken(1))}).encode()
    head = {"Authorization": f"Bearer {TOKEN}"}
    assert httpx.get(f"{served.url}/v1/models/", headers=head).status_code == 200
    found = httpx.post(f"{served.url}/v1/chat/completions/", content=body, headers=head, timeout=120).json()
    assert found["choices"][0]["message"]["content"] == text_of(ask(client, spoken(1), "edge"))


@pytest.mark.slow
def test_text_that_the_models_do_not_follow_is_said_to_be_left_out(client, tmp_path):
    asked = [{"role": "system", "content": "Be short."}, *message(spoken(2), text="Transcribe the speech.")]
    answer = ask(client, asked)
    assert text_of(answer) == alone(tmp_path, 2).caption
    assert "left out" in answer.model_extra["specdec"]["warnings"][0]
    forced = ask(client, message(spoken(2), text="Is it loud?"), extra_body={"specdec": {"prompt.force": True}})
    assert forced.model_extra["specdec"]["pieces"][0]["prompt"] == "Is it loud?"


def of_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """A request for an object with these properties."""
    wanted = {"name": "a", "schema": {"properties": properties}}
    return {"response_format": {"type": "json_schema", "json_schema": wanted}}


REFUSED: list[tuple[dict[str, Any], int, str, str]] = [
    ({"model": "gpt-4o-audio-preview"}, 404, "model_not_found", "specdec/hybrid, specdec/lossless"),
    ({"reasoning_effort": "low"}, 400, "unsupported_parameter", "reasoning_effort is not supported"),
    ({"tool_choice": "required"}, 400, "invalid_value", "tool_choice: a caption calls no tool; ask for JSON"),
    ({"logit_bias": {"5": 1}}, 400, "invalid_value", "logit_bias: no token is favoured here"),
    ({"n": 2}, 400, "invalid_value", "n: "),
    (
        {"max_tokens": 5, "max_completion_tokens": 9},
        400,
        "invalid_value",
        "max_tokens is 5 and",
    ),
    (
        {"temperature": 0, "specdec": {"decoding.temperature": 0.7}},
        400,
        "invalid_value",
        "specdec.decoding.temperature is 0.7, and another field of the request says 0",
    ),
    ({"max_tokens": 1.5}, 400, "invalid_value", "max_tokens: "),
    ({"messages": [*message(spoken(1)), *message(spoken(2))]}, 400, "invalid_audio", "this one has 2"),
    ({"messages": message("A" * 9)}, 400, "invalid_audio", "base64"),
    ({"messages": [{"role": "user", "content": "Hello"}]}, 400, "invalid_audio", "this one has 0"),
    ({"messages": message("!!!")}, 400, "invalid_audio", "base64"),
    ({"messages": message("AAAA")}, 400, "AudioDecodeError", "The recording cannot be decoded"),
    ({"messages": message("")}, 400, "AudioDecodeError", "The recording is empty"),
    ({"messages": message(encoded(np.zeros(RATE, np.float32)))}, 400, "AudioContentError", "The recording"),
    ({"messages": message(encoded(voice(1, 0.01)))}, 400, "AudioContentError", "The recording"),
    ({"messages": message("data:audio/wav,RIFF")}, 400, "invalid_audio", "data URL has to be in base64"),
    ({"messages": message("http://127.0.0.1:1/a.wav")}, 400, "unsupported_url", "not fetched from addresses"),
    ({"messages": [{"role": "pirate", "content": "x"}]}, 400, "invalid_value", "messages[0]: "),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "to": 1}]}]},
        400,
        "unsupported_parameter",
        "messages[0].content[0].to is not supported",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        400,
        "invalid_value",
        "messages[0].content[0].text: Field required",
    ),
    ({"temperature": 3}, 400, "invalid_value", "temperature"),
    ({"stop": ["a"] * 5}, 400, "invalid_value", "stop: List should have at most 4 items"),
    ({"specdec": {"decoding.stop_strings": ["a"] * 17}}, 400, "invalid_value", "may list 16 values"),
    ({"specdec": {"gate.file": "/etc/gate.json"}}, 400, "unsupported_parameter", "gate.file is not a setting"),
    ({"stop": ""}, 400, "ConfigError", "stop_strings"),
    ({"specdec": {"edge.model": "/etc/passwd"}}, 400, "unsupported_parameter", "specdec.edge.model is not a setting"),
    ({"specdec": {"runtime.threads": 64}}, 400, "unsupported_parameter", "runtime.threads"),
    ({"specdec": {"audio.segment": "/etc"}}, 400, "unsupported_parameter", "takes no file"),
    ({"specdec": {"decoding.mode": "both"}}, 404, "model_not_found", "no such model"),
    (
        {"specdec": {"decoding.k": 65}},
        400,
        "ConfigError",
        "decoding.k takes auto, whole or a whole number from 1 to 64",
    ),
    ({"specdec": {"gate.threshold": 0.5}, "model": "specdec/edge"}, 400, "ConfigError", "gate.threshold"),
    ({"specdec": {"decoding.max_new_tokens": 100_000}}, 400, "invalid_value", "1024"),
    (
        {"messages": message(spoken(1), text="loud " * 5000), "specdec": {"prompt.force": True}},
        400,
        "context_length_exceeded",
        "may follow",
    ),
    ({"specdec": {"language": "fr"}}, 400, "ConfigError", "prompt.language"),
    ({"response_format": {"type": "grammar"}}, 400, "invalid_value", "response_format"),
    (of_schema({"age": {}}), 400, "invalid_json_schema", "has no property age"),
    (of_schema({"pitch": {"enum": ["low"]}}), 400, "invalid_json_schema", "has to allow for pitch"),
]


@pytest.mark.parametrize(("changes", "status", "code", "says"), REFUSED)
def test_what_is_not_supported_is_refused_by_name(served, client, changes, status, code, says):
    for stream in (False, True):
        body = {"model": "specdec/hybrid", "messages": message(spoken(1)), "stream": stream, **changes}
        with pytest.raises(openai.APIStatusError) as caught:
            client.post("/chat/completions", body=body, cast_to=object)
        error = caught.value
        assert (error.status_code, error.code) == (status, code), error.message
        assert says in error.message
        assert "/proc/" not in error.message
        assert error.type in ("invalid_request_error", "not_found_error")
    assert served.becomes_idle()


def test_other_paths_of_the_api_are_refused_in_its_form(client):
    with pytest.raises(openai.NotFoundError, match="nothing is at this path") as error:
        client.responses.create(model="specdec/hybrid", input="Hello")
    assert (error.value.code, error.value.type) == ("unknown_path", "not_found_error")


def test_the_models_are_those_that_are_loaded(client):
    assert [each.id for each in client.models.list()] == [f"specdec/{mode}" for mode in MODES]
    assert client.models.retrieve("specdec/edge").id == "specdec/edge"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("specdec/none")
    with pytest.raises(openai.AuthenticationError, match="the access token"):
        client.with_options(api_key="wrong").models.list()
    for mode, verifies in (("edge", 404), ("cloud", 200)):
        with captioning(settings={"decoding.mode": mode}) as one:
            assert [each.id for each in one.client().models.list()] == [f"specdec/{mode}"]
            with pytest.raises(openai.NotFoundError, match=f"This server has specdec/{mode}"):
                ask(one.client(), spoken(1))
            head = {"Authorization": f"Bearer {TOKEN}"}
            assert one.client()._client.get(f"{one.url}/v1/info", headers=head).status_code == verifies


def test_metrics_count_captions_and_name_nobody(served, client):
    ask(client, spoken(1), "edge", user="somebody")
    found = client._client.get(f"{served.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text
    assert 'specdec_captions_total{mode="edge"}' in found
    assert 'route="POST /v1/chat/completions",status="200"' in found
    assert "somebody" not in found


def test_nothing_of_a_request_is_logged_written_or_kept(served, client, caplog, monkeypatch):
    """But for numbers; a refused one included."""
    secret, kept = "a patient of room 7", served.offer.captions._captioner_of.cache_info
    opened, wanted = list[object](), threading.Event()

    def note(event: str, given: tuple[Any, ...]) -> None:  # no hook can be taken away
        if wanted.is_set() and event == "open" and isinstance(given[0], str | bytes):
            opened.extend([given[0]] if given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else [])

    sys.addaudithook(note)
    ask(client, spoken(1), "edge")
    before = kept().currsize
    wanted.set()
    with caplog.at_level(logging.DEBUG, "specdec_cli"):
        for own in ({}, {"prompt.instruction": secret}, {"decoding.stop_strings": [secret]}):
            asked = message(spoken(1), text=secret if not own else None)
            answer = ask(client, asked, "edge", user=secret, extra_body={"specdec": {"prompt.force": True, **own}})
        with pytest.raises(openai.BadRequestError):
            ask(client, message("AAAA", text=secret), "edge")
    wanted.clear()
    assert opened == []
    logged = " ".join(f"{vars(record)}" for record in caplog.records)
    assert "/v1/chat/completions" in logged
    assert secret not in logged
    assert text_of(answer) not in logged
    assert kept().currsize == before + 1  # of the settings without a text of the client's


@pytest.mark.parametrize(("error", "status"), [(RuntimeError("illegal access"), 500), (CloudError("it is gone"), 503)])
@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_of_a_model_is_not_the_request_s_fault(client, monkeypatch, error, status, stream):
    def fail(*_: object) -> torch.Tensor:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Session, "logits", fail)
        with pytest.raises(openai.InternalServerError, match=str(error)) as caught:
            ask(client, spoken(1), "edge", stream=stream)
    assert caught.value.status_code == status
    assert text_of(ask(client, spoken(1), "edge"))


def test_settings_that_ban_all_tokens_are_the_request_s_fault():
    (row,) = read(torch.full((1, 4), -math.inf))
    with pytest.raises(ScoresError) as raised:
        row.require_finite("tiny")
    error = refusal_of(raised.value)
    assert (error.status_code, error.code) == (400, "ScoresError")
    assert error.detail.startswith("the logits of tiny are not finite. If decoding.no_repeat_ngram is set, it may have")
