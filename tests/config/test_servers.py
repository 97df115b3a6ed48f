"""Models at addresses: nothing in clear over a network, and no recordings to a vLLM, unless it is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.config import Config, load_config
from tests.config.conftest import assert_refused

URL = "https://cloud.example.org:8765"


def test_an_address_takes_the_place_of_the_model_and_the_other_way_round() -> None:
    cloud = load_config("mini", flags={"cloud.url": URL + "/"}, environ={}).config.cloud
    assert cloud is not None
    assert (cloud.url, cloud.model, cloud.label) == (URL, None, URL)
    environ = {"SPECDEC_CLOUD__URL": URL, "SPECDEC_CLOUD__TIMEOUT_S": "2.5"}
    cloud = load_config("mini", environ=environ).config.cloud
    assert cloud is not None
    assert (cloud.url, cloud.model, cloud.timeout_s) == (URL, None, 2.5)
    cloud = load_config("mini", flags={"cloud.model": "package:mini/cloud"}, environ=environ).config.cloud
    assert cloud is not None
    assert (cloud.url, cloud.model) == (None, "package:mini/cloud")


def test_it_survives_being_written_out(tmp_path: Path) -> None:
    resolved = load_config("mini", flags={"cloud.url": URL, "cloud.token_env": "TOKEN"}, environ={})
    path = tmp_path / "own.yaml"
    path.write_text(resolved.to_yaml(), encoding="utf-8")
    assert load_config(path, environ={}).config == resolved.config


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"cloud.url": URL, "cloud.model": "package:mini/cloud"}, ["cloud.url", "cloud.model"]),
        ({"cloud.url": URL, "cloud.dtype": "float32"}, ["cloud.dtype", "cloud.url"]),
        ({"cloud.token_env": "TOKEN"}, ["cloud.token_env", "cloud.url"]),
        ({"cloud.url": "http://cloud.example.org"}, ["cloud.url", "cloud.allow_plain_http"]),
        ({"cloud.url": "http://127.0.0.1.example.org"}, ["cloud.url", "cloud.allow_plain_http"]),
        ({"cloud.url": "ftp://host"}, ["cloud.url", "https://host:8765"]),
        ({"cloud.url": "cloud.example.org:8765"}, ["cloud.url", "https://host:8765"]),
        ({"cloud.url": "https://host:99999"}, ["cloud.url", "https://host:8765"]),
        ({"cloud.url": "https://user:secret@host"}, ["cloud.url", "token_env"]),
        ({"cloud.url": "https://host/?a=b"}, ["cloud.url", "?"]),
        ({"cloud.url": URL, "cloud.token_env": "not a name"}, ["cloud.token_env"]),
        ({"cloud.url": URL, "edge": None}, ["cloud.processor"]),
        ({"cloud.model": URL}, ["cloud.model", "cloud.url"]),
    ],
)
def test_what_makes_no_sense_is_refused(flags: dict[str, object], named: list[str]) -> None:
    mode = {"decoding.mode": "cloud"} if "edge" in flags else {}
    error = assert_refused(lambda: load_config("mini", flags={**flags, **mode}, environ={}), *named)
    assert "secret" not in error.message


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "http://127.9.9.9:1"])
def test_this_machine_may_be_reached_in_clear(url: str) -> None:
    assert load_config("mini", flags={"cloud.url": url}, environ={}).config.cloud is not None
    far = {"cloud.url": "http://10.0.0.1:1", "cloud.allow_plain_http": True}
    assert load_config("mini", flags=far, environ={}).config.cloud is not None


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


def test_a_revision_belongs_to_the_model_of_its_layer(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    settings = {**SERVER, "cloud.revision": "abc"}
    cloud = "".join(f"  {name.removeprefix('cloud.')}: {json.dumps(value)}\n" for name, value in settings.items())
    path.write_text(f"edge: owner/edge\ncloud:\n{cloud}", encoding="utf-8")
    flags = ({"cloud.model": "served"}, {"cloud.model": "other"}, {"cloud.url": "http://127.0.0.1:9"})
    clouds = [load_config(path, flags=given, environ={}).config.cloud for given in flags]
    assert [cloud and cloud.revision for cloud in clouds] == ["abc", None, "abc"]


def test_the_shipped_file_waits_for_leave() -> None:
    assert_refused(lambda: load_config("qwen2.5-omni-vllm", environ={}), "cloud.allow_audio_upload")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"cloud.allow_audio_upload": False}, "cloud.allow_audio_upload"),
        ({"cloud.url": None}, "cloud.url"),
        ({"cloud.model": None}, "cloud.model"),
        ({"cloud.url": "http://gpu:8000"}, "cloud.allow_plain_http"),
        ({"decoding.temperature": 0.5}, "decoding.temperature"),
        ({"decoding.repetition_penalty": 1.1}, "decoding.repetition_penalty"),
        ({"acceptance.rule": "typical"}, "acceptance.rule"),
        ({"acceptance.rule": "rank", "acceptance.rank": 17}, "acceptance.rank"),
        ({"cloud.engine": "specdec"}, "cloud.model"),
        ({"edge.engine": "vllm"}, "edge.url"),
        ({"edge.url": "http://127.0.0.1:1"}, "edge.engine"),
        ({"edge.url": "http://127.0.0.1:1", "edge.engine": "vllm"}, "edge.allow_audio_upload"),
    ],
)
def test_what_a_vllm_cannot_do_is_refused(settings: dict[str, Any], named: str) -> None:
    assert_refused(lambda: _loaded(**settings), named)


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
