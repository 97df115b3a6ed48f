"""Models at addresses: nothing in clear over a network, and no recordings to a vLLM, unless it is allowed."""

import os
from pathlib import Path

import pytest

from specdec_cli.config import CloudConfig, load_config
from tests.config.conftest import assert_refused

URL = "https://cloud.example.org:8765"
SERVER = {
    "edge": "owner/edge",
    "cloud.model": "http://127.0.0.1:8000",
    "cloud.served_model": "served",
    "remote.allow_audio_upload": True,
}


def cloud_of(source: str | Path | None = None, environ: dict[str, str] | None = None, **flags: object) -> CloudConfig:
    given = {name.replace("__", "."): value for name, value in flags.items()}
    cloud = load_config(source, flags=given, environ=environ or {}).config.cloud
    assert cloud is not None
    return cloud


def test_a_model_is_a_name_or_an_address():
    assert cloud_of(cloud="HTTPS://Far.Example:8765").url == "https://Far.Example:8765"
    cloud = cloud_of(cloud=URL + "/")
    assert (cloud.url, cloud.label) == (URL, URL)
    environ = {"SPECDEC_CLOUD": URL, "SPECDEC_CLOUD__TOKEN_ENV": "KEY"}
    cloud = cloud_of(environ=environ)
    assert (cloud.url, cloud.token_env) == (URL, "KEY")
    cloud = cloud_of(environ=environ, cloud__model="package:mini/cloud")
    assert (cloud.url, cloud.model, cloud.token_env) == (None, "package:mini/cloud", "KEY")


def test_an_edge_is_waited_for_longer_unless_a_setting_says_how_long():
    """Without its edge a clip fails; without its cloud the edge goes on."""
    flags = {**SERVER, "edge": "http://127.0.0.1:1", "edge.served_model": "small"}
    for given, expected in (({}, (120, 5)), ({"remote.timeout_s": 60}, (60, 60))):
        config = load_config(flags={**flags, **given}, environ={}).config
        assert (config.server("edge").timeout_s, config.server("cloud").timeout_s) == expected


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"cloud.model": "http://cloud.example.org"}, ["cloud.model", "remote.allow_plain_http"]),
        ({"cloud.model": "http://127.0.0.1.example.org"}, ["cloud.model", "remote.allow_plain_http"]),
        ({"cloud.model": "HtTp://cloud.example.org"}, ["remote.allow_plain_http"]),
        ({"cloud.model": "https://host:99999"}, ["cloud.model", "https://host:8765"]),
        ({"cloud.model": "https://user:secret@host"}, ["cloud.model", "token_env"]),
        ({"cloud.model": URL, "edge": None, "decoding.mode": "cloud"}, ["cloud.processor"]),
        ({**SERVER, "remote.allow_audio_upload": False}, ["remote.allow_audio_upload"]),
        ({**SERVER, "cloud.model": "owner/cloud"}, ["cloud.served_model", "cloud.model"]),
        ({**SERVER, "cloud.model": "http://gpu:8000"}, ["remote.allow_plain_http"]),
        ({**SERVER, "decoding.temperature": 0.5}, ["decoding.temperature"]),
        ({**SERVER, "decoding.acceptance": "typical"}, ["decoding.acceptance"]),
        ({**SERVER, "decoding.acceptance": "rank"}, ["decoding.acceptance"]),
        ({**SERVER, "edge.served_model": "small"}, ["edge.model", "edge.served_model"]),
        ({**SERVER, "edge.model": "http://127.0.0.1:1"}, ["edge.served_model"]),
        (
            {"cloud": URL, "edge.model": "http://127.0.0.1:1", "edge.served_model": "small"},
            ["edge.model", "cloud.model", "cloud.served_model"],
        ),
    ],
)
def test_what_makes_no_sense_is_refused(flags, named):
    error = assert_refused(lambda: load_config(flags=flags, environ={}), *named)
    assert "secret" not in error.message


@pytest.mark.parametrize(
    "flags",
    [
        *({"cloud.model": f"http://{host}:1"} for host in ("127.0.0.1", "localhost", "[::1]", "127.9.9.9")),
        {"cloud.model": "http://10.0.0.1:1", "remote.allow_plain_http": True},
        {**SERVER, "decoding.acceptance": "greedy"},
        {**SERVER, "decoding.acceptance": "class"},
        {**SERVER, "decoding.mode": "lossless"},
    ],
)
def test_what_makes_sense_is_not(flags):
    assert cloud_of(**flags).label == flags["cloud.model"]


def test_the_address_of_a_vllm_and_the_name_of_its_model_are_two_settings():
    for name, value in (("cloud.model", "https://gpu:9"), ("cloud.served_model", "other")):
        shipped = cloud_of("qwen2.5-omni-vllm", **{"remote.allow_audio_upload": True, name: value})
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
    assert_refused(lambda: load_config("qwen2.5-omni-vllm", environ={}), "remote.allow_audio_upload")
    flags = {"decoding.mode": "edge", "decoding.temperature": 0.7, "decoding.repetition_penalty": 1.3}
    assert load_config("qwen2.5-omni-vllm", flags=flags, environ={}).config.decoding.temperature == 0.7
