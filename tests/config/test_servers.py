"""Models at addresses: nothing in clear over a network, and no recordings to a vLLM, unless it is allowed."""

import os
from pathlib import Path

import pytest

from specdec_cli.config import CloudConfig, load_config
from tests.config.conftest import assert_refused

URL = "https://cloud.example.org:8765"
SERVER = {
    "edge": "owner/edge",
    "cloud.engine": "vllm",
    "cloud.model": "http://127.0.0.1:8000",
    "cloud.served_model": "served",
    "cloud.allow_audio_upload": True,
}


def cloud_of(source: str | Path | None = None, environ: dict[str, str] | None = None, **flags: object) -> CloudConfig:
    given = {name.replace("__", "."): value for name, value in flags.items()}
    cloud = load_config(source, flags=given, environ=environ or {}).config.cloud
    assert cloud is not None
    return cloud


def test_a_model_is_a_name_or_an_address():
    cloud = cloud_of(cloud=URL + "/")
    assert (cloud.url, cloud.label) == (URL, URL)
    environ = {"SPECDEC_CLOUD": URL, "SPECDEC_CLOUD__TIMEOUT_S": "2.5"}
    cloud = cloud_of(environ=environ)
    assert (cloud.url, cloud.timeout_s) == (URL, 2.5)
    cloud = cloud_of(environ=environ, cloud__model="package:mini/cloud")
    assert (cloud.url, cloud.model, cloud.timeout_s) == (None, "package:mini/cloud", 2.5)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"cloud.model": "http://cloud.example.org"}, ["cloud.model", "cloud.allow_plain_http"]),
        ({"cloud.model": "http://127.0.0.1.example.org"}, ["cloud.model", "cloud.allow_plain_http"]),
        ({"cloud.model": "https://host:99999"}, ["cloud.model", "https://host:8765"]),
        ({"cloud.model": "https://user:secret@host"}, ["cloud.model", "token_env"]),
        ({"cloud.model": URL, "edge": None, "decoding.mode": "cloud"}, ["cloud.processor"]),
        ({**SERVER, "cloud.allow_audio_upload": False}, ["cloud.allow_audio_upload"]),
        ({**SERVER, "cloud.model": "owner/cloud"}, ["cloud.engine", "cloud.model"]),
        ({**SERVER, "cloud.served_model": None}, ["cloud.served_model"]),
        ({**SERVER, "cloud.model": "http://gpu:8000"}, ["cloud.allow_plain_http"]),
        ({**SERVER, "decoding.temperature": 0.5}, ["decoding.temperature"]),
        ({**SERVER, "acceptance.rule": "typical"}, ["acceptance.rule"]),
        ({**SERVER, "acceptance.rule": "rank"}, ["acceptance.rule"]),
        ({**SERVER, "edge.engine": "vllm"}, ["edge.model"]),
        ({**SERVER, "edge.model": "http://127.0.0.1:1"}, ["edge.engine"]),
        ({**SERVER, "edge.model": "http://127.0.0.1:1", "edge.engine": "vllm"}, ["edge.allow_audio_upload"]),
    ],
)
def test_what_makes_no_sense_is_refused(flags, named):
    error = assert_refused(lambda: load_config(flags=flags, environ={}), *named)
    assert "secret" not in error.message


@pytest.mark.parametrize(
    "flags",
    [
        *({"cloud.model": f"http://{host}:1"} for host in ("127.0.0.1", "localhost", "[::1]", "127.9.9.9")),
        {"cloud.model": "http://10.0.0.1:1", "cloud.allow_plain_http": True},
        {**SERVER, "acceptance.rule": "greedy"},
        {**SERVER, "acceptance.rule": "class"},
        {**SERVER, "decoding.mode": "lossless"},
    ],
)
def test_what_makes_sense_is_not(flags):
    assert cloud_of(**flags).label == flags["cloud.model"]


def test_the_address_of_a_vllm_and_the_name_of_its_model_are_two_settings():
    for name, value in (("cloud.model", "https://gpu:9"), ("cloud.served_model", "other")):
        shipped = cloud_of("qwen2.5-omni-vllm", **{"cloud.allow_audio_upload": True, name: value})
        wanted = {"cloud.model": "http://127.0.0.1:8000", "cloud.served_model": "Qwen/Qwen2.5-Omni-7B", name: value}
        assert (shipped.url, shipped.served_model) == (wanted["cloud.model"], wanted["cloud.served_model"])


@pytest.mark.parametrize(
    ("name", "source", "revision"),
    [("owner/one@v1.2", "owner/one", "v1.2"), ("owner/one", "owner/one", None), ("./a@b", None, None)],
)
def test_a_revision_stands_behind_the_name_of_a_model_of_the_hub(name, source, revision):
    cloud = cloud_of(**{"cloud.model": name})
    assert (cloud.source, cloud.revision) == (source or os.path.abspath("a@b"), revision)


def test_the_shipped_file_waits_for_leave_except_in_mode_edge():
    assert_refused(lambda: load_config("qwen2.5-omni-vllm", environ={}), "cloud.allow_audio_upload")
    flags = {"decoding.mode": "edge", "decoding.temperature": 0.7, "decoding.repetition_penalty": 1.3}
    assert load_config("qwen2.5-omni-vllm", flags=flags, environ={}).config.decoding.temperature == 0.7
