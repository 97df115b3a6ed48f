"""A vLLM server as the cloud: a model at an address, only with leave, and only for what it can tell."""

from __future__ import annotations

from typing import Any

import pytest

from specdec_cli.config import Config, load_config
from specdec_cli.errors import ConfigError

SERVER = {
    "cloud.engine": "vllm",
    "cloud.url": "http://127.0.0.1:8000",
    "cloud.model": "served",
    "cloud.allow_audio_upload": True,
}


def _loaded(**settings: Any) -> Config:
    return load_config(flags={"edge": "owner/edge", **SERVER, **settings}, environ={}).config


def test_address_and_model_stand_side_by_side() -> None:
    cloud = _loaded().cloud
    assert cloud is not None
    assert (cloud.engine, cloud.url, cloud.model, cloud.label) == ("vllm", SERVER["cloud.url"], "served", cloud.url)


def test_a_later_address_keeps_the_model_of_a_vllm_and_a_later_model_its_address() -> None:
    for name, value in (("cloud.url", "https://gpu:9"), ("cloud.model", "other")):
        shipped = load_config(
            "qwen2.5-omni-vllm", flags={"cloud.allow_audio_upload": True, name: value}, environ={}
        ).config.cloud
        assert shipped is not None
        wanted = {"cloud.url": "http://127.0.0.1:8000", "cloud.model": "Qwen/Qwen2.5-Omni-7B", name: value}
        assert (shipped.url, shipped.model) == (wanted["cloud.url"], wanted["cloud.model"])


def test_the_shipped_file_waits_for_leave() -> None:
    with pytest.raises(
        ConfigError, match=r"which takes the recordings, but cloud.allow_audio_upload is false"
    ) as error:
        load_config("qwen2.5-omni-vllm", environ={})
    assert "Recordings would leave this machine" in str(error.value.hint)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cloud.allow_audio_upload": False}, "cloud.allow_audio_upload is false"),
        ({"cloud.url": None}, "but cloud.url is null"),
        ({"cloud.model": None}, "but cloud.model is null"),
        ({"cloud.url": "http://gpu:8000"}, "which is not encrypted"),
        ({"decoding.temperature": 0.5}, "the likeliest tokens only, but decoding.temperature is 0.5"),
        ({"decoding.repetition_penalty": 1.1}, "but decoding.repetition_penalty is 1.1"),
        ({"decoding.no_repeat_ngram": 2}, "but decoding.no_repeat_ngram is 2"),
        ({"decoding.min_new_tokens": 3}, "but decoding.min_new_tokens is 3"),
        ({"acceptance.rule": "typical"}, "but acceptance.rule is typical"),
        ({"acceptance.rule": "prob"}, "but acceptance.rule is prob"),
        ({"acceptance.rule": "rank", "acceptance.rank": 17}, "but acceptance.rank is 17"),
        ({"cloud.engine": "specdec"}, "leave one of them out"),
    ],
)
def test_what_a_vllm_cannot_do_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        _loaded(**settings)
    assert said in f"{error.value.message} {error.value.hint}"


@pytest.mark.parametrize(
    "settings",
    [
        {"acceptance.rule": "greedy"},
        {"acceptance.rule": "rank", "acceptance.rank": 16},
        {"decoding.mode": "lossless"},
    ],
)
def test_what_it_can_do_is_not(settings: dict[str, Any]) -> None:
    _loaded(**settings)


def test_the_edge_alone_needs_no_leave_and_no_limits() -> None:
    flags = {"decoding.mode": "edge", "decoding.temperature": 0.7, "decoding.repetition_penalty": 1.3}
    assert load_config("qwen2.5-omni-vllm", flags=flags, environ={}).config.decoding.temperature == 0.7
